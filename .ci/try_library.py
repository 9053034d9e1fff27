"""What a stranger does with the wheel alone: run from any folder, with the Python in which it was installed.

Says where it came from and in which versions, and stops at the first thing that does not work. With `--bare` the
extras are missing, and what needs one must say which.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch
from torch import nn

import mhalib
from attention_doctor import examine
from headview import capture
from mhalib import MultiHeadAttention, padding_mask
from mhalib.plots import plot_attention

torch.manual_seed(0)
x = torch.randn(2, 5, 8)
layer = MultiHeadAttention(8, 2).eval()
layer(x, mask=padding_mask(torch.tensor([3, 5]), 5), need_weights=True)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
for model, number in ((layer, 1), (encoder, 2)):
    with capture(model) as maps:
        model(x)
    assert len(maps) == number, f"expected the maps of {number} layers, got {len(maps)}"
plot_attention(maps[0][0], list("abcde"))
assert examine(layer, d_model=8, num_heads=2).findings == []
command = [sys.executable, "-m", "attention_doctor", "mhalib:MultiHeadAttention"]
assert "no finding" in subprocess.run(command, capture_output=True, text=True, check=True).stdout

if "--bare" in sys.argv:
    for line, extra in (
        ("from headview import HeadView", "headview"),
        ("from mhalib.experiments import sweep", "training"),
        ("from mhalib.pretrained import load_minilm; load_minilm()", "pretrained"),
    ):
        done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
        assert f"mhalib[{extra}]" in done.stderr.splitlines()[-1], done.stderr
    sys.exit()

from headview import HeadView  # noqa: E402 — it needs the extra

for weights in (maps, maps[0]):
    page = HeadView(weights, [list("abcde")] * 2).to_html()
    assert "<script" in page and 'src="http' not in page, "a page carries its view itself"

home = Path(mhalib.__file__).parent
assert metadata.version("mhalib") == mhalib.__version__
assert Path(sys.prefix).resolve() in home.resolve().parents, f"{home} is not in the environment that is to be tried"
versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "matplotlib", "anywidget"))
print(f"mhalib {mhalib.__version__} from {home} works with Python {sys.version.split()[0]}, {versions}")
