"""What 12 says of models is what their configurations say, 13 has T5's buckets, and masks do what 19 says of them."""

import math
import re
import shutil
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

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


def test_a_mask_of_ones_joins_the_causal_mask_of_transformers_and_one_with_four_axes_replaces_it():
    transformers = pytest.importorskip("transformers")
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 50,
    }
    tokens = torch.randint(50, (1, 24), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 12] = (other[:, 12] + 1) % 50
    early = {}  # for each model and each mask: do tokens move that come before the changed one?
    for kind in ("gpt2", "llama", "qwen3", "mistral"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.CONFIG_MAPPING[kind](**sizes)).eval()
        for mask in (torch.ones(1, 24), torch.ones(1, 1, 24, 24, dtype=torch.bool)):
            with torch.no_grad():
                moved = model(other, attention_mask=mask).logits - model(tokens, attention_mask=mask).logits
            early[kind, mask.ndim] = moved[:, :12].abs().max().item() > 1e-5
    assert early == {(kind, axes): axes == 4 for kind, axes in early}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_block_mask_of_other_texts_is_right_until_it_is_compiled():
    if not shutil.which("g++"):
        pytest.skip("torch.compile needs a compiler of C++")
    q, k, v = torch.randn(3, 1, 4, 256, 16, generator=torch.Generator().manual_seed(0))
    text = torch.arange(256) // 128

    def rule(sample, head, query, key):
        return (query >= key) & (text[query] == text[key])

    blocks = create_block_mask(rule, None, None, 256, 256, device="cpu", BLOCK_SIZE=32)
    text[:] = (torch.arange(256) + 60) // 128
    mask = (text[:, None] == text) & torch.ones(256, 256).tril().bool()
    wanted, off = F.scaled_dot_product_attention(q, k, v, attn_mask=mask), []
    for attention in (flex_attention, torch.compile(flex_attention)):
        off.append(((attention(q, k, v, block_mask=blocks) - wanted).abs().max() / wanted.abs().max()).item())
    assert off[0] < 1e-5 and off[1] > 0.5
