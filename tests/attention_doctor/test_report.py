"""The report: in words, as a table, as an error, as a page for a pull request, and on the command line."""

import builtins
import copy
import re
import sys

import pytest
import torch
from torch import nn

from attention_doctor import CATALOGUE, adapt, examine
from attention_doctor.__main__ import main
from attention_doctor.calling import Adapted
from mhalib import MultiHeadAttention, reference
from tests.helpers.examined import PLACES, SICK, of_sick
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import GPT
from tests.helpers.layers_sick_masks import MaskInverted

HOSTILE = "```\n# no *heading* | <script>alert(1)</script> [a](b) @everyone #1 `` ` \\ & ~~x~~"


def test_a_finding_says_what_was_seen_and_what_to_know_in_every_form():
    report = examine(MaskInverted(32, 4), 32, 4)
    (finding,) = report.findings
    page, table = report.to_markdown(), report._repr_html_()
    assert (finding.code, report.ok) == ("mask-inverted", False)
    assert any(c.isdigit() for c in finding.evidence) and "Notebook 04" in finding.lesson
    for part in (finding.code, finding.title, finding.evidence, finding.lesson, "called as: adapt(layer"):
        assert part in str(report)
    for part in (finding.code, finding.title, "called as"):
        assert part in table and part in page
    assert page.startswith("## `MaskInverted`: 1 finding\n") and "Notebook 04" in page
    assert torch.__version__ in page and "seed 0" in page and "layers_sick_masks import MaskInverted" in page
    with pytest.raises(AssertionError, match="mask-inverted"):
        report.raise_for_findings()
    healthy = examine(Layer(32, 4), 32, 4)
    healthy.raise_for_findings()
    for text in (str(healthy), healthy._repr_html_(), healthy.to_markdown()):
        assert "4 heads stated, 4 seen" in text


def test_infinity_is_told_from_nan():
    for number, word in ((torch.inf, "up to infinity"), (torch.nan, "up to NaN")):
        layer, calls = Layer(32, 4), []

        def attend(x, mask=None, layer=layer, calls=calls, number=number):
            calls.append(1)
            return layer(x, mask) + (number if len(calls) == 3 else 0)

        (finding,) = examine(adapt(attend, mask_name="mask"), 32, 4).findings
        assert finding.code == "not-deterministic" and word in finding.evidence


def test_what_could_not_be_examined_is_said():
    def said(attend, **options):
        return " ".join(examine(attend, 32, 4, **options).not_examined)

    layer = Layer(32, 4)
    without_module = said(lambda x, mask=None: layer(x, mask))
    assert "dead parameters" in without_module  # nobody can look for them
    assert "dead parameters" not in said(lambda x, mask=None: layer(x, mask), module=layer)
    assert "masks: the layer takes none" in said(GPT(32, 4))
    assert "masks other than lengths" in said(adapt(reference.to_d2l(MultiHeadAttention(32, 4)), "d2l"))
    assert "from sample to sample" in said(adapt(layer, mask_rank=2))
    assert "a longest T?" in said(GPT(32, 4, longest=9)) and "examined with 4" in said(GPT(32, 4, longest=5))


def test_a_remedy_fits_what_was_seen():
    layer = Layer(32, 4)

    def weights_first(x, mask=None):
        return torch.ones(len(x), x.shape[1], x.shape[1]), layer(x, mask)

    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 32))
    for attend, code, words in (
        (adapt(weights_first, mask_name="mask"), "shape", "adapt(..., output=1)"),
        (lambda x: layer(x + torch.zeros(6, 32)), "crash", "it runs with 6 tokens"),
        (adapt(model, mask=None), "crash", "token ids; hand over an attention layer of the model"),
    ):
        (finding,) = examine(attend, 32, 4).findings
        assert finding.code == code and words in finding.evidence


# ------------------------------------------------------------------------------------------- the examples of the page


SEEN_INSIDE = "wrong-scale softmax-twice groups-differ heads-unused positions-not-relative cache-differs".split()


def blocks(page: str) -> list[str]:
    """Return the code on a page."""
    return re.findall(r"^```+python\n(.*?)^```+$", page, re.DOTALL | re.MULTILINE)


def run(example: str, layer) -> None:
    """Execute an example with this layer in place of the lines that make it, where mhalib cannot be imported."""
    lines = [line for line in example.splitlines() if not re.match(r"layer = |from (?!torch)", line)]
    assert len(lines) < len(example.splitlines())

    def imports(name, *args, **kwargs):
        if name.partition(".")[0] == "mhalib":
            raise ImportError("no mhalib here")
        return builtins.__import__(name, *args, **kwargs)

    namespace = {"layer": layer, "__builtins__": {**vars(builtins), "__import__": imports}}
    with torch.enable_grad():
        try:
            exec("\n".join(lines), namespace)
        finally:
            torch.set_grad_enabled(True)


