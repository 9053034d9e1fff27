"""Edits that differ from a right answer only where no case should be made of it, with the reason: no holes."""

_NO_OTHER = "A sentence of one word has no other word to look at."
_ONE_HEAD = "Only one head would tell, and a case of one head hides the axis of the heads from the other mistakes."

REVIEWED: dict[str, dict[str, str]] = {
    "most_looked_at": {"with the axis of words lost where it has size 1": _NO_OTHER},
    "key_gradient": {"with d_model + 1 in the place of d_model": _ONE_HEAD},
    "fold_keys": {
        "with the axis of heads lost where it has size 1": _ONE_HEAD,
        "with width + 1 in the place of width": _ONE_HEAD,
    },
    "gate_slopes": {"with the axis of heads lost where it has size 1": _ONE_HEAD},
    "cut_heads": {"with width + 1 in the place of width": _ONE_HEAD},
    "mean_share": {"with 0.5 in the place of 1": "A key that nobody may see gets no weight, and 0 / 0.5 is 0 as well."},
}
