"""The layer to repair in lesson 06: of each line a learner hears whether it is right, untouched or changed wrongly."""

from itertools import combinations

import torch.nn.functional as F

import mhalib
from mhacourse import check

RIGHT, UNTOUCHED = "right", "untouched, or it does the same as before"
LINES = check.repaired.lines
BROKEN = [name for name, line in LINES.items() if line.given is not None]
SUBSETS = [set(some) for count in range(len(BROKEN) + 1) for some in combinations(BROKEN, count)]
FORMS = [(line, form) for line in LINES for form in LINES[line].changed]
# Where the code stops or leaves hardly a number, what comes before cannot be seen.
HIDING = {"view cannot join what a transpose has moved, reshape can", "it runs over the heads"}


def after(mended, **changed):
    """Return of each line what it does once some are mended and others changed."""
    return {name: UNTOUCHED if name in BROKEN and name not in mended else RIGHT for name in LINES} | changed


def judged(states):
    return check.repaired(check.repaired.built(states))


def rows(note):
    """Return what a note says of each line that it names."""
    names = {f"{name[0].upper()}{name[1:]}:": name for name in LINES}
    return {names[label]: text.removesuffix(".") for label, text in note.parts if label in names}


def told(name, state):
    if state in (RIGHT, UNTOUCHED):
        return state
    return f"{'changed, but not right' if name in BROKEN else 'was right, and is not any more'}: {state}"


def test_every_set_of_mended_lines_and_every_line_that_is_changed_wrongly_is_told():
    assert len(BROKEN) == 4
    assert judged(after(())).mood == "open" and judged(after(BROKEN)).passed
    states = [after(mended) for mended in SUBSETS[1:-1]]
    states += [after(mended, **{line: form}) for mended in (SUBSETS[6], SUBSETS[-1]) for line, form in FORMS]
    failures = []
    for state in states:
        note = judged(state)
        # Of each broken line something is said, and of the others where they are wrong.
        expected = {name: told(name, does) for name, does in state.items() if name in BROKEN or does != RIGHT}
        said, left = rows(note), ", ".join(name for name in BROKEN if state[name] == UNTOUCHED)
        if HIDING & {*state.values()}:
            right = all(text == told(name, state[name]) for name, text in said.items())
        else:
            named = {*state.values()} != {RIGHT, UNTOUCHED} or note.title.endswith(f"Still to repair: {left}")
            right = said == expected and named
        failures += [] if right and note.mood == "wrong" else [(state, note)]
    assert failures == []


def tensors(layer, x):
    return [mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v)]


def stops_at_the_merge(layer, x, mask):
    heads = F.scaled_dot_product_attention(*tensors(layer, x), attn_mask=mask)
    return layer.W_o(heads.contiguous().transpose(1, 2).view(x.shape))


def own_causal(layer, x, mask):
    return layer.W_o(mhalib.merge_heads(F.scaled_dot_product_attention(*tensors(layer, x), is_causal=True)))


def test_a_line_is_told_in_another_style_and_an_error_leaves_others_unseen():
    note = check.repaired(own_causal)
    assert note.title.endswith("Still to repair: the mask") and "whatever mask comes" in repr(note)
    note = check.repaired(stops_at_the_merge)  # which leaves the other lines unseen
    lines = rows(note)
    assert lines["the merge"].startswith("changed, but not right: view") and lines["the mask"] == RIGHT
    assert "the split" not in lines and "cannot be seen yet" in repr(note) and "It stopped:" in repr(note)


def test_an_unknown_change_is_not_explained(no_edits):
    unknown = [
        lambda layer, x, m: layer(x, mask=m) * 1.01,
        lambda layer, x, m: layer(x, mask=m)[:, :0],
        lambda layer, x, m: layer(x, mask=not m),  # stops always
    ]
    notes = [check.repaired(answer) for answer in unknown]
    assert [note for note in notes if note.mood != "wrong" or rows(note)] == []
