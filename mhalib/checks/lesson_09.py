"""The exercises of lesson 09."""
