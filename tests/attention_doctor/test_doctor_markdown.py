"""The page for a pull request: its examples fail without mhalib, pass on healthy layers, and nothing breaks it."""

import builtins
import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import Report, adapt, examine
from mhalib.doctor.adapt import Adapted, pick
from mhalib.doctor.examples import Case, Wording, find_example
from mhalib.doctor.examples.table import EXPERIMENTS
from mhalib.doctor.markdown import LESSONS, code, fenced, plain
from mhalib.doctor.setting import Setting
from tests.attention_doctor.test_doctor import examined
from tests.helpers.layers_base import Layer, projections
from tests.helpers.layers_healthy import GPT, HEALTHY
from tests.helpers.layers_sick import DropoutLeftOn, MergeWithoutTranspose, SoftmaxOverQueriesWithoutMask
from tests.helpers.layers_sick_masks import SICK, MaskIgnored, MaskInverted, MaskOfTheFirstCall

OTHERWISE_CALLED = {  # in another way than a healthy layer here, or wrong because of how it is called
    "WrongPolarityDeclared", "ZeroOneMaskToAnAdditiveLayer", "TimeFirstTakenForBatchFirst"
}  # fmt: skip


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


def the_layer_itself(report):
    target = report.case.attend.target
    return copy.deepcopy(target).eval() if isinstance(target, nn.Module) else target


@pytest.mark.parametrize("name", SICK)
def test_the_example_of_each_disease_fails_without_mhalib_and_passes_on_a_healthy_layer(name):
    report = examined(SICK[name], 32, 4, 1)
    found = blocks(report.to_markdown())
    assert len(found) == len(report.findings), report.to_markdown()
    for finding, example in zip(report.findings, found, strict=True):
        assert len(example.splitlines()) <= 24 and max(map(len, example.splitlines())) <= 120, example
        assert "mhalib" not in re.sub("from mhalib.*", "", example) or name.startswith("MultiHead")
        with pytest.raises(AssertionError) as error:
            run(example, the_layer_itself(report))
        assert str(error.value) == report.example(finding.code).message or name == "DropoutLeftOn"
        if name in OTHERWISE_CALLED or report.case.attend.masks not in ("any", "none"):
            continue
        healthy = MultiHeadAttention if finding.code == "nan-on-empty-row" else Layer
        healthy = GPT if isinstance(report.case.attend.target, GPT) else healthy
        run(example, healthy(32, 4).eval())


def test_every_code_of_the_corpus_has_experiments():
    assert {disease.code for disease in SICK.values()} <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", HEALTHY)
def test_the_call_in_words_is_the_call_of_the_doctor(name):
    torch.manual_seed(0)
    case = examine(HEALTHY[name](32, 4), 32, 4).case
    attend, target = case.attend, case.attend.target
    if isinstance(target, nn.Module):
        target.eval()
    x = torch.randn(2, 5, 32, dtype=case.dtype)
    say = Wording(case, _result(attend, x, case.needs_mask))
    time_first = say.order == "T B d"
    namespace = {"layer": getattr(target, "__self__", target), "torch": torch}
    namespace |= {"x": x.transpose(0, 1).contiguous() if time_first else x.clone()}
    with torch.no_grad():
        for kind in ("none", *say.kinds):
            mask = torch.tensor([[kind == "none" or say.shows(kind, t, j, 5) for j in range(5)] for t in range(5)])
            mask = mask.expand(2, 5, 5) if case.mask_ndim == 3 else mask
            text = say.call("x", None if kind == "none" else say.mask(kind, 2, 5), B=2, T=5)
            out = eval(text, namespace)
            out = out.transpose(0, 1) if time_first else out
            wanted = attend(x, None if kind == "none" and not case.needs_mask else mask)
            assert torch.allclose(out, wanted, rtol=1e-4, atol=1e-5, equal_nan=True), text


def _result(attend: Adapted, x, needs_mask):
    seen, kept = [], attend.target

    def watched(*args, **kwargs):
        seen.append(kept(*args, **kwargs))
        return seen[-1]

    twin = copy.copy(attend)
    twin.target, watched.num_heads = watched, 4
    twin(x, torch.ones(5, 5, dtype=torch.bool) if needs_mask else None)
    return seen[-1]


@pytest.mark.parametrize(("rank", "shape"), [(2, (2, 5)), (3, (2, 1, 5)), (4, (2, 1, 1, 5))])
@pytest.mark.parametrize("mask", ["allowed", "blocked", "float01", "additive"])
def test_masks_over_the_keys_alone(rank, shape, mask):
    attend = adapt(lambda x, mask: x, mask=mask, mask_rank=rank, mask_name="mask") if rank > 1 else None
    attend.mask_over, attend.__class__ = "keys", type("OverKeys", (Adapted,), {"masks": "keys"})
    say = Wording(Case(attend, None, None, 32, 4, 8, False, 3, torch.float32, torch.device("cpu"), Setting(2, 5)), None)
    made = eval(say.mask("short", 2, 5), {"torch": torch})
    assert made.shape == shape
    hidden = {"allowed": False, "blocked": True, "float01": 0.0, "additive": -torch.inf}[mask]
    assert (made[..., -1] == hidden).all() and (made[..., :-1] != hidden).all()
    each = eval(say.native("mask", 2, 5, "each"), {"torch": torch, "mask": torch.ones(2, 5, dtype=torch.bool)})
    assert each.shape == shape


