"""Measurements beside what a reader would use instead."""
