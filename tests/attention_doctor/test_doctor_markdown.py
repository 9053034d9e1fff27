"""The page for a pull request: its examples fail without mhalib, pass on healthy layers, and nothing breaks it."""

import builtins
import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import examine
from mhalib.doctor.markdown import LESSONS
from tests.helpers.examined import of_sick
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import GPT
from tests.helpers.layers_sick_masks import SICK, MaskInverted

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


@pytest.mark.parametrize("part", range(2))
def test_the_example_of_each_disease_fails_without_mhalib_and_passes_on_a_healthy_layer(part):
    wrong = []
    for name in [*SICK][part::6]:
        report = of_sick(name)
        target = report.case.attend.target
        layer = copy.deepcopy(target).eval() if isinstance(target, nn.Module) else target
        for finding, example in zip(report.findings, blocks(report.to_markdown()), strict=True):
            try:
                run(example, layer)
                wrong.append(f"{name}: the example of {finding.code} passes on the sick layer")
            except AssertionError:
                pass
            if name in OTHERWISE_CALLED or report.case.attend.masks not in ("any", "none"):
                continue
            healthy = MultiHeadAttention if finding.code == "nan-on-empty-row" else Layer
            run(example, (GPT if isinstance(target, GPT) else healthy)(32, 4).eval())
    assert wrong == []


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
    assert "04 *Masking*" in page and "seed 0" in page and "layers_sick_masks import MaskInverted" in page
    assert "](" not in page
    report.called_as = "adapt(layer, mask='blocked')\n# as it behaves"
    assert "```\nadapt(layer, mask='blocked')\n# as it behaves\n```" in report.to_markdown()
    assert "\n    # as it behaves" in str(report) and "<br># as it behaves" in report._repr_html_()
    for text in (report, report._repr_html_()):
        assert "called as" in str(text) and "4 heads stated, 4 counted" in str(text)


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
        run(example, report.case.attend.target)


def test_the_lessons_have_their_titles():
    folder = Path(__file__).resolve().parents[2] / "notebooks"
    titles = {}
    for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        number, _, title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ").partition(" · ")
        titles[number] = title
    assert titles.items() >= LESSONS.items() and LESSONS.keys() >= {f"{n:02}" for n in range(16)}
