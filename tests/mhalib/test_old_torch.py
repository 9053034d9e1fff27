"""The oldest torch that `mhalib` asks for: nothing newer is used without asking whether it is there.

It was found by running layers, captures and views with older ones; the versions that were tried stand in
pyproject.toml. Here nothing is installed: what torch 2.1 lacks is looked for, and taken away.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NEWER = """
torch.compiler.is_compiling torch.compiler.is_exporting torch.compiler.set_stance torch.accelerator torch.uint16
torch.amp.is_autocast_available torch.amp.GradScaler torch.amp.custom_fwd torch.amp.custom_bwd torch.uint32
torch.uint64 torch.get_device_module torch.library.custom_op torch.nn.attention nn.attention torch.nn.RMSNorm
nn.RMSNorm nn.Buffer F.rms_norm enable_gqa torch._dynamo._trace_wrapped_higher_order_op
""".split()  # what torch 2.1.2 lacks, of that which a teacher of attention might reach for
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


def too_new(source: str) -> list[str]:
    """Return what a file uses of a newer torch, where no `hasattr` in it asks whether it is there."""
    used = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            used.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            used += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            used += [alias.name for alias in node.names]
        elif isinstance(node, ast.Call):
            used += [str(keyword.arg) for keyword in node.keywords]
    found = {new for new in NEWER if any(f"{name}.".startswith(f"{new}.") for name in used)}
    return sorted(new for new in found if 'hasattr({}, "{}")'.format(*new.rpartition(".")[::2]) not in source)


def test_no_room_uses_a_newer_torch_without_asking_for_it():
    files = (ROOT / "mhalib").rglob("*.py")
    found = {path.relative_to(ROOT / "mhalib").as_posix(): too_new(path.read_text(encoding="utf-8")) for path in files}
    excused = {name: new for name, new in found.items() if new and LEFT_OUT.keys() & set(name.split("/"))}
    assert excused, "what is left out is seen to be too new"
    wrong = {name: new for name, new in found.items() if new and name not in excused}
    assert wrong == {}, "torch 2.1 lacks these; ask hasattr first, or do without"


def test_layers_captures_views_and_the_doctor_do_without_what_older_torch_lacks():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
