"""The layer to repair: a learner hears which lines are still broken, and what each does, in any style."""

from itertools import combinations

import torch.nn.functional as F

import mhalib
from mhacourse import check
from mhacourse.repairs import GIVEN

LINES, BROKEN = check.repaired.lines, check.repaired.broken
LEFT = [some for count in range(1, len(BROKEN)) for some in combinations(BROKEN, count)]
FORMS = [(line, form) for line in LINES for form in LINES[line].changed]


def judged(wrong):
    return check.repaired(check.repaired.built(wrong))


def test_every_set_of_mended_lines_and_every_line_that_is_changed_wrongly_is_told():
    assert len(BROKEN) == 4
    assert judged(dict.fromkeys(BROKEN, GIVEN)).mood == "open" and judged({}).passed
    notes = [(left, judged(dict.fromkeys(left, GIVEN))) for left in LEFT]
    assert [note for left, note in notes if not note.title.endswith(f"Still to repair: {', '.join(left)}")] == []
    beside = [(line, form, judged({line: form})) for line, form in FORMS]
    assert [one for one in beside if one[0] not in one[2].title or LINES[one[0]].cure not in repr(one[2])] == []
    assert sum(form in repr(note) for _, form, note in beside) > 0.9 * len(FORMS)  # some do the same as others
    note = judged({"the split": GIVEN, "the merge": GIVEN, "the softmax": "it runs over the queries"})
    assert note.title.endswith("Still to repair: the split, the merge; Broken on the way: the softmax")
    assert "2 of the 4 lines are right; the softmax: it runs over the queries." in repr(note)


def tensors(layer, x):
    return [mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v)]


def own_causal(layer, x, mask):
    return layer.W_o(mhalib.merge_heads(F.scaled_dot_product_attention(*tensors(layer, x), is_causal=True)))


def test_a_line_is_told_in_another_style():
    note = check.repaired(own_causal)
    assert note.title.endswith("Still to repair: the mask") and "whatever mask comes" in repr(note)


def test_an_unknown_change_is_not_explained(no_changes):
    unknown = [
        lambda layer, x, m: layer(x, mask=m) * 1.01,
        lambda layer, x, m: layer(x, mask=m)[:, :0],
        lambda layer, x, m: layer(x, mask=not m),  # stops always
    ]
    notes = [check.repaired(answer) for answer in unknown]
    assert [note for note in notes if note.mood != "wrong" or note.code.startswith("wrong")] == []
