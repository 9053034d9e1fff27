"""Machines that lack something: an extra of mhalib is named where it is needed, and an older torch is enough.

The oldest one was found by running layers, captures and views with older ones; the versions that were tried stand in
pyproject.toml. Here nothing is installed: what torch 2.3 or older ones lack is taken away, what they had is given back.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WITHOUT = """
import torch
import torch._dynamo  # as if a layer had been compiled
from torch import nn

torch._utils.is_compiling = lambda: False  # as torch 2.1 has it; that of today asks torch.compiler
asked, exporting = torch.compiler.is_compiling, torch.compiler.is_exporting
for name in '''
    compiler.is_compiling compiler.is_exporting compiler.set_stance accelerator uint16 uint32 uint64 library.custom_op
    amp.is_autocast_available amp.GradScaler amp.custom_fwd amp.custom_bwd get_device_module nn.attention nn.RMSNorm
    nn.Buffer nn.functional.rms_norm
'''.split():
    *place, last = name.split(".")
    where = torch
    for each in place:
        where = getattr(where, each)
    delattr(where, last)

from mhalib import MultiHeadAttention, padding_mask

# Today's nn.Module, and today's modes that see operations, need these.
torch.compiler.is_compiling, torch.compiler.is_exporting = asked, exporting

torch.Tensor.names = property(lambda x: (None,) * x.ndim)  # of its axes, as torch 2.11 has them

from attention_doctor import examine
from headview import HeadView, capture

x = torch.randn(2, 5, 8)
layer = MultiHeadAttention(8, 2).eval()
layer(x, mask=padding_mask(torch.tensor([3, 5]), 5), need_weights=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(x.bfloat16())
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
for model, number in ((layer, 1), (encoder, 2)):
    with capture(model) as maps:
        model(x)
    assert len(maps) == number and "<script" in HeadView(maps).to_html()
    assert "<script" in HeadView(maps[0]).to_html()
assert examine(layer, d_model=8, num_heads=2).findings == []
"""


def run(code):
    root = Path(__file__).resolve().parents[2]
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=root, capture_output=True, text=True)


def test_layers_captures_views_and_the_doctor_do_without_what_older_torch_lacks():
    done = run(WITHOUT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_missing_package_is_named_with_its_remedy():
    needed = {"training": "tqdm", "sweeps": "joblib", "comparison": "joblib"}
    calls = [(package, f"experiments.{room}", "training") for room, package in needed.items()]
    calls += [(package, "pretrained.minilm", "pretrained") for package in ("safetensors", "tokenizers")]
    for package, module, extra in calls:
        done = run(f"import sys; sys.modules[{package!r}] = None; import mhalib.{module}")
        last = done.stderr.splitlines()[-1]
        assert re.search(rf'^ModuleNotFoundError: .*needs {package}\b.*; .*"mhalib\[{extra}\]"$', last), last
