"""Edits that differ from a right answer only where no case should be made of it, with the reason: no holes."""

REVIEWED: dict[str, dict[str, str]] = {
    "most_looked_at": {
        "with the axis of words lost where it has size 1": "A sentence of one word has no other word to look at."
    },
}
