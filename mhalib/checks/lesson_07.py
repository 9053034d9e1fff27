"""The exercises of lesson 07."""