def test_a_page_runs_in_a_process_of_its_own(tmp_path):
    """Copied from the page into a file, with the one line filled in, where mhalib cannot be imported at all."""
    (tmp_path / "theirs.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Attention(nn.Module):\n"
        "    def __init__(self, d):\n        super().__init__()\n        self.qkv = nn.Linear(d, 3 * d)\n\n"
        "    def forward(self, x, mask=None):\n        q, k, v = self.qkv(x).chunk(3, -1)\n"
        "        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        theirs = __import__("theirs")
        report = examine(theirs.Attention(32), 32, 1)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("theirs", None)
    assert report.codes == ["mask-ignored"]
    (example,) = blocks(report.to_markdown())
    filled = example.replace("Attention(...)", "Attention(32)")
    (tmp_path / "example.py").write_text(f"import sys\nsys.modules['mhalib'] = None\n{filled}")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "AssertionError: output" in done.stderr, done.stderr
    assert "hides" in done.stderr


def test_the_page_has_all_that_the_report_has():
    report = examine(MaskInverted(32, 4), 32, 4)
    report.called_as, report.heads = "layer(x, mask=mask)", "4 heads stated, 4 counted"
    page = report.to_markdown()
    (finding,) = report.findings
    assert page.startswith("## `MaskInverted`: 1 finding\n") and finding.title in page and "`mask-inverted`" in page
    assert "called as `layer(x, mask=mask)`" in page and "4 heads stated" in page and torch.__version__ in page
    assert "04 *Masking*" in page and "seed 0" in page and "from layers_sick_masks import MaskInverted" in page
    assert "](" not in page
    report.called_as = "adapt(layer, mask='blocked')\n# as it behaves"
    assert "```\nadapt(layer, mask='blocked')\n# as it behaves\n```" in report.to_markdown()
    assert "\n    # as it behaves" in str(report) and "<br># as it behaves" in report._repr_html_()
    for text in (report, report._repr_html_()):
        assert "called as" in str(text) and "4 heads stated, 4 counted" in str(text)


def test_a_healthy_layer_has_a_page_too():
    page = examine(Layer(32, 4), 32, 4).to_markdown()
    assert page.startswith("## `Layer`: no finding\n") and not blocks(page) and "empty-row-mean" in page


def test_the_page_is_the_same_on_every_call_and_the_layer_as_it_was():
    layer = MergeWithoutTranspose(32, 4).train()
    x = torch.randn(2, 3, 32)
    before, state = layer(x), torch.get_rng_state()
    report = examine(layer, 32, 4)
    assert report.to_markdown() == report.to_markdown() == examine(layer, 32, 4).to_markdown()
    assert layer.training and torch.equal(layer(x), before) and torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and p.requires_grad for p in layer.parameters()) and torch.is_grad_enabled()


def test_a_layer_that_cannot_be_copied_and_one_that_remembers():
    layer = MaskInverted(32, 4)
    layer.lock = (line for line in ())  # a generator cannot be copied
    assert examine(layer, 32, 4).example("mask-inverted") is not None
    remembering = MaskOfTheFirstCall(32, 4)
    assert "second call" in examine(remembering, 32, 4).example("crash").message and remembering.kept is None
    assert examine(DropoutLeftOn(32, 4), 32, 4).example("not-deterministic") is not None


def test_copies_of_a_report_keep_the_examples_and_not_the_layer():
    report = examine(MaskInverted(32, 4), 32, 4)
    for twin in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert twin.case is None and twin.to_markdown() == report.to_markdown() and twin == report


def test_an_example_is_asked_for_by_the_code_of_a_finding():
    with pytest.raises(KeyError, match="there are: mask-inverted"):
        examine(MaskInverted(32, 4), 32, 4).example("crash")
    report = Report("a layer")
    report.find("crash", "it raised.")
    assert report.example("crash") is None and "No example of a few lines" in report.to_markdown()


