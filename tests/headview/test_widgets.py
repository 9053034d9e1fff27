"""What all widgets share on the Python side: the bundle, the page without a kernel, and what they refuse."""

import json
import re
import subprocess
import sys
from pathlib import Path

import torch
import traitlets

from headview import (
    ArrowView,
    HeadLab,
    HeadScatter,
    HeadSwitchboard,
    HeadView,
    LiveModel,
    PredictionView,
    ReshapeView,
    ScoreBars,
)
from headview import survey as survey_of
from mhalib import MultiHeadAttention
from tests.helpers.refusals import accepted
from tests.helpers.sealed_boxes import sealed
from tests.helpers.small_sentences import small_sentences
from tools import views

ROOT = Path(__file__).resolve().parents[2]
VIRIDIS_FIRST = """
import sys, types
from pathlib import Path
text = Path("mhalib/plots/colours.py").read_text(encoding="utf-8")
changed = sys.modules["mhalib.plots.colours"] = types.ModuleType("mhalib.plots.colours")
exec(text.replace('("ink", "viridis",', '("viridis", "ink",'), vars(changed))
from headview import HeadView
from tools.views import colours
assert HeadView(__import__("torch").eye(3)).colours == changed.COLOUR_MAP == "viridis"
print(colours())
"""
HOSTILE = "</script><script>alert(1)</script>"


def surveyed():
    model = torch.nn.Sequential(torch.nn.Embedding(2, 8), MultiHeadAttention(8, 2))
    return survey_of(model, [HOSTILE], lambda text: ((0, 1), (text, "b")), progress=False)


def widgets():
    told = {HOSTILE: HOSTILE, "b": "Because."}
    return {
        "HeadView": HeadView(torch.eye(2), tokens=[HOSTILE, "b"]),
        "HeadLab": HeadLab(torch.randn(2, 4), tokens=[HOSTILE, "b"]),
        "ReshapeView": ReshapeView(),
        "HeadSwitchboard": HeadSwitchboard(
            lambda gates: (gates.mean(), [(HOSTILE, HOSTILE, True)]), 2, 3, score_name=HOSTILE
        ),
        "PredictionView": PredictionView(HOSTILE, HOSTILE, options=told, words=("a or b?", "<b>a or b?</b>")),
        "SealedBox": sealed(),
        "ScoreBars": ScoreBars({HOSTILE: torch.eye(2), "b": torch.ones(2, 2)}, [HOSTILE, "b"]),
        "ArrowView": ArrowView({HOSTILE: (1, 1), "b": (-1, 2)}, (1, 2)),
        "LiveModel": LiveModel(small_sentences(), HOSTILE),
        "HeadScatter": HeadScatter(surveyed()),
    }


def test_the_bundle_holds_the_live_view_and_a_described_picture():
    failures = []
    for name, widget in widgets().items():
        data, metadata = widget._repr_mimebundle_()
        assert data.pop("application/vnd.jupyter.widget-view+json")["model_id"] == widget.model_id, name
        if name == "PredictionView":  # of a question, its text
            assert data == {"text/plain": "a or b?", "text/html": "<b>a or b?</b>"} and metadata == {}
            assert repr(widget) == "a or b?"
        elif not metadata["image/png"]["alt"] == data["text/plain"] == widget.figure().alt != "":
            failures.append(f"{name} is not described")
        elif not data["image/png"].startswith(b"\x89PNG"):
            failures.append(f"{name} has no picture")
    assert failures == []


def test_the_page_without_a_kernel_is_one_script_that_needs_no_network_and_styles_its_view_only():
    failures = []
    shared = (ROOT / "headview/core.css").read_text(encoding="utf-8")
    for name, widget in widgets().items():
        html = widget.to_html()
        if not html.count("<script>") == html.count("</script>") == 1:
            failures.append(f"{name}: another script")
        if "alert(1)" in html and "\\u003c/script>\\u003cscript>alert(1)" not in html:
            failures.append(f"{name}: a token is markup")
        module = str(widget._esm).replace("http://www.w3.org/2000/svg", "")  # the name of a kind, never asked for
        for text in (html, module):  # in the page, the module travels deflated
            if re.search(r"https?://|\bsrc\s*=|@import|\burl\(", text):
                failures.append(f"{name}: loads something")
        (kind,) = re.findall(r'setUp\w*\(el,\s*"([a-z-]+)"', widget._esm)
        for text, root in ((shared, ".mha"), (widget._css.removeprefix(shared), f".mha.{kind}")):
            rules = re.sub(r"/\*.*?\*/|\{[^}]*\}", "|", text, flags=re.DOTALL)
            selectors = [selector.strip() for selector in re.split(r"[|,]", rules) if selector.strip()]
            outside = [each for each in selectors if not re.match(re.escape(root) + r"([ .]|$)", each)]
            failures += [f"{name}: {each} reaches further than the view" for each in outside]
    assert failures == []


def test_the_views_are_joined_from_their_present_sources():
    """`make views` was forgotten where this fails; it takes no Node.js to find out."""
    assert (views.HEADVIEW / "colours.js").read_text(encoding="utf-8") == views.colours()
    for view in views.VIEWS:
        script, style = (views.STATIC / f"{view.name}{ending}" for ending in (".js", ".css"))
        assert script.read_text(encoding="utf-8").splitlines()[0] == views.first_line(view), view.name
        assert style.read_text(encoding="utf-8") == views.style_of(view), view.name


