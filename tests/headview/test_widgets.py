"""What all widgets share on the Python side: the bundle, the page without a kernel, and how they are shipped."""

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
import traitlets

from mhalib import plots
from mhalib.widgets import HeadLab, HeadSwitchboard, HeadView, PredictionView, ReshapeView
from mhalib.widgets.base import _pack, with_texts_once
from tests.helpers.sealed_boxes import sealed

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><script>alert(1)</script>"
PARTS = re.compile(r"^const parts = (.*);$", re.MULTILINE)


def widgets():
    return [
        HeadView(torch.eye(2), tokens=[HOSTILE, "b"]),
        HeadLab(torch.randn(2, 4), tokens=[HOSTILE, "b"]),
        ReshapeView(),
        HeadSwitchboard(lambda gates: (gates.mean(), [(HOSTILE, HOSTILE, True)]), 2, 3, score_name=HOSTILE),
        PredictionView(
            HOSTILE, HOSTILE, options={HOSTILE: HOSTILE, "b": "Because."}, words=("a or b?", "<b>a or b?</b>")
        ),
        sealed(),
    ]


NAMES = ["HeadView", "HeadLab", "ReshapeView", "HeadSwitchboard", "PredictionView", "SealedBox"]
DRAWS = [0, 1, 2, 3, 5]
each_widget = pytest.mark.parametrize("number", range(6), ids=NAMES)
each_that_draws = pytest.mark.parametrize("number", DRAWS, ids=[NAMES[number] for number in DRAWS])


