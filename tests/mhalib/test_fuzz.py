"""Whatever is handed to a widget, a mask function or the doctor: it works, or it is refused in words that help.

Hypothesis draws what nobody would hand over on purpose. A refusal counts only if a `raise` of ours made it: an error
that falls out of torch, numpy or Python says neither what was expected nor what to do. No other exception, no hang.
"""

import linecache
import math
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import mhalib
from mhalib import masks
from mhalib.doctor import adapt, examine
from mhalib.widgets import HeadLab, HeadSwitchboard, HeadView, ReshapeView, SealedBox

HOUSE = Path(mhalib.__file__).parent
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
slow_to_draw = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
few = settings(max_examples=40, suppress_health_check=slow_to_draw)
# The doctor makes hundreds of calls; what it is given differs in kind, not in number.
fewer = settings(max_examples=25, suppress_health_check=slow_to_draw)
pytestmark = pytest.mark.usefixtures("as_shipped")  # our own refusals have to be there without jaxtyping


def refused(call, *arguments, **options):
    """Return (result, None), or (None, the refusal); fail where neither comes."""
    try:
        return call(*arguments, **options), None
    except (ValueError, TypeError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = linecache.getline(last.filename, last.lineno).strip()
        ours = HOUSE in Path(last.filename).parents and line.startswith("raise")
        assert ours and len(str(error)) > 20, f"{type(error).__name__}: {error}\n  from {last.filename}: {line}"
        return None, error


# ----------------------------------------------------------------------------------------- odd things

numbers = [-1, 0, 1, 2, 3, 5, 8, 10**9, 0.5, 1.0, math.nan, math.inf, 1j]
scalars = st.sampled_from([None, True, False, *numbers, "", "causal", "x", b"x", object()])
shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)


@st.composite
def tensors(draw):
    """Tensors of any rank and dtype, empty ones, with NaN, sparse ones, and ones without numbers."""
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    x = (3 * torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 3))))).to(dtype)
    kind = draw(st.sampled_from(["plain"] * 5 + ["nan", "inf", "sparse", "meta", "numpy", "strided", "grad"]))
    if kind in ("nan", "inf") and dtype.is_floating_point and x.numel():
        x.view(-1)[0] = math.nan if kind == "nan" else math.inf
    if kind == "numpy" and x.is_floating_point():
        return np.array(x.tolist(), dtype=draw(st.sampled_from([None, "f4", "f8", object])))
    if kind == "sparse" and x.ndim:
        return x.to_sparse()
    if kind == "strided" and x.ndim >= 2:
        return x.transpose(0, 1)
    if kind == "meta":
        return x.to("meta")
    return x.requires_grad_() if kind == "grad" and dtype.is_floating_point else x


@st.composite
def weights(draw):
    """Attention weights as libraries return them, or nearly."""
    shape = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 3)))).softmax(-1)
    if draw(st.booleans()):
        x = x.to(draw(st.sampled_from(DTYPES[:4])))
    return draw(st.sampled_from([x, x.numpy() if x.dtype == torch.float32 else x, [x], (x, x), (x, None), 1.01 * x]))


odd = scalars | tensors() | st.lists(scalars, max_size=4) | st.dictionaries(st.sampled_from("ab"), scalars, max_size=2)


def good(value):
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


@st.composite
def spoiled(draw, **usual):
    """Arguments by name, of which at most two are odd: with more, nothing behind the first refusal is reached."""
    odd_ones = draw(st.lists(st.sampled_from(sorted(usual)), max_size=2, unique=True))
    return {name: draw(odd if name in odd_ones else good(value)) for name, value in usual.items()}


# ----------------------------------------------------------------------------------------- widgets

