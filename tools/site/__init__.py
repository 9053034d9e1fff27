"""Lessons as pages and slides."""