@each_that_draws
def test_the_bundle_holds_the_live_view_and_a_described_picture(number):
    widget = widgets()[number]
    data, metadata = widget._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert data["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == widget.figure().alt != ""


def test_the_bundle_of_a_question_holds_its_text():
    widget = widgets()[4]
    data, metadata = widget._repr_mimebundle_()
    assert data.pop("application/vnd.jupyter.widget-view+json")["model_id"] == widget.model_id
    assert data == {"text/plain": "a or b?", "text/html": "<b>a or b?</b>"} and metadata == {}
    assert repr(widget) == "a or b?"


@each_widget
def test_the_page_without_a_kernel_is_one_script_that_needs_no_network(number):
    widget = widgets()[number]
    html = widget.to_html()
    assert html.count("<script>") == html.count("</script>") == 1
    assert "alert(1)" not in html or "\\u003c/script>\\u003cscript>alert(1)" in html
    for text in (html, str(widget._esm)):  # in the page, the module travels deflated
        assert re.findall(r"https?://", text) == []
        assert not re.search(r"\bsrc\s*=|@import|\burl\(", text)


def test_the_views_have_the_colours_of_the_pictures():
    constants = dict(re.findall(r"^const ([A-Z_]+) = (.*);$", HeadView._esm, re.MULTILINE))
    shades = (255 * matplotlib.colormaps[plots.COLOUR_MAP](range(256))[:, :3]).round()
    assert np.array_equal(json.loads(constants["COLOUR_MAP"]), shades)
    for name in ("MASKED_COLOUR", "NAN_COLOUR"):
        rgb = json.loads(constants[name])
        assert "#" + bytes(rgb).hex().upper() == getattr(plots, name)
    assert json.loads(constants["GROUP_COLOURS"]) == list(plots.COLOURS)
    assert float(constants["DARK_INK_FROM"]) == plots.DARK_INK_FROM


@pytest.mark.parametrize(
    ("number", "name", "values"),
    [
        (0, "head", (1, -1, 0.5, "0", None, True)),
        (0, "mode", ("bars", 1, None, [])),
        (0, "scale", ("free", 0)),
        (0, "combine", ("sum", None)),
        (0, "overlay", ([[0, 1]], [0], "00", None, 3)),
        (1, "num_heads", (3, 2.0, "2", None)),
        (1, "scale", ("sqrt", 1, None)),
        (1, "temperature", (0, "warm", None, float("nan"))),
        (1, "mask", ("future", None, 0)),
        (1, "cursor", ([0], "00", None, [0, 0.5], [2, 0])),
        (1, "valid_len", (3, 1.0, None)),
        (2, "path", ("splitt", 1, None)),
        (2, "step", (3, "1", None)),
        (2, "chosen", (99, "23", None)),
        (2, "colour_by", ("rainbow", 1)),
        (3, "gates", ([[1, 1, 1]], [1, 1, 1, 1, 1, 1], [[1, 1, 2], [1, 1, 1]], "111111", None, 1)),
        (3, "visited", ([], ["1"], None, "111111")),
        (4, "picked", ("c", 1, ["b"], True)),
        (4, "revealed", (1, "yes", None)),
        (5, "t", (3.5, "0", None, True)),
        (5, "opened", (1, "yes", None)),
        (5, "steps_seen", ([4], [-1], "0", None, 1)),
    ],
)
def test_every_widget_refuses_alike_and_keeps_the_old_value(number, name, values):
    widget = widgets()[number]
    before = getattr(widget, name)
    for value in values:
        with pytest.raises(ValueError, match="got|=|is not known") as refused:
            setattr(widget, name, value)
        assert isinstance(refused.value, traitlets.TraitError)
        assert repr(value) in str(refused.value) or name == "overlay"
        with pytest.raises(ValueError):
            widget.set_state({name: value})  # as if it came from a browser
        assert getattr(widget, name) == before


@pytest.mark.parametrize(
    "change",
    [torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.double, torch.nn.Parameter, torch.Tensor.numpy],
    ids=["half", "bfloat16", "double", "gradient", "numpy"],
)
def test_numbers_are_taken_from_anywhere(change):
    weights, rows = torch.eye(3).roll(1, 0), torch.randn(3, 4).bfloat16().float()  # what every precision can hold
    assert HeadView(change(weights.clone()), exact=True).weights_of(0, 0).tolist() == weights.tolist()
    lab, plain = HeadLab(change(rows.clone()), num_heads=2), HeadLab(rows, num_heads=2)
    tolerance = 2e-3 if change is torch.Tensor.half else 1e-6
    torch.testing.assert_close(lab.weights, plain.weights, atol=tolerance, rtol=0)


@pytest.mark.parametrize("make", [HeadView, HeadLab])
@pytest.mark.parametrize(
    ("error", "words", "give"),
    [
        (ValueError, "meta device, where tensors hold no numbers", lambda: torch.ones(3, 3, device="meta")),
        (ValueError, r"dense tensor, got torch.sparse_coo; use .to_dense\(\)", lambda: torch.eye(3).to_sparse()),
        (TypeError, "floating.*got torch.int64", lambda: torch.ones(3, 3, dtype=torch.long)),
        (TypeError, "floating.*got torch.bool", lambda: torch.ones(3, 3, dtype=torch.bool)),
        (TypeError, "floating.*got torch.complex64", lambda: torch.ones(3, 3, dtype=torch.complex64)),
    ],
)
def test_what_holds_no_floating_numbers_is_refused(make, error, words, give):
    with pytest.raises(error, match=words):
        make(give())


def test_a_page_carries_the_module_of_each_kind_once():
    pages = [widgets()[number].to_html() for number in (4, 0, 4, 4, 0)]
    page = with_texts_once("\n".join(pages))
    parts = [json.loads(found) for found in PARTS.findall(page)]
    assert (
        ["source" in part for part in parts] == ["style" in part for part in parts] == [True, True, False, False, False]
    )
    assert [part["kind"] for part in parts] == [parts[i]["kind"] for i in (0, 1, 0, 0, 1)]
    assert [part["state"] for part in parts] == [json.loads(PARTS.search(page)[1])["state"] for page in pages]
    assert with_texts_once(pages[0]) == pages[0]
    assert len(pages[0]) < 16_000 and len(with_texts_once(pages[0] * 2)) - len(pages[0]) < 4_000


@pytest.mark.parametrize("data", [b"", b"\0" * 5000, bytes(range(256)) * 700])
def test_bytes_of_any_kind_come_through_the_page(data):
    assert zlib.decompress(base64.b64decode(_pack(data)["$deflated"])) == data


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_without_anywidget_the_error_says_what_to_install():
    done = run("import sys; sys.modules['anywidget'] = None; import mhalib; import mhalib.widgets")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: mhalib.widgets needs the package anywidget")
    assert "pip install 'mhalib[widgets]'" in done.stderr


def test_the_layer_comes_without_the_widgets():
    done = run("import sys, mhalib; print([name for name in ('anywidget', 'matplotlib') if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr
