"""Edits that differ from a right answer only where the task allows it, with the reason: no holes."""

REVIEWED: dict[str, dict[str, str]] = {}
