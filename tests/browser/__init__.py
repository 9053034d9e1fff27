"""The widgets in a real browser."""
