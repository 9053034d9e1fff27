"""`python -m mhalib.doctor`: what it prints, its exit codes, and how it refuses."""

import subprocess
import sys

import pytest

from mhalib.doctor.__main__ import main

FACTORIES = """
import torch
from torch import nn
from mhalib import MultiHeadAttention
from mhalib.doctor import adapt

def healthy(): return MultiHeadAttention(32, 4)
def torch_layer(): return nn.MultiheadAttention(32, 4)
def inverted():
    layer = MultiHeadAttention(32, 4)
    return lambda x, mask=None: layer(x, mask=None if mask is None else ~mask)
def broken(): raise RuntimeError("no weights here")
value = 3
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "some_layers.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield "some_layers"
    sys.modules.pop("some_layers", None)


SIZES = ["--d-model", "32", "--num-heads", "4"]


@pytest.mark.parametrize(
    ("factory", "options", "code", "words"),
    [
        ("healthy", [], 0, "no finding"),
        ("torch_layer", [], 0, "no finding"),
        ("torch_layer", ["--convention", "torch", "--mask", "none"], 0, "masks: the layer takes none"),
        ("inverted", [], 1, "mask-inverted"),
        ("broken", [], 2, "no weights here"),
        ("value", [], 2, "no function that makes a layer"),
        ("missing", [], 2, "has no missing; what can be called in it: "),
        ("MultiHeadAttention", [], 0, "called as: MultiHeadAttention(d_model=32, num_heads=4): adapt(layer"),
        ("healthy", ["--mask-rank", "1"], 2, "mask_rank must be one of"),
    ],
)
def test_the_command_line(factories, capsys, factory, options, code, words):
    assert main([f"{factories}:{factory}", *SIZES, *options]) == code
    printed = capsys.readouterr()
    assert words in (printed.err if code == 2 else printed.out)


def test_as_a_command(tmp_path):
    (tmp_path / "some_layers.py").write_text(FACTORIES)
    command = [sys.executable, "-m", "mhalib.doctor", "some_layers:inverted", *SIZES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "mask-inverted" in done.stdout, done.stderr
    assert subprocess.run(command[:3], cwd=tmp_path, capture_output=True).returncode == 2