def test_another_colour_map_can_be_the_first_and_is_then_that_of_both_themes():
    """What CONTRIBUTING says; of the maps, only ink has another one for a dark page."""
    done = subprocess.run([sys.executable, "-c", VIRIDIS_FIRST], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    before, after = (
        json.loads(re.search(r"MAPS = (\{.*?\});", text, re.DOTALL)[1]) for text in (views.colours(), done.stdout)
    )
    assert list(after)[:2] == ["viridis", "ink"] and after == before


REFUSED = {
    "HeadView": {
        **{"layer": (2, -1), "head": (1, 0.5, "0", None, True), "query": (5, 0.5), "sample": (1,)},
        **{"mode": ("bars", None, []), "scale": ("free", 0), "combine": ("sum",), "colours": ("jet",)},
        **{"overlay": ([[0, 1]], [[2, 0]], [0], [[0]], "00", None), "side": ("c",), "values": ("scores",)},
        **{"window": ([0, 1], [3, 1, 0, 2], "all"), "hidden": ("[CLS]", [0]), "order": ("size",)},
        **{"strength": (-0.1, 1.01, "much", True, None, float("nan"))},
    },
    "HeadLab": {
        **{"num_heads": (3, 2.0, "2", None), "scale": ("sqrt", None), "temperature": (0, "warm", float("nan"))},
        **{"mask": ("future", None), "show": ("all", ["all"], None), "valid_len": (3, 1.0, None)},
    },
    "ReshapeView": {"path": ("splitt", None), "step": (3, "1"), "chosen": (99, "23"), "colour_by": ("rainbow",)},
    "HeadSwitchboard": {
        "gates": ([[1, 1, 1]], [1, 1, 1, 1, 1, 1], [[1, 1, 2], [1, 1, 1]], "111111", None),
    },
    "PredictionView": {"picked": ("c", 1, ["b"], True), "revealed": (1, "yes", None)},
    "SealedBox": {"t": (3.5, "0", None, True), "opened": (1, "yes"), "steps_seen": ([4], [-1], "0", None)},
    "ScoreBars": {"query": (2, -1, "0", None, True), "dragged": ([[0, 0, 2, 1.0]], [[0, 0, 0, "1"]], "0", None)},
    "HeadScatter": {"x": ("size", 0, None), "y": ("", []), "chosen": ([1, 0], [0, -1], [0], "00", None, [0, True])},
    "ArrowView": {
        **{"query": ([1, 4], [1], "12", None, [1, float("nan")]), "places": ([[1, 1]], [[1, 1], [1, 4]], None)},
        "scaled": (0, "yes", None),
    },
    "LiveModel": {
        **{"sentence": (3, None), "second": (["a"],), "head": ([2, 0], 1, None), "query": (-1, 0.5, True)},
        "off": ([[0, 3]], [1], "11", None),
    },
}


def test_every_widget_refuses_alike_and_keeps_the_old_value():
    failures = []
    for kind, widget in widgets().items():
        for name, values in REFUSED[kind].items():
            before = getattr(widget, name)
            for value in values:
                for give in (setattr, lambda widget, name, value: widget.set_state({name: value})):  # as a browser
                    try:
                        give(widget, name, value)
                        failures.append(f"{kind}.{name} took {value!r}")
                    except traitlets.TraitError as refused:
                        if repr(value) not in str(refused) and name not in ("overlay", "window", "hidden"):
                            failures.append(f"{kind}.{name}: {refused} does not say {value!r}")
                if getattr(widget, name) != before:
                    failures.append(f"{kind}.{name} lost its value")
    assert failures == []


def test_numbers_are_taken_from_anywhere_and_others_are_refused(as_shipped):
    weights, rows = torch.eye(3).roll(1, 0), torch.randn(3, 4).bfloat16().float()  # what every precision can hold
    plain = HeadLab(rows, num_heads=2)
    kinds = [torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.double, torch.nn.Parameter, torch.Tensor.numpy]
    for change in [*kinds, torch.Tensor.cuda] if torch.cuda.is_available() else kinds:
        assert HeadView(change(weights.clone()), exact=True).weights_of(0, 0).tolist() == weights.tolist(), change
        lab = HeadLab(change(rows.clone()), num_heads=2)
        tolerance = 2e-3 if change is torch.Tensor.half else 1e-6
        torch.testing.assert_close(lab.weights, plain.weights, atol=tolerance, rtol=0)
    others = {
        "meta": torch.ones(3, 3, device="meta"),
        "to_dense()": torch.eye(3).to_sparse(),
        **{str(kind): torch.ones(3, 3, dtype=kind) for kind in (torch.long, torch.bool, torch.complex64)},
    }
    for make in (HeadView, HeadLab):
        assert accepted({words: lambda make=make, given=given: make(given) for words, given in others.items()}) == []


def test_a_view_shows_the_same_whatever_the_defaults_of_torch_are():
    weights, tokens = torch.rand(2, 3, 6, 6).softmax(-1), [*"abcabc"]
    other, rows = weights.flip(-1), torch.randn(6, 8)

    def numbers():
        view, lab = HeadView(weights, tokens, compare=other, order="induction"), HeadLab(rows, num_heads=2)
        assert view.weights_of(1, 2).shape == (6, 6) and len(view.strongest(3, everywhere=True)) == 3
        for lab.mask in ("none", "causal", "padding"):
            lab.figure()
        states = [*view.get_state().items(), *lab.get_state().items()]
        return [(name, value) for name, value in states if name not in ("layout", "_dom_classes")]

    shown = numbers()
    with torch.device("meta"):
        assert numbers() == shown
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            assert numbers() == shown
        finally:
            torch.set_default_dtype(torch.float32)


def test_the_layer_comes_without_the_widgets_and_these_say_what_to_install():
    code = "import sys, mhalib; print([name for name in ('anywidget', 'matplotlib') if name in sys.modules]);"
    code += "sys.modules['anywidget'] = None; from headview import capture, HeadView"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n"
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: the views of headview need the package")
    assert done.returncode == 1 and "pip install 'mhalib[headview]'" in done.stderr
