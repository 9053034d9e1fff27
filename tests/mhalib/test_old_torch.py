"""Which torch `mhalib` asks for: the same in pyproject.toml and the README, and nothing newer used without asking.

The oldest torch was found by running layers, captures and views with older ones, and with torch 2.1.2 their tests too;
the versions that were tried stand in pyproject.toml. Here nothing is installed: what torch 2.1 lacks is listed, and
taken away.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOOR = "2.1"
NEWER = {  # what torch 2.1.2 lacks, of that which a teacher of attention might reach for
    *("torch.compiler.is_compiling", "torch.compiler.is_exporting", "torch.compiler.set_stance", "torch.accelerator"),
    *("torch.amp.is_autocast_available", "torch.amp.GradScaler", "torch.amp.custom_fwd", "torch.amp.custom_bwd"),
    *("torch.uint16", "torch.uint32", "torch.uint64", "torch.get_device_module", "torch.library.custom_op"),
    *("torch.nn.attention", "nn.attention", "torch.nn.RMSNorm", "nn.RMSNorm", "nn.Buffer", "F.rms_norm"),
    *("torch.nn.functional.rms_norm", "torch.nn.Buffer", "torch._dynamo._trace_wrapped_higher_order_op"),
}
KEYWORDS = {"enable_gqa"}
LEFT_OUT = {  # rooms and files that may use more, and why
    "checks": "the exercises run in the course, whose torch is pinned",
    "experiments": "the extra `training` asks for a torch that has torch.accelerator",
    "capture_flex.py": "it is entered only from a call of torch's FlexAttention",
}
WITHOUT = """
import torch
import torch._dynamo  # as if a layer had been compiled
from torch import nn

torch._utils.is_compiling = lambda: False  # as torch 2.1 has it; that of today asks torch.compiler
asked = torch.compiler.is_compiling
del torch.compiler.is_compiling, torch.compiler.set_stance, torch.amp.is_autocast_available, torch.accelerator

from mhalib import MultiHeadAttention, masks, padding_mask

assert masks._is_compiling is torch._utils.is_compiling
torch.compiler.is_compiling = asked  # today's nn.Module needs it

from mhalib.doctor import examine
from mhalib.heads import capture
from mhalib.widgets import HeadView

x = torch.randn(2, 5, 8)
layer = MultiHeadAttention(8, 2).eval()
output, weights = layer(x, mask=padding_mask(torch.tensor([3, 5]), 5), need_weights=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(x.bfloat16())
try:
    layer(x.double())
except ValueError as error:
    assert "use x.to(torch.float32)" in str(error)
else:
    raise AssertionError("another dtype was taken")
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
for model, number in ((layer, 1), (encoder, 2)):
    with capture(model) as maps:
        model(x)
    assert len(maps) == number and "<script" in HeadView(maps).to_html()
assert examine(layer, d_model=8, num_heads=2).findings == []
"""


def dotted(node: ast.AST) -> str:
    """Return the name that a chain of attributes spells, or nothing."""
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def too_new(source: str) -> list[str]:
    """Return what a file uses of a torch newer than the oldest, where no `hasattr` in it asks whether it is there."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Attribute):
            names = [dotted(node)]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call):
            found |= {keyword.arg for keyword in node.keywords} & KEYWORDS
        found |= {new for new in NEWER for name in names if name == new or name.startswith(new + ".")}
    return sorted(x for x in found if f'hasattr({x.rpartition(".")[0]}, "{x.rpartition(".")[2]}")' not in source)


def test_no_room_uses_a_newer_torch_without_asking_for_it():
    house = ROOT / "mhalib"
    files = [f for f in house.rglob("*.py") if not LEFT_OUT.keys() & set(f.relative_to(house).parts)]
    assert len(files) > 50
    wrong = {str(f.relative_to(ROOT)): new for f in files if (new := too_new(f.read_text(encoding="utf-8")))}
    assert not wrong, f"torch {FLOOR} lacks these; ask hasattr first, or do without: {wrong}"
    for name in LEFT_OUT:
        assert any(too_new(f.read_text(encoding="utf-8")) for f in house.rglob("*.py") if name in f.parts), name


@pytest.mark.parametrize(
    ("source", "new"),
    [
        ("import torch\ntorch.compiler.set_stance('force_eager')", ["torch.compiler.set_stance"]),
        ("from torch.nn.attention import sdpa_kernel", ["torch.nn.attention"]),
        ("from torch import accelerator", ["torch.accelerator"]),
        ("import torch.nn.attention.flex_attention", ["torch.nn.attention"]),
        ("F.scaled_dot_product_attention(q, k, v, enable_gqa=True)", ["enable_gqa"]),
        ('hasattr(torch.compiler, "set_stance") and torch.compiler.set_stance("default")', []),
        ("torch.compiler.disable(f)", []),
    ],
)
def test_what_is_too_new_is_found(source, new):
    assert too_new(source) == new


def test_layers_captures_views_and_the_doctor_do_without_what_older_torch_lacks():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pyproject_and_readme_name_the_same_oldest_torch_and_it_was_tried():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert [x for x in project["dependencies"] if x.startswith("torch")] == [f"torch>={FLOOR}"]
    section = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## On your own model")[2].partition("\n## ")[0]
    )
    assert re.findall(r"The torch that you have stays, from ([\d.]+) on", section) == [FLOOR]
    assert re.findall(r"missing or older than ([\d.]+),", section) == [FLOOR]
    tried = re.findall(r"\d+\.\d+\.\d+", re.search(r"^# Tried with (.+?);", text, re.MULTILINE)[1])
    pinned = re.search(r"^torch==([\d.]+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert tried[0].startswith(FLOOR + ".") and tried[-1] == pinned, "the oldest and that of the course were tried"
