"""Execute lessons, store their outputs, and try them under other conditions."""
