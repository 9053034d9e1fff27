"""Layers of transformers, made from small configs: all of them are healthy."""

import importlib
import inspect
from pathlib import Path

import pytest
import torch

from attention_doctor import examine

transformers = pytest.importorskip("transformers")
SMALL = dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim"), 64) | {"head_dim": 16, "intermediate_size": 96}
SMALL |= dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads"), 4)
SMALL |= {"num_key_value_heads": 2, "vocab_size": 100, "num_hidden_layers": 2, "decoder_attention_heads": 4}
BY_DAY = ["bert.BertAttention", "gpt2.GPT2Attention", "llama.LlamaAttention", "qwen3.Qwen3Attention"]
RIGHT = {  # what is said of these is so
    "swiftformer.SwiftFormerEfficientAdditiveAttention",  # a softmax over an axis of one number
    "vjepa2.VJEPA2PoolerSelfAttention",  # its eager way drops the mask
    "vjepa2.VJEPA2PoolerCrossAttention",
    "ctrl.MultiHeadAttention",  # keys are cut by the number of queries
    "vits.VitsAttention",  # nothing reads its key_value_states
}


def small(module, kind, way):
    """Return a layer of this kind from a small config; None where it is made in another way."""
    name = module.__name__.replace("modeling_", "configuration_")
    configs = [c for c in vars(importlib.import_module(name)).values() if getattr(c, "__module__", "") == name]
    arguments = {"layer_idx": 0} if "layer_idx" in inspect.signature(kind).parameters else {}
    for config in [c for c in configs if isinstance(c, type) and c.__name__.endswith("Config")]:
        try:
            made = config()
            for size in [size for size in SMALL if isinstance(getattr(made, size, None), int)]:
                setattr(made, size, SMALL[size])
            made._attn_implementation = way
            torch.manual_seed(0)
            layer = kind(made, **arguments).eval()
        except Exception:  # whatever a config of another kind makes it raise
            continue
        for parameter in layer.parameters():  # some are filled by the whole model only
            torch.nn.init.normal_(parameter, std=0.1)
        return layer if sum(p.numel() for p in layer.parameters()) < 10**6 else None
    return None


def accused(source):
    """Return what is found wrong with an attention class, such as "bert.BertAttention", where it can be called."""
    family, name = source.split(".")
    try:
        module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        importlib.import_module(module.__name__.replace("modeling_", "configuration_"))
    except ImportError:  # it wants more than is installed
        return []
    found = []
    for way in ("eager", "sdpa"):
        layer = small(module, getattr(module, name), way)
        try:
            report = layer and examine(layer, seconds=6)
        except (TypeError, ValueError):  # asked for adapt
            continue
        found += [f"{source}, {way}: {report}"] if report and not report.ok else []
    return found


@pytest.mark.parametrize("source", BY_DAY)
def test_nothing_is_wrong_with_a_layer_that_everybody_tries_first(source):
    assert accused(source) == []


@pytest.mark.slow
def test_nothing_is_wrong_with_the_attention_of_any_family():
    sources = {}
    for path in sorted(Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        names = [line[6:].partition("(")[0] for line in lines if line.startswith("class ") and "Attention(" in line]
        if path.stem == f"modeling_{path.parent.name}":
            sources |= dict.fromkeys(f"{path.parent.name}.{name}" for name in names)
    assert [said for source in sorted({*sources} - RIGHT) for said in accused(source)] == []