def test_the_example_of_a_disease_fails_without_mhalib_and_passes_on_a_healthy_layer():
    # In another way called than a healthy layer here, or wrong because of how it is called.
    otherwise = {"WrongPolarityDeclared", "ZeroOneMaskToAnAdditiveLayer", "TimeFirstTakenForBatchFirst"}
    code_of = {name: disease.code for name, disease in {**SICK, **PLACES}.items()}
    first = {code: name for name, code in reversed(code_of.items())}
    inside = [name for name, code in code_of.items() if code in SEEN_INSIDE]
    wrong, shown = [], set()
    for name in sorted({*[*SICK][::3], *first.values(), *inside}):
        torch.manual_seed(0)
        attend = {**SICK, **PLACES}[name].make(32, 4)
        layer = copy.deepcopy(attend.target if isinstance(attend, Adapted) else attend)
        layer = layer.eval() if isinstance(layer, nn.Module) else layer
        report = of_sick(name)
        examples = [finding.example[0] for finding in report.findings if finding.example]
        assert blocks(report.to_markdown()) == examples and (examples or name not in inside), name
        for code, example in zip(report.codes, examples, strict=False):
            shown.add(code)
            try:
                run(example, layer)
                wrong.append(f"{name}: the example of {code} passes on the sick layer")
            except AssertionError:
                pass
            except Exception:
                assert code == "crash"
            if name in otherwise or isinstance(attend, Adapted) or code in ("crash", "shape"):
                continue
            healthy = MultiHeadAttention if code == "nan-on-empty-row" else type(layer).__mro__[1]
            run(example, healthy(32, 4).eval())  # what it is one change away from
    assert wrong == [] and shown == set(CATALOGUE)


def test_hostile_names_and_messages_break_neither_page_nor_table():
    markdown_it = pytest.importorskip("markdown_it")

    class Theirs(Layer):
        def forward(self, x, mask=None):
            raise RuntimeError(HOSTILE)

    Theirs.__name__ = Theirs.__qualname__ = HOSTILE
    report = examine(adapt(Theirs(32, 4)), 32, 4)
    report.called_as = report.heads = HOSTILE
    report.say("window", HOSTILE)
    report.say("masks", HOSTILE)
    page = report.to_markdown()
    html = markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(page)
    assert "<script" not in html + report._repr_html_()
    assert "<a " not in html and "<s>" not in html and "<em>heading" not in html
    assert len(re.findall("<h[1-6]>", html)) == 5 and html.count("<pre>") == 2
    assert "@everyone" not in re.sub("<code.*?</code>", "", html, flags=re.DOTALL)  # on GitHub it would call people
    (example,) = blocks(page)
    with pytest.raises(RuntimeError):
        run(example, Theirs(32, 4))


# --------------------------------------------------------------------------------------------------- the command line

FACTORIES = """
from torch import nn
from mhalib import MultiHeadAttention

def healthy(): return MultiHeadAttention(32, 4)
def torch_layer(): return nn.MultiheadAttention(32, 4)
def inverted():
    layer = MultiHeadAttention(32, 4)
    return lambda x, mask=None: layer(x, mask=None if mask is None else ~mask)
def broken(): raise RuntimeError("no weights here")
value = 3
"""
SIZES = ["--d-model", "32", "--num-heads", "4"]


def test_what_the_command_prints_and_its_exit_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "some_layers.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    wrong = []
    for factory, options, code, words in (
        ("healthy", [], 0, "no finding"),
        ("torch_layer", ["--called-as", "adapt(layer, 'torch', mask=None)"], 0, "masks: the layer takes none"),
        ("inverted", [], 1, "mask-inverted"),
        ("broken", [], 2, "no weights here"),
        ("value", [], 2, "no function that makes a layer"),
        ("missing", [], 2, "has no missing; what can be called in it: "),
        ("MultiHeadAttention", [], 0, "called as: MultiHeadAttention(d_model=32, num_heads=4): adapt(layer"),
        ("healthy", ["--called-as", "adapt(layer, mask_rank=1)"], 2, "mask_rank must be one of"),
    ):
        came = main([f"some_layers:{factory}", *SIZES, *options])
        printed = capsys.readouterr()
        if came != code or words not in (printed.err if code == 2 else printed.out):
            wrong.append((factory, options, came, printed))
    sys.modules.pop("some_layers", None)
    assert wrong == []
