"""HeadView on the Python side: what it accepts, what it refuses and how, what the bytes say, and its picture."""

import io

import numpy as np
import pytest
import torch
import traitlets
from PIL import Image
from torch import nn

from mhalib.masks import causal_mask
from mhalib.reference import import_d2l
from mhalib.widgets.head_view.widget import HeadView


def some(*shape):
    return torch.randn(*shape).softmax(-1)


# ---------------------------------------------------------------- what comes in


@pytest.mark.parametrize(
    ("give", "shape"),
    [
        (lambda: some(5, 7), [1, 1, 5, 7]),
        (lambda: some(3, 5, 7), [1, 3, 5, 7]),
        (lambda: some(1, 3, 5, 7), [1, 3, 5, 7]),
        (lambda: some(2, 3, 5, 7), [2, 3, 5, 7]),
        (lambda: some(2, 1, 3, 5, 7), [2, 3, 5, 7]),
        (lambda: some(1, 2, 3, 5, 7), [2, 3, 5, 7]),
        (lambda: tuple(some(1, 3, 5, 5) for _ in range(2)), [2, 3, 5, 5]),
        (lambda: [some(3, 5, 5) for _ in range(4)], [4, 3, 5, 5]),
        (lambda: [some(5, 5).numpy() for _ in range(4)], [4, 1, 5, 5]),
        (lambda: some(3, 1, 1), [1, 3, 1, 1]),
    ],
)
def test_every_shape_that_libraries_return(give, shape):
    given = give()
    view = HeadView(given, exact=True)
    assert view.shape == shape
    expected = np.stack([np.asarray(part).reshape(shape[1:]) for part in given]) if len(given) == shape[0] else given
    shown = np.stack([[view.weights_of(i, j) for j in range(shape[1])] for i in range(shape[0])])
    np.testing.assert_allclose(shown, np.asarray(expected).reshape(shape), atol=1e-7)


def test_what_torch_returns_is_taken_as_it_is():
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 5, 8)
    pair = layer(x, x, x, average_attn_weights=False)
    assert HeadView(pair).shape == HeadView(pair[1]).shape == [1, 2, 5, 5]
    assert HeadView(layer(x, x, x)[1]).shape == [1, 1, 5, 5]  # averaged over the heads, (B, Tq, Tk)
    np.testing.assert_allclose(HeadView(pair).weights_of(0, 1), pair[1][0, 1].detach().numpy(), atol=1e-5)


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


def test_d2l_folds_the_heads_into_the_batch():
    d2l = import_d2l()
    layer = d2l.MultiHeadAttention(8, 8, 8, 8, 4, 0.0).eval()
    x = torch.randn(1, 5, 8)
    layer(x, x, x, torch.tensor([3]))
    view = HeadView(layer.attention.attention_weights, num_heads=4)
    assert view.shape == [1, 4, 5, 5]
    assert view.weights_of(0, 0)[:, 3:].max() < 1e-6
    x = torch.randn(2, 5, 8)
    layer(x, x, x, None)
    assert HeadView(layer.attention.attention_weights, num_heads=4).parts[0]["samples"] == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_precision_with_or_without_gradient(dtype):
    weights = torch.randn(2, 64, 64, dtype=torch.float32, requires_grad=True).mul(3).softmax(-1).to(dtype)
    view = HeadView(weights)
    assert np.abs(view.weights_of(0, 1) - weights[1].detach().float().numpy()).max() < 1e-4


@pytest.mark.parametrize("kind", [">f4", "f2", "f8"])
def test_numpy_in_any_byte_order_read_only_or_reversed(kind):
    given = some(2, 4, 4).numpy().astype(kind)[::-1]
    given.flags.writeable = False
    np.testing.assert_allclose(HeadView(given).weights_of(0, 0), given[0].astype("f4"), atol=1e-3)


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