@pytest.mark.parametrize("factor", [1, 6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_and_sharper_maps(dtype, factor):
    for kind in (MaskInverted, MergeWithoutTranspose):
        torch.manual_seed(0)
        layer = kind(32, 4).to(dtype)
        for parameter in layer.parameters():
            parameter.data *= factor
        report = examine(layer, 32, 4)
        assert report.codes and all(report.example(code) for code in report.codes), report
        assert f"dtype={dtype}" in report.to_markdown()


def test_functions_methods_and_time_first():
    layer = MaskInverted(32, 4)
    report = examine(layer.forward, 32, 4)
    assert "layer.forward(x" in report.to_markdown()

    def attention(x, mask=None):
        return layer(x, mask)

    page = examine(attention, 32, 4).to_markdown()
    assert "layer = ...  # your function" in page and len(blocks(page)) == 1  # it stands in a function
    attention.__qualname__ = "attention"
    assert "from test_doctor_markdown import attention" in examine(attention, 32, 4).to_markdown()

    class TimeFirst(MaskInverted):
        def forward(self, x, mask=None):
            return super().forward(x.transpose(0, 1), mask).transpose(0, 1)

    report = examine(adapt(TimeFirst(32, 4), batch_first=False), 32, 4)
    (example,) = blocks(report.to_markdown())
    assert "# (T, B, d_model)" in example and "changed[1, 0] +=" in example
    with pytest.raises(AssertionError):
        run(example, the_layer_itself(report))


def test_a_tuple_a_dict_and_an_attribute_are_picked():
    class InADict(MaskIgnored):
        def forward(self, x, mask=None):
            return {"weights": None, "out": super().forward(x, mask)}

    class InATuple(MaskIgnored):
        def forward(self, x, mask=None):
            return None, super().forward(x, mask)

    for kind, tail in ((InADict, "['out']"), (InATuple, "[1]")):
        assert f"mask=mask){tail}" in examine(kind(32, 4), 32, 4).to_markdown()
        assert pick(kind(32, 4)(torch.randn(1, 2, 32))).shape == (1, 2, 32)


HOSTILE = "```\n# no *heading* | <script>alert(1)</script> [a](b) @everyone #1 `` ` \\ & ~~x~~"


def test_hostile_names_and_messages_do_not_break_the_page():
    markdown_it = pytest.importorskip("markdown_it")

    class Theirs(Layer):
        def forward(self, x, mask=None):
            raise RuntimeError(HOSTILE)

    Theirs.__name__ = Theirs.__qualname__ = HOSTILE
    report = examine(Theirs(32, 4), 32, 4)
    report.called_as = report.heads = HOSTILE
    report.remark("window", HOSTILE)
    report.skip("masks", HOSTILE)
    page = report.to_markdown()
    html = markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(page)
    assert "<script" not in html and "<a " not in html and "<s>" not in html and "<em>heading" not in html
    assert len(re.findall("<h[1-6]>", html)) == 5 and html.count("<pre>") == 2
    assert "@everyone" not in re.sub("<code.*?</code>", "", html, flags=re.DOTALL)  # on GitHub it would call people
    (example,) = blocks(page)
    with pytest.raises(AssertionError):
        run(example, the_layer_itself(report))


def test_the_small_things_of_markdown():
    assert (
        plain("1. <b> a_b\n# c") == "1\\. \\<b\\> a_b # c" and plain("# a") == "\\# a" and plain("1.5 of") == "1.5 of"
    )
    assert code("a`b") == "`` a`b ``" and code("a\nb") == "`a b`" and code("") == "` `"
    assert fenced("a\n````\n") == "`````\na\n````\n`````"


def test_the_lessons_have_their_titles():
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    titles = {}
    for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        number, _, title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ").partition(" · ")
        titles[number] = title
    assert titles.items() >= LESSONS.items() and LESSONS.keys() >= {f"{n:02}" for n in range(16)}


def test_weights_are_named_where_they_stand_in_the_layer():
    layer = SICK["NotScaled"].make(32, 4)
    report = examine(layer, 32, 4, weights={name: linear.weight for name, linear in projections(layer).items()})
    assert "x @ layer.W_q.weight.T" in report.to_markdown()
    free = examine(layer, 32, 4, weights={name: linear.weight.clone() for name, linear in projections(layer).items()})
    assert free.codes == ["wrong-scale"]


def test_a_softmax_over_queries_behind_a_function():
    layer = SoftmaxOverQueriesWithoutMask(32, 4)
    assert examine(lambda x: layer(x), 32, 4).example("softmax-axis") is not None


def test_heads_are_counted_by_a_rank():
    class OneHeadCutOff(Layer):
        def split_v(self, x):
            return self.split(x) * (torch.arange(self.h) > 0)[:, None, None]

    for kind, stated, counted in ((OneHeadCutOff, 4, 3), (Layer, 2, 4)):
        report = examine(kind(32, 4), 32, stated)
        if "heads-unused" not in report.codes:
            report.find("heads-unused", "as if it had been counted.")
        example = report.example("heads-unused")
        assert example.message == f"{stated} heads are stated, {counted} take part in the output"
        run(example.code, Layer(32, stated).eval())


def test_weights_that_do_not_sum_to_one_show_without_knowing_why():
    class MultipliedByTheMask(Layer):
        def attend(self, q, k, v, mask):
            weights = self.weigh(self.score(q, k))
            return (weights if mask is None else weights * self.axes(mask)) @ v

    class Sigmoid(Layer):
        def weigh(self, scores):
            return scores.sigmoid()

    for kind, words in ((MultipliedByTheMask, "may be seen"), (Sigmoid, "the same token 2 times")):
        report = examine(kind(32, 4), 32, 4)
        example = find_example("no-softmax", "", report.codes, report.case)
        assert words in example.message
        run(example.code, Layer(32, 4).eval())
