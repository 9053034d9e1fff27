"""HeadView on the Python side: what it accepts, what it refuses and how, what the bytes say, and its picture."""

import io

import numpy as np
import pytest
import torch
import traitlets
from PIL import Image
from torch import nn

from headview.head_view.widget import HeadView
from mhalib.masks import causal_mask


def some(*shape):
    return torch.randn(*shape).softmax(-1)


# ---------------------------------------------------------------- what comes in


@pytest.mark.parametrize("as_numpy", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_pair_of_torch_shows_heads_and_neither_samples_nor_their_mean(batch_first, as_numpy):
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first).eval()

    def pair(batch: int | None, **options):
        x = torch.randn(5, 8) if batch is None else torch.randn(*(batch, 5, 8) if batch_first else (5, batch, 8))
        with torch.no_grad():
            returned = layer(x, x, x, **options)
        return tuple(part.numpy() for part in returned) if as_numpy else returned

    for batch in (None, 1):
        assert HeadView(pair(batch, average_attn_weights=False)).shape == [1, 2, 5, 5]
    for batch in (3, 5):  # 5: as many samples as tokens
        view = HeadView(pair(batch, average_attn_weights=False))
        assert view.shape == [1, 2, 5, 5] and view.parts[0]["samples"] == batch
    for batch in (None, 1, 3, 5):
        with pytest.raises(ValueError, match="the mean over its heads; .*average_attn_weights=False"):
            HeadView(pair(batch))


def test_heads_folded_into_the_batch_beside_an_output_are_no_mean():
    assert HeadView((torch.randn(1, 6, 8), some(6, 6, 6))).shape == [1, 6, 6, 6]


# ---------------------------------------------------------------- what the bytes say


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_read_out_is_what_was_given(exact):
    weights = some(2, 9, 9)
    view = HeadView(weights, exact=exact)
    assert np.array_equal(view.weights_of(0, 1), weights[1].numpy())
    assert view.parts[0]["storage"] == ("float32" if exact else "uint16")


@pytest.mark.parametrize("exact", [False, True])
def test_masked_and_nan_are_kept_apart_from_small_weights(exact):
    mask = causal_mask(6)
    weights = torch.randn(2, 6, 6).masked_fill(~mask, -torch.inf).softmax(-1)
    weights[1, 4] = torch.nan
    shown = HeadView(weights, mask=mask, exact=exact).weights_of(0, 1)
    assert np.array_equal(shown == -1, ~mask.numpy())  # what is masked is masked, NaN or not
    assert np.isnan(shown[4, :5]).all() and np.isnan(shown).sum() == 5


def test_empty_rows_and_heads_of_nothing_are_shown():
    weights = some(1, 2, 4, 4)
    weights[0, 0, 1] = 0
    weights[0, 1] = torch.nan
    view = HeadView(weights)
    assert (view.weights_of(0, 0)[1] == 0).all() and np.isnan(view.weights_of(0, 1)).all()
    view.head = 1
    view.scale = "maximum"
    view.figure()


# ---------------------------------------------------------------- what is refused


# ---------------------------------------------------------------- state


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("layer", 2), ("layer", -1), ("head", 3), ("query", 5), ("query", 0.5), ("mode", "bars"), ("scale", "free")),
        *(("combine", "sum"), ("overlay", [[0, 3]]), ("overlay", [[2, 0]]), ("overlay", [0, 1]), ("overlay", [[0]])),
    ],
)
def test_state_out_of_range_is_refused_and_leaves_the_old(name, value):
    view = HeadView(some(2, 3, 5, 5))
    before = getattr(view, name)
    with pytest.raises(traitlets.TraitError):
        setattr(view, name, value)
    assert getattr(view, name) == before


# ---------------------------------------------------------------- picture


@pytest.mark.parametrize("mode", ["map", "lines"])
@pytest.mark.parametrize("overlay", [[], [[0, 1], [1, 2]]])
def test_the_picture_says_what_the_view_shows(mode, overlay):
    view = HeadView(some(2, 3, 5, 6), list("abcde"), list("uvwxyz"))
    view.mode, view.overlay, view.head = mode, overlay, 2
    figure = view.figure()
    assert "2 layers with 3 heads" in figure.alt and "layer 0 head 2" in figure.alt
    assert ("maximum of" in figure.alt) == (mode == "map" and bool(overlay))
    (data, metadata) = figure._repr_mimebundle_()
    assert metadata["image/png"]["alt"] == figure.alt
    assert Image.open(io.BytesIO(data["image/png"])).width > 500
    assert set("abcde") <= {text.get_text() for text in figure.texts}
