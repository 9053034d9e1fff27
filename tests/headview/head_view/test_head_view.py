"""HeadView on the Python side: what the bytes say, and its picture."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from headview.head_view.widget import HeadView
from mhalib.masks import causal_mask


def some(*shape):
    return torch.randn(*shape).softmax(-1)


# ---------------------------------------------------------------- what the bytes say


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_read_out_is_what_was_given(exact):
    weights = some(2, 9, 9)
    view = HeadView(weights, exact=exact)
    assert np.array_equal(view.weights_of(0, 1), weights[1].numpy())
    assert view.blocks["whole 0 0 a"]["storage"] == ("float32" if exact else "uint16")


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
