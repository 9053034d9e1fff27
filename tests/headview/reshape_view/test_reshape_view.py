"""ReshapeView in Python: what it tells about each station is what torch does, and nothing else can be set."""

import itertools

import numpy as np
import pytest
import torch
import traitlets

from mhalib import merge_heads, split_heads
from mhalib.reference import import_d2l
from mhalib.widgets import ReshapeView
from mhalib.widgets.reshape_view.paths import PATHS

SIZES = [(4, 2, 3, 1), (4, 2, 3, 2), (1, 2, 2, 2), (3, 1, 4, 1), (2, 2, 1, 2), (8, 4, 4, 2), (5, 3, 2, 1), (1, 1, 1, 1)]


def make(tokens, num_heads, head_dim, batch, **more):
    return ReshapeView(tokens, num_heads, head_dim, batch=batch, **more)


def stations(view, path):
    view.path = path
    for step in range(len(view.stations[path])):
        view.step = step
        yield view.stations[path][step], view.tensor


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", PATHS)
def test_the_code_shown_makes_what_is_shown(size, path):
    tokens, num_heads, head_dim, batch = size
    names = {"torch": torch, "B": batch, "T": tokens, "num_heads": num_heads, "head_dim": head_dim}
    names["d_model"] = num_heads * head_dim
    view = make(*size)
    names["x"] = view.tensor
    before = None
    for facts, tensor in stations(view, path):
        exec(facts["code"], names)
        made = names[facts["name"]]
        assert torch.equal(made, tensor)
        assert list(made.shape) == facts["shape"]
        assert list(made.stride()) == facts["strides"]
        assert made.is_contiguous() == facts["contiguous"]
        if before is None:
            assert facts["memory"] == "start"
        else:
            same = made.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
            assert facts["memory"] == ("view" if same else "copy")
        expected = {"B": batch, "B * num_heads": batch * num_heads, "T": tokens}
        assert facts["shape"] == [expected.get(axis) or names[axis] for axis in facts["axes"]]
        before = made


@pytest.mark.parametrize("size", SIZES)
def test_the_paths_lead_where_the_library_leads(size):
    view = make(*size)
    x, num_heads = view.tensor, size[1]
    ends = {path: list(stations(view, path))[-1] for path in PATHS}
    assert torch.equal(ends["split"][1], split_heads(x, num_heads))
    assert torch.equal(ends["merge"][1], merge_heads(split_heads(x, num_heads)))
    assert torch.equal(ends["merge"][1], x)
    assert torch.equal(ends["fold"][1], import_d2l().transpose_qkv(x, num_heads))
    for wrong, right in (("wrong split", "split"), ("wrong merge", "merge")):
        facts, tensor = ends[wrong]
        assert tensor.shape == ends[right][1].shape
        count = int((tensor != ends[right][1]).sum())
        if count:
            assert facts["mistake"].startswith(f"{count} of {tensor.numel()} numbers stand where they should not")
        else:
            assert "that is how the mistake hides" in facts["mistake"] and 1 in (size[0], size[1])


def test_the_mistake_is_told_by_an_example():
    mistake = ReshapeView().stations["wrong split"][1]["mistake"]
    assert "the row of head 0, token 1 holds 3, 4, 5; it should hold 10, 11, 12." in mistake
    assert not any(facts["mistake"] for path in PATHS[:3] for facts in ReshapeView().stations[path])


@pytest.mark.parametrize("size", SIZES)
def test_the_numbers_travel_as_bytes(size):
    view = make(*size)
    count = size[0] * size[1] * size[2] * size[3]
    numbers = np.frombuffer(view.numbers, dtype="<i2").reshape(-1, 3, count)
    assert len(numbers) == sum(len(view.stations[path]) for path in PATHS)
    right = {"wrong split": "split", "wrong merge": "merge"}
    for path in PATHS:
        for facts, tensor in stations(view, path):
            cells, should, line = numbers[facts["at"]]
            assert cells.tolist() == tensor.flatten().tolist()
            places = sum(np.indices(tensor.shape)[axis] * stride for axis, stride in enumerate(facts["strides"]))
            assert line[places].tolist() == tensor.tolist()  # what stands at offset = index times strides
            if path not in right or facts["memory"] == "start":
                assert should.tolist() == cells.tolist()
        if path in right:
            assert should.tolist() == list(stations(view, right[path]))[-1][1].flatten().tolist()


def test_copy_or_view_depends_on_the_batch():
    assert ReshapeView(batch=1).stations["fold"][3]["memory"] == "view"
    assert ReshapeView(batch=2).stations["fold"][3]["memory"] == "copy"
    assert [facts["memory"] for facts in ReshapeView().stations["merge"]] == ["start", "view", "copy", "view"]


def test_labels_are_unique():
    for tokens, num_heads, head_dim, batch in itertools.product((1, 8), (1, 3, 4), (1, 4), (1, 2)):
        view = make(tokens, num_heads, head_dim, batch)
        assert view.tensor.unique().numel() == view.tensor.numel()
        assert view.chosen in view.tensor
    assert ReshapeView(2, 2, 4, batch=2).tensor[1, 1, 7] == 117  # 100 * sample + 10 * token + feature
    assert ReshapeView(2, 4, 4, batch=2).tensor[1, 1, 15] == 1115  # 16 features need more room


