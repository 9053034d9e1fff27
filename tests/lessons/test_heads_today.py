"""The table of lesson 12 says of each model what its configuration says; the buckets of lesson 13 are T5's."""

import math
import re
from collections import Counter

import pytest
import torch

from tools.notebooks.run import NOTEBOOKS, read

QWEN = "Qwen3.5 (width 4,096)"
KINDS = {  # how a model of the table is called in transformers
    "gpt-oss-120b": "gpt_oss",
    "Gemma 3n": "gemma3n_text",
    "Qwen3-Next": "qwen3_next",
    "DeepSeek-V3.2": "deepseek_v32",
    "Mistral Small 4": "mistral4",
    QWEN: "qwen3_5_text",
    "DeepSeek-V4-Flash": "deepseek_v4",
    "GLM-5.3-Flash": "glm5_next",
}


def rows():
    nb = read(NOTEBOOKS / "12_heads_today.ipynb")
    (text,) = (cell.source for cell in nb.cells if "| query heads |" in cell.source)
    lines = re.findall(r"^\| (.+) \|$", text, re.MULTILINE)[1:]
    return {cells[0].rpartition(",")[0]: cells[1:] for cells in (line.split(" | ") for line in lines)}


def said_by(config):
    """Return heads, KV heads by features, and the layers that grow among all, as the table has them."""
    kv = getattr(config, "num_key_value_heads", None)
    latent = getattr(config, "kv_lora_rank", None)
    kept = f"latent {latent} + {config.qk_rope_head_dim}" if latent else f"{kv} × {config.head_dim}"
    layers = config.num_hidden_layers
    own = list(getattr(config, "layer_types", None) or ["full_attention"] * layers)
    own = own[: layers - getattr(config, "num_kv_shared_layers", 0)]
    resting = Counter(own)["sliding_attention"] + Counter(own)["linear_attention"]
    return str(config.num_attention_heads), kept, f"{len(own) - resting} of {layers}"


def test_each_row_is_that_of_the_configuration():
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    table = rows()
    assert set(table) == {"Llama 2 7B", *KINDS}
    wrong = {}
    for name, kind in KINDS.items():
        config = mapping[kind]()
        said = said_by(config.get_text_config())
        if not all(cell.startswith(part) for cell, part in zip(table[name], said, strict=False)):
            wrong[name] = (said, table[name][:3])
    assert wrong == {}


def test_windows_rotations_and_rates_are_those_of_the_configurations():
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    made = {name: mapping[kind]().get_text_config() for name, kind in KINDS.items()}
    assert (made["gpt-oss-120b"].sliding_window, made["Gemma 3n"].sliding_window) == (128, 512)
    assert made["Gemma 3n"].num_kv_shared_layers == 15
    assert made["DeepSeek-V3.2"].index_topk == 2048
    assert [made[name].rope_parameters["rope_type"] for name in ("gpt-oss-120b", "Mistral Small 4")] == ["yarn"] * 2
    assert {made[name].rope_parameters["partial_rotary_factor"] for name in ("Qwen3-Next", QWEN)} == {0.25}
    assert (made["gpt-oss-120b"].num_local_experts, made[QWEN].hidden_size) == (128, 4096)  # the size of the row
    v4 = made["DeepSeek-V4-Flash"]
    rates = [v4.compress_rates[kind] for kind in v4.layer_types]
    assert (sorted(set(rates)), sum(v4.head_dim // rate for rate in rates)) == ([4, 128], 2652)
    assert v4.partial_rotary_factor == 1 / 8


def test_the_buckets_of_lesson_13_are_those_of_t5():
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    (code,) = (cell.source for cell in read(NOTEBOOKS / "13_positions_and_padding.ipynb").cells if cell.id == "l13t5")
    names = {"math": math, "torch": torch}
    exec(code.partition("\n\n\n")[0], names)
    distance = torch.arange(2000)
    theirs = t5.T5Attention._relative_position_bucket(-distance, bidirectional=False)
    assert names["bucket"](distance).equal(theirs)