size, place = st.integers(1, 4), st.integers(0, 2)
allowed = shapes.map(lambda shape: torch.ones(shape, dtype=torch.bool))
token = torch.linspace(-1, 1, 4)
ONE_CELL, SIX_CELLS = torch.ones(1, 1, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
BOXES = [lambda x: (9 * x).sigmoid().cumsum(1).flip(1), lambda x: x[:, 0], lambda x: (x, x)]


def any_of(*values):
    return st.sampled_from(values)


def rows(tokens):
    return torch.linspace(-1, 1, 4 * tokens).view(tokens, 4)


def labels(number):
    return st.none() | st.lists(st.text(max_size=8), min_size=number, max_size=number)


LAYERS = [mhalib.MultiHeadAttention(4, 2), mhalib.MultiHeadAttention(4, 4, num_kv_heads=2)]
WIDGETS = {  # what each is made of, and what may be set when it lives
    HeadView: (
        {"weights": weights(), "tokens": None, "mask": any_of(None, ONE_CELL), "num_heads": st.none() | size},
        {"layer": place, "head": place, "query": place, "overlay": st.lists(st.tuples(place, place), max_size=3)}
        | {"scale": "maximum", "mode": "lines", "combine": "mean"},
    ),
    ReshapeView: (
        {"tokens": size, "num_heads": size, "head_dim": size, "batch": any_of(1, 2), "path": "merge"},
        {"path": "fold", "step": place, "chosen": any_of(0, 10, 11), "colour_by": "head"},
    ),
    HeadLab: (
        {"q": rows(2), "k": rows(3), "v": any_of(None, rows(3)), "tokens": labels(2), "key_tokens": labels(3)}
        | {"num_heads": any_of(1, 2, 4), "scale": "none", "temperature": 2, "valid_len": place}
        | {"mask": any_of("padding", "causal", SIX_CELLS), "code_inputs": any_of(None, ["a", "b", "c"])},
        {"num_heads": any_of(1, 2, 4), "valid_len": place, "cursor": st.tuples(place, place), "scale": "d_model"}
        | {"temperature": 0.5, "mask": "own", "own_mask": SIX_CELLS.numpy(), "head": 0},
    ),
    HeadLab.of: (
        {"layer": any_of(*LAYERS), "x": rows(2), "memory": any_of(None, rows(3)), "num_heads": None},
        {"head": 0, "cursor": st.tuples(place, place)},
    ),
    HeadSwitchboard: (
        {"measure": any_of(*(lambda gates, it=it: it for it in (0.5, (0.5, [("a", "b", True)]), (0.5, "a"), None)))}
        | {"num_layers": any_of(1, 2), "num_heads": any_of(1, 2, 3), "score_name": "loss"}
        | {"precompute": any_of(None, "all", "each", "none")},
        {"gates": any_of([[0]], [[0, 0]], [[0, 0], [1, 1]]), "visited": any_of(["1"], ["11"])},
    ),
    SealedBox: (
        {"f": any_of(*BOXES), "d_model": 4, "start": token, "direction": token, "probe": token, "reach": 2}
        | {"points": st.integers(2, 60), "heads": any_of(None, lambda c: c[:, :2].sigmoid())},
        {"t": st.floats(-1, 1), "opened": st.booleans(), "open": st.booleans(), "steps_seen": []},
    ),
}


@pytest.mark.parametrize("make", WIDGETS, ids=lambda make: make.__qualname__)
@few
@given(st.data())
def test_a_widget_is_made_and_set_or_keeps_what_it_had(make, data):
    """A live widget takes a value, or refuses it and keeps the old one; then it can be drawn."""
    usual, live = WIDGETS[make]
    view, _ = refused(make, **data.draw(spoiled(**usual)))
    if view is None:
        return
    for name, value in data.draw(spoiled(**live)).items():
        before = getattr(view, name)
        _, error = refused(setattr, view, name, value)
        if error is not None:
            assert repr(getattr(view, name)) == repr(before)
    if data.draw(st.integers(0, 9)) == 0:  # the slow part
        view.figure()
    view.close()


# ----------------------------------------------------------------------------------------- masks


@few
@given(
    spoiled(num_queries=size, num_keys=st.none() | size),
    spoiled(valid_lens=st.lists(place, min_size=1, max_size=3).map(torch.tensor), num_keys=size),
    spoiled(mask=allowed, dtype=st.sampled_from(DTYPES)),
    st.lists(st.none() | allowed | odd, max_size=3),
    allowed | odd,
    st.sampled_from([(2, 3), (1, 2, 3), (2, 2, 2, 3)]),
)
def test_masks(causal, padding, additive, several, one, scores):
    refused(masks.causal_mask, **causal)
    refused(masks.padding_mask, **padding)
    refused(masks.to_additive, **additive)
    refused(masks.combine_masks, *several)
    refused(masks.to_boolean, one)
    refused(masks.with_head_axis, one)
    refused(masks.prepare_mask, one, scores, torch.float16, torch.device("cpu"))


# ----------------------------------------------------------------------------------------- the doctor


class Odd(nn.Module):
    """A layer that answers with `result`, or with what it makes of the projected tokens."""

    def __init__(self, result):
        super().__init__()
        self.linear, self.result = nn.Linear(4, 4), result

    def forward(self, x, mask=None):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result(self.linear(x)) if callable(self.result) else self.result


answers = [lambda y: y[:, :1], lambda y: y.flatten(), lambda y: y.long(), lambda y: (None, y), lambda y: y * math.nan]
answers += [lambda y: y.cumsum(1), lambda y: {"out": y}, lambda y: [y, y]]
answers += [ValueError("x"), KeyError(), RuntimeError(), AssertionError()]
made = [nn.Linear(4, 4), nn.Linear, nn.LazyLinear(4), nn.Identity(), nn.MultiheadAttention(4, 2), len, torch.relu]
modules = st.sampled_from(made)


ADAPTED = {"module": modules, "convention": any_of("plain", "qkv", "torch", "d2l")}
ADAPTED |= {"mask": any_of("allowed", "additive", "lengths", None), "mask_rank": any_of(None, 1, 2, 3)}
ADAPTED |= {"mask_name": any_of(None, "mask"), "batch_first": any_of(None, True, False)}
ADAPTED |= {"output": any_of(None, 0, 1, "out")}


@few
@given(spoiled(**ADAPTED))
def test_adapt_and_call(arguments):
    attend, _ = refused(adapt, **arguments)
    if attend is not None:  # what an odd module does to the doctor is a finding, or a refusal
        report, _ = refused(examine, attend, 4, 2)
        assert report is None or str(report)


@fewer
@given(
    spoiled(
        attend=modules | (odd | st.sampled_from(answers)).map(Odd),
        d_model=4,
        num_heads=st.sampled_from([1, 2]),
        head_dim=None,
        module=None,
        weights=st.none() | st.fixed_dictionaries({name: st.just(torch.eye(4)) | odd for name in "qkv"}),
    )
)
def test_examine(arguments):
    report, _ = refused(examine, **arguments)
    assert report is None or str(report)