def test_what_it_starts_with():
    view = ReshapeView()
    assert (view.path, view.step, view.chosen, view.colour_by) == ("split", 0, 23, "token")
    assert ReshapeView(path="wrong merge").path == "wrong merge"


def test_a_new_path_starts_at_its_start():
    view = ReshapeView()
    view.step = 2
    view.path = "wrong split"
    assert view.step == 0
    # What the browser sends when the reader chooses a path: both at once.
    view.set_state({"path": "merge", "step": 0})
    view.set_state({"step": 3})
    assert (view.path, view.step) == ("merge", 3)


@pytest.mark.parametrize(
    "name, values, says",
    [
        ("path", ("spilt", "Split", 3, None), "choose one of 'split', 'merge', 'fold', 'wrong split', 'wrong merge'"),
        ("step", (3, -1, 1.0, "1", True, None), "the path 'split' has the steps 0 to 2, where 0 is the start"),
        ("chosen", (6, 99, "23", 23.5, True, None), "10 * token + feature, with token 0 to 3 and feature 0 to 5"),
        ("colour_by", ("rainbow", 1, None), "choose 'token' or 'head'"),
    ],
)
def test_what_cannot_be_shown_is_refused(name, values, says):
    view = ReshapeView()
    before = getattr(view, name)
    for value in values:
        with pytest.raises(ValueError) as caught:
            setattr(view, name, value)
        assert f"{name}={value!r}" in str(caught.value) and says in str(caught.value)
        with pytest.raises(ValueError):
            view.set_state({name: value})  # as if it came from a browser
        assert getattr(view, name) == before


def test_what_was_made_is_not_changed():
    view = ReshapeView()
    for name in ("sizes", "stations", "numbers"):
        with pytest.raises(traitlets.TraitError):
            setattr(view, name, getattr(view, name))


@pytest.mark.parametrize(
    "name, most, meant", [("tokens", 8, 9), ("num_heads", 4, 0), ("head_dim", 4, 5), ("batch", 2, -1)]
)
def test_sizes_are_checked(name, most, meant, as_shipped):
    with pytest.raises(ValueError, match=f"{name}={meant} is out of range; choose 1 to {most}"):
        ReshapeView(**{name: meant})
    for value in ("2", 2.0, None, True, torch.tensor(2)):
        with pytest.raises(TypeError, match=f"{name} must be an int from 1 to {most}, got"):
            ReshapeView(**{name: value})


def test_an_unknown_path_is_refused_at_once():
    with pytest.raises(ValueError, match="path='splitt' is not known; choose one of"):
        ReshapeView(path="splitt")


@pytest.mark.parametrize("size", [(4, 2, 3, 1), (3, 2, 2, 2), (1, 1, 1, 1)])
def test_the_picture_shows_the_present_step(size):
    view = make(*size)
    for path in PATHS:
        view.colour_by = "head" if path == "wrong split" else "token"
        for facts, tensor in stations(view, path):
            figure = view.figure()
            assert facts["code"] in figure.alt and str(tuple(tensor.shape)) in figure.alt
            assert facts["mistake"] in figure.alt
            assert len(figure.axes) == (1 if view.step == 0 else 2)
            outlines = [p for axes in figure.axes for p in axes.patches if not p.get_fill()]
            assert len(outlines) == len(figure.axes)  # the chosen number, once in each


def test_the_chosen_number_is_in_the_picture_and_its_text():
    view = ReshapeView(batch=2)
    view.step, view.chosen = 2, 123
    assert "123 = sample 1, token 2, feature 3 stands at (1, 1, 2, 0)." in view.figure().alt
    bundle, _ = view._repr_mimebundle_()
    assert bundle["image/png"] and "application/vnd.jupyter.widget-view+json" in bundle


def test_the_largest_has_a_picture_too():
    view = ReshapeView(8, 4, 4, batch=2)
    view.step = 1
    assert view._repr_mimebundle_()[0]["image/png"]


def test_it_is_light():
    view = ReshapeView()
    assert len(view.to_html()) < 50_000
    assert len(ReshapeView(8, 4, 4, batch=2).numbers) == 15 * 3 * 256 * 2


@pytest.mark.parametrize("path", PATHS)
def test_the_picture_of_the_largest_tensor_fits_a_page(path):
    view = ReshapeView(8, 4, 4, batch=2, path=path)
    for step in range(len(view.stations[path])):
        view.step = step
        width, height = view.figure().get_size_inches()
        assert height < 10 and width < 20  # inches, at 100 dots


def test_the_picture_counts_folded_blocks_from_zero_as_the_view_does():
    view = ReshapeView(3, 2, 2, batch=2, path="fold")
    view.step = 3
    texts = [text.get_text() for text in view.figure().axes[-1].texts]
    assert [text for text in texts if text.startswith("block")] == [f"block {i}" for i in range(4)]
    assert view.tensor[1].flatten().tolist() == [2, 3, 12, 13, 22, 23]  # block 1: sample 0, head 1
