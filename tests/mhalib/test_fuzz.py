"""Whatever is handed to a widget, a mask function or the doctor: it works, or it is refused in words that help.

Hypothesis draws what nobody would hand over on purpose. A refusal counts only if a `raise` of ours made it: an error
that falls out of torch, numpy or Python says neither what was expected nor what to do. No other exception, no hang.
"""

import linecache
import math
import traceback
from pathlib import Path

import jaxtyping
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
few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
# The doctor makes hundreds of calls; what it is given differs in kind, not in number.
fewer = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True, scope="module")
def without_shape_checking():
    """As for a reader: our own refusals have to be there without jaxtyping."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


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

scalars = st.sampled_from(
    [
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        3,
        5,
        8,
        10**9,
        0.5,
        1.0,
        math.nan,
        math.inf,
        "",
        "causal",
        "x",
        b"x",
        1j,
        object(),
    ]
)
shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)


@st.composite
def tensors(draw):
    """Tensors of any rank and dtype, empty ones, with NaN, sparse ones, and ones without numbers."""
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    seed = draw(st.integers(0, 3))
    x = (3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)
    kind = draw(st.sampled_from(["plain"] * 5 + ["nan", "inf", "sparse", "meta", "numpy", "strided", "grad"]))
    if kind in ("nan", "inf") and dtype.is_floating_point and x.numel():
        x.view(-1)[0] = math.nan if kind == "nan" else math.inf
    if kind == "sparse":
        return x.to_sparse() if x.ndim else x
    if kind == "meta":
        return x.to("meta")
    if kind == "numpy":
        return (
            np.array(x.tolist(), dtype=draw(st.sampled_from([None, "f4", "f8", object])))
            if x.is_floating_point()
            else x
        )
    if kind == "strided" and x.ndim >= 2:
        return x.transpose(0, 1)
    return x.requires_grad_() if kind == "grad" and dtype.is_floating_point else x


@st.composite
def weights(draw):
    """Attention weights as libraries return them, or nearly."""
    shape = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 3)))).softmax(-1)
    if draw(st.booleans()):
        x = x.to(draw(st.sampled_from(DTYPES[:4])))
    return draw(st.sampled_from([x, x.numpy() if x.dtype == torch.float32 else x, [x], (x, x), (x, None), 1.01 * x]))


odd = st.one_of(
    scalars,
    tensors(),
    st.lists(scalars, max_size=4),
    st.dictionaries(st.sampled_from("ab"), scalars, max_size=2),
)


@st.composite
def spoiled(draw, **good):
    """Arguments by name, of which at most two are odd: with more, nothing behind the first refusal is reached."""
    odd_ones = draw(st.lists(st.sampled_from(sorted(good)), max_size=2, unique=True))
    return {name: draw(odd if name in odd_ones else value) for name, value in good.items()}


def poke(view, data, **good):
    """Set traits of a live widget: it takes the value, or refuses it and keeps the old one; then it can be drawn."""
    for name, value in data.draw(spoiled(**good)).items():
        before = getattr(view, name)
        _, error = refused(setattr, view, name, value)
        if error is not None:
            assert repr(getattr(view, name)) == repr(before)
    if data.draw(st.integers(0, 9)) == 0:  # the slow part
        view.figure()
    view.close()


def labels(size):
    return st.one_of(st.none(), st.lists(st.text(max_size=8), min_size=size, max_size=size))


# ----------------------------------------------------------------------------------------- widgets

place = st.integers(0, 2)


@few
@given(
    spoiled(
        weights=weights(),
        tokens=st.none(),
        key_tokens=st.none(),
        mask=st.one_of(st.none(), st.just(torch.ones(1, 1, dtype=torch.bool))),
        num_heads=st.one_of(st.none(), st.integers(1, 4)),
        exact=st.booleans(),
    ),
    st.data(),
)
def test_head_view(arguments, data):
    view, _ = refused(HeadView, **arguments)
    if view is not None:
        pairs = st.lists(st.tuples(place, place), max_size=3)
        names = {"scale": "maximum", "mode": "lines", "combine": "mean"}
        good = {name: st.just(value) for name, value in names.items()}
        poke(view, data, layer=place, head=place, query=place, overlay=pairs, **good)


size = st.integers(1, 4)


@few
@given(
    spoiled(tokens=size, num_heads=size, head_dim=size, batch=st.integers(1, 2), path=st.just("merge")),
    st.data(),
)
def test_reshape_view(arguments, data):
    view, _ = refused(ReshapeView, **arguments)
    if view is not None:
        poke(
            view, data, path=st.just("fold"), step=place, chosen=st.sampled_from([0, 10, 11]), colour_by=st.just("head")
        )


def rows(tokens):
    return st.just(torch.linspace(-1, 1, 4 * tokens).view(tokens, 4))


@few
@given(
    spoiled(
        q=rows(2),
        k=rows(3),
        v=st.one_of(st.none(), rows(3)),
        tokens=labels(2),
        key_tokens=labels(3),
        num_heads=st.sampled_from([1, 2, 4]),
        scale=st.just("none"),
        temperature=st.just(2),
        mask=st.sampled_from(["padding", "causal", torch.ones(2, 3, dtype=torch.bool)]),
        valid_len=place,
        code_inputs=st.sampled_from([None, ["a", "b", "c"]]),
    ),
    st.data(),
)
def test_head_lab(arguments, data):
    lab, _ = refused(HeadLab, **arguments)
    if lab is not None:
        assert lab.weights.shape == (1, lab.num_heads, lab.num_queries, lab.num_keys)
        poke(
            lab,
            data,
            num_heads=st.sampled_from([1, 2, 4]),
            scale=st.just("d_model"),
            temperature=st.just(0.5),
            mask=st.just("own"),
            valid_len=place,
            own_mask=st.just(np.ones((2, 3), dtype=bool)),
            head=st.just(0),
            cursor=st.tuples(place, place),
        )


@few
@given(
    spoiled(
        layer=st.sampled_from([mhalib.MultiHeadAttention(4, 2), mhalib.MultiHeadAttention(4, 4, num_kv_heads=2)]),
        x=rows(2),
        memory=st.one_of(st.none(), rows(3)),
        num_heads=st.none(),
    )
)
def test_head_lab_of_a_layer(arguments):
    lab, _ = refused(HeadLab.of, **arguments)
    if lab is not None:
        lab.close()


@few
@given(
    spoiled(
        score=st.just(0.5),
        answers=st.just([("a", "b", True)]),
        num_layers=st.integers(1, 2),
        num_heads=st.integers(1, 3),
        score_name=st.just("loss"),
        precompute=st.sampled_from([None, "all", "each", "none"]),
    ),
    st.data(),
)
def test_switchboard(arguments, data):
    given_back = arguments.pop("score"), arguments.pop("answers")
    given_back = given_back[0] if data.draw(st.booleans()) else given_back
    board, _ = refused(HeadSwitchboard, lambda gates: given_back, **arguments)
    if board is not None:
        layers, heads = board.sizes
        poke(board, data, gates=st.just([[0] * heads] * layers), visited=st.just(["1" * layers * heads]))


token = st.just(torch.linspace(-1, 1, 4))


@few
@given(
    spoiled(
        f=st.sampled_from([lambda x: (9 * x).sigmoid().cumsum(1).flip(1), lambda x: x[:, 0], lambda x: (x, x)]),
        d_model=st.just(4),
        start=token,
        direction=token,
        probe=token,
        reach=st.just(2),
        points=st.integers(2, 60),
        heads=st.one_of(st.none(), st.just(lambda c: c[:, :2].sigmoid())),
    ),
    st.data(),
)
def test_sealed_box(arguments, data):
    box, _ = refused(SealedBox, **arguments)
    if box is not None:
        poke(box, data, t=st.floats(-1, 1), opened=st.booleans(), open=st.booleans(), steps_seen=st.just([]))


# ----------------------------------------------------------------------------------------- masks

allowed = shapes.map(lambda shape: torch.ones(shape, dtype=torch.bool))


@few
@given(
    spoiled(num_queries=size, num_keys=st.one_of(st.none(), size)),
    spoiled(valid_lens=st.lists(place, min_size=1, max_size=3).map(torch.tensor), num_keys=size),
    spoiled(mask=allowed, dtype=st.sampled_from(DTYPES)),
)
def test_masks_are_made_and_turned(causal, padding, additive):
    refused(masks.causal_mask, **causal)
    refused(masks.padding_mask, **padding)
    refused(masks.to_additive, **additive)


@few
@given(st.lists(st.one_of(st.none(), allowed, allowed, odd), max_size=3), st.one_of(allowed, odd))
def test_masks_are_combined(several, one):
    refused(masks.combine_masks, *several)
    refused(masks.to_boolean, one)
    refused(masks.with_head_axis, one)


@few
@given(
    st.one_of(allowed, tensors(), odd),
    st.sampled_from([(2, 3), (1, 2, 3), (2, 2, 2, 3)]),
    st.sampled_from(DTYPES[:4]),
)
def test_masks_meet_scores(mask, shape, dtype):
    refused(masks.prepare_mask, mask, shape, dtype, torch.device("cpu"))


# ----------------------------------------------------------------------------------------- the doctor


class Odd(nn.Module):
    """A layer that answers with `result`, or with what it makes of the projected tokens."""

    def __init__(self, result):
        super().__init__()
        self.linear, self.result = nn.Linear(4, 4), result

    def forward(self, x, mask=None):
        return self.result(self.linear(x)) if callable(self.result) else self.result


def raising(error):
    def result(_):
        raise error

    return result


results = st.one_of(
    odd,
    st.sampled_from([ValueError("x"), KeyError(), RuntimeError(), AssertionError()]).map(raising),
    st.sampled_from([lambda y: y[:, :1], lambda y: y.flatten(), lambda y: y.long(), lambda y: (None, y)]),
    st.sampled_from([lambda y: y * math.nan, lambda y: y.cumsum(1), lambda y: {"out": y}, lambda y: [y, y]]),
)
modules = st.sampled_from(
    [nn.Linear(4, 4), nn.Linear, nn.LazyLinear(4), nn.Identity(), nn.MultiheadAttention(4, 2), len, torch.relu, print]
)


@few
@given(
    spoiled(
        module=modules,
        convention=st.sampled_from(["plain", "qkv", "torch", "d2l"]),
        mask=st.sampled_from(["allowed", "additive", "lengths", None]),
        mask_rank=st.sampled_from([None, 1, 2, 3]),
        mask_name=st.sampled_from([None, "mask"]),
        batch_first=st.sampled_from([None, True, False]),
        output=st.sampled_from([None, 0, 1, "out"]),
    )
)
def test_adapt_and_call(arguments):
    attend, _ = refused(adapt, **arguments)
    if attend is not None:  # what an odd module does to the doctor is a finding, or a refusal
        report, _ = refused(examine, attend, 4, 2)
        assert report is None or str(report)


@fewer
@given(
    spoiled(
        attend=st.one_of(modules, results.map(Odd)),
        d_model=st.just(4),
        num_heads=st.sampled_from([1, 2]),
        head_dim=st.none(),
        module=st.none(),
        weights=st.one_of(st.none(), st.fixed_dictionaries({name: st.just(torch.eye(4)) | odd for name in "qkv"})),
    )
)
def test_examine(arguments):
    report, _ = refused(examine, **arguments)
    assert report is None or str(report)
