"""ReshapeView in Python: what it tells about each station is what torch does, and nothing else can be set."""

import itertools

import pytest
import torch
import traitlets

from headview import ReshapeView
from headview.reshape_view.paths import PATHS
from mhalib import merge_heads, split_heads
from mhalib.reference import import_d2l
from tests.helpers.refusals import accepted

RIGHT = {"wrong split": "split", "wrong merge": "merge"}


def stations(view, path):
    """Go along a path, and give what is told of each station, with its tensor."""
    view.path = path
    for step in range(len(view.stations[path])):
        view.step = step
        yield view.stations[path][step], view.tensor


@pytest.mark.parametrize("size", [(4, 2, 3, 1), (4, 2, 3, 2), (3, 1, 4, 1), (1, 2, 2, 2), (8, 4, 4, 2)], ids=str)
def test_the_code_shown_makes_what_is_told_and_leads_where_the_library_leads(size):
    tokens, num_heads, head_dim, batch = size
    sizes = {"B": batch, "T": tokens, "num_heads": num_heads, "head_dim": head_dim, "d_model": num_heads * head_dim}
    sizes["B * num_heads"] = batch * num_heads
    view = ReshapeView(tokens, num_heads, head_dim, batch=batch)
    x, ends = view.tensor, {}
    assert x.unique().numel() == x.numel() and view.chosen in x
    for path in PATHS:
        names, before = {"torch": torch, "x": x, **sizes}, None
        for facts, tensor in stations(view, path):
            exec(facts["code"], names)
            made = names[facts["name"]]
            assert torch.equal(made, tensor)
            assert (facts["shape"], facts["strides"]) == (list(made.shape), list(made.stride()))
            assert facts["contiguous"] == made.is_contiguous()
            assert facts["shape"] == [sizes[axis] for axis in facts["axes"]]
            same = before is not None and made.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
            assert facts["memory"] == ("start" if before is None else "view" if same else "copy")
            cells, should = facts["cells"], facts["right"]
            assert cells == tensor.flatten().tolist()
            assert path in RIGHT and before is not None or should == cells
            before = made
        ends[path] = facts, tensor, should
    assert torch.equal(ends["split"][1], split_heads(x, num_heads))
    assert torch.equal(ends["merge"][1], merge_heads(split_heads(x, num_heads))) and torch.equal(ends["merge"][1], x)
    assert torch.equal(ends["fold"][1], import_d2l().transpose_qkv(x, num_heads))
    for wrong, right in RIGHT.items():
        (facts, tensor, should), wanted = ends[wrong], ends[right][1]
        assert tensor.shape == wanted.shape and should == wanted.flatten().tolist()
        if count := int((tensor != wanted).sum()):
            assert facts["mistake"].startswith(f"{count} of {tensor.numel()} numbers")
        else:
            assert "the mistake hides" in facts["mistake"] and 1 in (tokens, num_heads)


def test_known_examples():
    view = ReshapeView()
    assert (view.path, view.step, view.chosen, view.colour_by) == ("split", 0, 23, "token")
    mistake = view.stations["wrong split"][1]["mistake"]
    assert "the row of head 0, token 1 holds 3, 4, 5; it should hold 10, 11, 12." in mistake
    assert not any(facts["mistake"] for path in ("split", "merge", "fold") for facts in view.stations[path])
    assert [facts["memory"] for facts in view.stations["merge"]] == ["start", "view", "copy", "view"]
    assert [ReshapeView(batch=batch).stations["fold"][3]["memory"] for batch in (1, 2)] == ["view", "copy"]
    view.path = "merge"
    view.step = 3
    view.path = "wrong split"
    assert view.step == 0  # a new path starts at its start
    view.set_state({"path": "merge", "step": 0})  # both at once, as the browser sends them
    view.set_state({"step": 3})
    assert (view.path, view.step) == ("merge", 3)
    assert ReshapeView(2, 2, 4, batch=2).tensor[1, 1, 7] == 117  # 100 * sample + 10 * token + feature
    assert ReshapeView(2, 4, 4, batch=2).tensor[1, 1, 15] == 1115  # 16 features need more room


def test_what_cannot_be_shown_is_refused(as_shipped):
    view = ReshapeView()
    calls = {
        "step=3 does not exist; the path 'split' has the steps 0 to 2": lambda: setattr(view, "step", 3),
        "step=True": lambda: setattr(view, "step", True),
        "is none of the labels; they are 0, 1, 2": lambda: setattr(view, "chosen", "23"),
        "TypeError: tokens must be an int": lambda: ReshapeView("2"),
        "tokens=9 is out of range; choose 1 to 8": lambda: ReshapeView(9),
        "head_dim=5 is out of range; choose 1 to 4": lambda: ReshapeView(head_dim=5),
    }
    assert accepted(calls) == []
    for name in ("sizes", "stations"):
        with pytest.raises(traitlets.TraitError):
            setattr(view, name, getattr(view, name))


def test_the_picture_shows_the_present_step_and_the_chosen_number():
    view = ReshapeView(3, 2, 2, batch=2)
    for path, colour_by in itertools.product(PATHS, ("head", "token")):
        view.colour_by = colour_by
        for facts, tensor in stations(view, path):
            figure = view.figure()
            assert [x for x in (facts["code"], str(tuple(tensor.shape)), facts["mistake"]) if x not in figure.alt] == []
            assert len(figure.axes) == (1 if view.step == 0 else 2)
            outlines = [p for axes in figure.axes for p in axes.patches if not p.get_fill()]
            assert len(outlines) == len(figure.axes)  # the chosen number, once in each
    view.path, view.step, view.chosen = "fold", 3, 122
    assert "122 = sample 1, token 2, feature 2 is at (3, 2, 0)." in view.figure().alt
    texts = [text.get_text() for text in view.figure().axes[-1].texts]
    assert [text for text in texts if text.startswith("block")] == [f"block {i}" for i in range(4)]
