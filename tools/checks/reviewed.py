"""Changes that differ from a right answer only where no case should be made of it, with the reason: no holes."""

REVIEWED: dict[str, dict[str, str]] = {
    "mean_share": {
        "with another number in place of 1": "A key that nobody may see has no weight, whatever 0 is divided by."
    },
    "walk_steps": {"with `steps[found]` as one tensor": "A walk has at least one step."},
}