@pytest.mark.parametrize("shape", [(5,), (5, 5), (3, 5, 5), (1, 1, 5, 5), (2, 3, 5, 5), (3, 1, 5), (2, 1, 1, 5)])
def test_masks_broadcast_over_layers_and_heads(shape):
    mask = torch.ones(shape, dtype=torch.bool)
    mask[..., -1] = False
    weights = torch.randn(2, 3, 5, 5).masked_fill(~mask, -torch.inf).softmax(-1)
    view = HeadView(weights, mask=mask)
    assert all((view.weights_of(i, j)[:, -1] == -1).all() for i in range(2) for j in range(3))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (TypeError, "floating, got torch.int64", lambda: HeadView(torch.ones(3, 3, dtype=torch.long))),
        (TypeError, "floating, got bool", lambda: HeadView(np.ones((3, 3), dtype=bool))),
        (TypeError, "tensor or a numpy array, got str", lambda: HeadView("weights")),
        (TypeError, r"weights\[1\] is None.*need_weights=True", lambda: HeadView((torch.randn(1, 3, 8), None))),
        (ValueError, "empty list", lambda: HeadView([])),
        (ValueError, r"none empty, got \(0, 3\)", lambda: HeadView(torch.ones(0, 3))),
        (ValueError, r"got \(3,\)", lambda: HeadView(torch.ones(3))),
        (ValueError, r"got \(2, 2, 2, 2, 3, 3\)", lambda: HeadView(some(2, 2, 2, 2, 3, 3))),
        (ValueError, "8 maps, expected num_heads=3", lambda: HeadView(some(8, 3, 3), num_heads=3)),
        (
            ValueError,
            r"row \[0, 0\] of layer 0 of the weights .* sums to 3; apply softmax",
            lambda: HeadView(torch.ones(2, 3, 3)),
        ),
        (ValueError, r"row \[1, 2\] of layer 1 of the weights .* sums to 0.5", lambda: HeadView(halved())),
        (ValueError, "between -1 and 2", lambda: HeadView(torch.tensor([[-1.0, 2.0]]))),
        (ValueError, r"row \[0, 0\].*sums to inf", lambda: HeadView(torch.full((2, 2), torch.inf))),
        (ValueError, "5 labels, the weights have 3 queries", lambda: HeadView(some(3, 3), list("abcde"))),
        (ValueError, "key_tokens has 3 labels.*4 keys", lambda: HeadView(some(3, 4), list("abc"), list("abc"))),
        (ValueError, "list of strings", lambda: HeadView(some(3, 3), "abc")),
        (TypeError, "mask must be boolean.*float32", lambda: HeadView(some(3, 3), mask=torch.ones(3, 3))),
        (TypeError, "mask must be a tensor, got list", lambda: HeadView(some(3, 3), mask=[[True]])),
        (ValueError, r"mask \(4, 4\) does not fit", lambda: HeadView(some(3, 3), mask=causal_mask(4))),
        (ValueError, "True must mean may attend", lambda: HeadView(some(3, 3), mask=~causal_mask(3))),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_to_do(error, message, make, as_shipped):
    with pytest.raises(error, match=message):
        make()


def halved():
    weights = some(2, 3, 4, 4)
    weights[1, 1, 2] = weights[1, 1, 2] / 2
    return weights


def test_an_empty_row_that_a_library_averages_is_no_leak():
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    assert (HeadView(torch.full((3, 3), 1 / 3), mask=mask).weights_of(0, 0)[1] == -1).all()


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


def test_overlay_is_kept_in_order_without_repeats():
    view = HeadView(some(2, 3, 5, 5))
    view.overlay = [(1, 2), [0, 1], (1, 2)]
    assert view.overlay == [[1, 2], [0, 1]]
    many = HeadView(some(40, 2, 2))
    with pytest.raises(traitlets.TraitError, match="at most 32"):
        many.overlay = [[0, i] for i in range(33)]


def test_tokens_of_queries_serve_for_as_many_keys():
    assert HeadView(some(3, 3), list("abc")).key_tokens == list("abc")
    assert HeadView(some(3, 4), list("abc")).key_tokens == []
    assert HeadView(some(2, 3), list("ab"), list("xyz")).key_tokens == list("xyz")


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
    labels = [text.get_text() for axes in figure.axes for text in axes.get_yticklabels()]
    assert set("abcde") <= set(labels)


def test_the_picture_reads_the_scale_and_combines_heads():
    weights = some(2, 3, 3)
    view = HeadView(weights, exact=True)
    view.overlay, view.combine, view.scale = [[0, 1]], "mean", "maximum"
    top = weights.mean(0).max().item()
    assert f"from 0 to {top:.4g}" in view.figure().alt and "mean of head 0, head 1" in view.figure().alt


def test_the_display_holds_the_view_and_a_picture():
    data, metadata = HeadView(some(2, 4, 4))._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= set(data)
    assert metadata["image/png"]["alt"].startswith("Attention weights of 1 layer with 2 heads")


def test_the_page_without_a_kernel_fetches_nothing_and_escapes_tokens():
    page = HeadView(some(2, 2), ["</script><b>", "http"]).to_html()
    assert page.count("</script>") == 1
    assert "<b>" not in page
    assert "//cdn" not in page and "https://" not in page
