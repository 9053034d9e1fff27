"""Captured maps are the weights that the families of transformers hand out under eager attention.

Each family is built small, with random weights, once as it comes (mostly with fused attention) and once eager.
"""

from collections.abc import Iterator

import pytest
import torch

from mhalib.heads import capture
from tests.helpers.later import transformers

pytestmark = pytest.mark.usefixtures("one_thread")

# What makes a model small, whatever its family calls it; a configuration takes what it knows.
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "hidden_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "kv_channels", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("d_ff", "intermediate_size", "ffn_dim", "n_inner", "d_inner"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 32),
    **{"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    **{"image_size": 32, "patch_size": 8, "num_mel_bins": 16, "projection_dim": 32, "qk_rope_head_dim": 8},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "num_kv_shared_layers": 0},
}
OPTIONAL = {"num_key_value_heads", "head_dim", "q_lora_rank", "projection_dim"}  # None means something else there

# Families that need no more than that, called with tokens, pixels or sound, whatever they take first.
PLAIN = """
albert bert bert-generation biogpt bitnet bloom camembert canine convbert ctrl data2vec-text deberta deberta-v2
distilbert dpr electra ernie flaubert gpt2 gpt_bigcode gpt_neo gpt_neox ibert imagegpt layoutlm markuplm
megatron-bert mobilebert modernbert modernbert-decoder mpt openai-gpt opt rembert roberta roberta-prelayernorm
roformer splinter xglm xlm xlm-roberta xlm-roberta-xl xlnet
apertus arcee cohere cohere2 ernie4_5 ernie4_5_moe exaone4 flex_olmo gemma gemma2 glm glm4 glm4_moe gpt_oss granite
granitemoe helium jetmoe lfm2 llama llama4_text minimax_m2 ministral3 mistral mixtral olmo olmo2 olmo3 olmoe
persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe seed_oss smollm3 stablelm starcoder2
bart bigbird_pegasus blenderbot blenderbot-small fsmt m2m_100 marian mbart mt5 mvp pegasus plbart switch_transformers t5
umt5
beit clip_text_model clip_vision_model deit dinov2 dinov2_with_registers dinov3_vit dpt ijepa mlcd vit vit_msn
data2vec-audio hubert sew unispeech unispeech-sat wav2vec2
aya_vision idefics3 internvl mllama
""".split()

# Families that need more to be small; keys of nested configurations stand behind a dot.
SPECIAL = {
    "big_bird": {"attention_type": "original_full"},
    "deepseek_v2": {"num_key_value_heads": 4, "head_dim": 8},
    "deepseek_v3": {"num_key_value_heads": 4},
    "falcon": {},
    "gptj": {"rotary_dim": 4},
    "nemotron": {"num_key_value_heads": 2},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "yolos": {"image_size": [32, 32]},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4},
    "mpnet": {"max_position_embeddings": 66},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention"],
        **{"linear_num_key_heads": 2, "linear_num_value_heads": 2},
        **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
    },
    "swin": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4},
    "swinv2": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4},
    "wav2vec2": {"conv_dim": [16] * 7},
    "whisper": {},
}


def small(config, changes: dict):
    """Return a configuration with its sizes and those of its parts reduced."""
    for name, size in SMALL.items():
        known = name in vars(config) or name in getattr(config, "attribute_map", {})
        now = getattr(config, name, None) if known else None
        if known and not isinstance(now, (list, tuple)) and not (now is None and name in OPTIONAL):
            setattr(config, name, size)
    kinds = vars(config).get("layer_types")
    if kinds:  # two layers, of two kinds where there are two
        config.layer_types = [kinds[0], next((kind for kind in kinds if kind != kinds[0]), kinds[0])]
    for name, part in list(vars(config).items()):
        if isinstance(part, transformers.PreTrainedConfig):
            small(part, {})
        elif name.endswith(("_token_id", "_token_index")) and isinstance(part, int) and part >= 100:
            setattr(config, name, 99)
        elif name == "conv_dim":
            config.conv_dim = [16] * len(part)
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def inputs(model) -> dict:
    """Return something to call a model with: two samples."""
    tokens, config = torch.randint(3, 98, (2, 9)), model.config
    size = getattr(config, "image_size", 32)
    size = size if isinstance(size, list) else (size, size)
    given = {
        "pixel_values": lambda: torch.randn(2, 3, *size),
        "input_values": lambda: torch.randn(2, 2000),
        "input_features": lambda: torch.randn(2, config.num_mel_bins, 64),
    }.get(model.main_input_name, lambda: tokens)()
    decoder = {"decoder_input_ids": tokens[:, :5]} if config.is_encoder_decoder else {}
    return {model.main_input_name: given, **decoder}


def pair(family: str, changes: dict) -> tuple:
    """Return a model as it comes and the same model with eager attention."""
    models = []
    for how in ({}, {"attn_implementation": "eager"}):
        config = small(transformers.AutoConfig.for_model(family), changes)
        models.append(transformers.AutoModel.from_config(config, **how).eval())
    fused, eager = models
    for parameter in fused.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.randn_like(parameter) * 0.1  # far enough from even weights
    eager.load_state_dict(fused.state_dict())
    return fused, eager


def leaves(x) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from leaves(y)


def handed_out(outputs) -> list[torch.Tensor]:
    """Return the weights that eager attention hands out: of the encoder, the decoder and across."""
    return [x for name, part in outputs.items() if "attentions" in name and part is not None for x in leaves(part)]


def assert_same(maps, weights: list[torch.Tensor], more: int = 0) -> None:
    """Compare maps in the order of calls with weights in the order of parts; `more` maps are not handed out."""
    left = list(maps)
    for wanted in weights:
        differences = [(x - wanted).abs().max().item() if x.shape == wanted.shape else torch.inf for x in left]
        best = min(range(len(left)), key=differences.__getitem__)
        assert differences[best] <= 1e-6
        left.pop(best)
    assert len(left) == more


def check(fused, eager, given: dict, more: int = 0):
    """Capture both models; both must give what eager attention hands out, and the model what it gives
    without. Return the maps."""
    with torch.no_grad():
        before = fused(**given)
        weights = handed_out(eager(**given, output_attentions=True))
        with capture(fused) as maps:
            during = fused(**given)
        with capture(eager) as by_hand:
            eager(**given)
    assert torch.equal(before[0], during[0])
    assert weights
    assert_same(maps, weights, more)
    assert_same(by_hand, weights, more)
    assert maps.kinds == by_hand.kinds and maps.names == by_hand.names
    return maps


# Of each kind one: fused, by hand, grouped keys, a window, sinks, a soft cap, patches, encoder and decoder.
QUICK = "bert gpt2 llama mistral gpt_oss gemma2 vit t5 bloom deepseek_v3 swin xlnet".split()
ALL = [*SPECIAL, *(each for each in PLAIN if each not in SPECIAL)]


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in ALL]
)
def test_captured_maps_are_the_eager_weights(family):
    fused, eager = pair(family, SPECIAL.get(family, {}))
    # Swin hands out one block of each stage, and so half of what it computes.
    check(fused, eager, inputs(fused), more=2 if family.startswith("swin") else 0)


# ------------------------------------------------------------------------------------------ two kinds of tokens


def test_both_towers_of_clip():
    fused, eager = pair("clip", {})
    given = {"input_ids": torch.randint(3, 98, (2, 9)), "pixel_values": torch.randn(2, 3, 32, 32)}
    with torch.no_grad(), capture(fused) as maps:
        fused(**given)
    with torch.no_grad():
        out = eager(**given, output_attentions=True)
    assert_same(maps, [*out.text_model_output.attentions, *out.vision_model_output.attentions])
    assert {name.split(".")[0] for name in maps.names} == {"text_model", "vision_model"}
    with torch.no_grad(), capture(fused.vision_model) as vision:
        fused(**given)
    assert [tuple(x.shape) for x in vision] == [(2, 4, 17, 17)] * 2


def test_llava_shows_its_pictures_and_its_text():
    fused, eager = pair("llava", {"image_token_index": 99, "image_token_id": 99, "vision_feature_layer": -1})
    tokens = torch.randint(3, 98, (1, 24))
    tokens[:, 2:18] = 99  # 4 x 4 patches
    given = {"input_ids": tokens, "pixel_values": torch.randn(1, 3, 32, 32)}
    maps = check(fused, eager, given, more=2)
    assert [tuple(x.shape) for x in maps] == [(1, 4, 17, 17)] * 2 + [(1, 4, 24, 24)] * 2


# ------------------------------------------------------------------------------------------ what maps say


def test_a_sink_takes_a_part():
    fused, eager = pair("gpt_oss", {})
    maps = check(fused, eager, inputs(fused))
    assert maps.sums == ["part", "part"] and (maps[0].sum(-1) < 1).all()


def test_shared_keys_are_counted():
    fused, eager = pair("llama", {})
    maps = check(fused, eager, inputs(fused))
    assert maps.kv_heads == [2, 2] and maps.kinds == ["self", "self"] and maps.sums == ["weights", "weights"]
    assert torch.equal(maps.allowed[0].expand(2, 4, 9, 9), torch.ones(2, 4, 9, 9, dtype=torch.bool).tril())


@pytest.mark.parametrize("family", ["t5", "whisper"])
def test_cross_attention_is_told_from_self_attention(family):
    fused, eager = pair(family, SPECIAL.get(family, {}))
    given = inputs(fused)
    if family != "whisper":
        given["decoder_input_ids"] = torch.randint(3, 98, (2, 9))  # as long as the source: lengths do not tell
    maps = check(fused, eager, given)
    assert maps.kinds == ["self"] * 2 + ["self", "cross"] * 2


@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_queries_and_keys_make_the_map(family, how):
    fused, eager = pair(family, {})
    model = fused if how == "sdpa" else eager
    given = inputs(model)
    if not model.config.is_encoder_decoder:
        given["attention_mask"] = torch.ones(2, 9, dtype=torch.long)
        given["attention_mask"][1, 7:] = 0
    with torch.no_grad(), capture(model, qkv=True) as maps:
        model(**given)
    for x, q, k, v, scale, allowed in zip(
        maps, maps.queries, maps.keys, maps.values, maps.scales, maps.allowed, strict=True
    ):
        assert v.shape == k.shape
        scores = q @ k.transpose(-2, -1) * scale
        if family not in ("t5", "bloom"):  # these add a bias of positions
            allowed = torch.tensor(True) if allowed is None else allowed
            torch.testing.assert_close(scores.masked_fill(~allowed, -torch.inf).softmax(-1), x, atol=1e-6, rtol=0)


# ------------------------------------------------------------------------------------------ generation


@pytest.mark.parametrize(
    ("family", "cache", "how"),
    [
        *((family, None, how) for family in ("llama", "gpt2") for how in ("sdpa", "eager")),
        *(("llama", "static", "sdpa"), ("llama", "static", "eager"), ("gemma2", "static", "eager")),
    ],
)
def test_the_steps_of_generation_become_one_map(family, cache, how):
    changes = {"sliding_window": 5} if family == "mistral" else {}
    config = small(transformers.AutoConfig.for_model(family), changes)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how).eval()
    tokens = torch.randint(3, 98, (2, 7))
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    settings = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    with capture(model, qkv=True) as steps:
        out = model.generate(tokens, attention_mask=mask, cache_implementation=cache, **settings)
    mask = torch.cat([mask, mask.new_ones(2, 5)], 1)
    with torch.no_grad(), capture(model, qkv=True) as maps:
        model(out[:, :-1], attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(0))
    assert steps.names == maps.names and len(steps) == 2
    real = mask[:, None, :, None].bool()
    for i in range(2):
        assert steps[i].shape == (2, 4, 12, 12)
        torch.testing.assert_close(steps[i] * real, maps[i] * real, atol=1e-5, rtol=0)
        assert not (steps.allowed[i].expand(2, 4, 12, 12) & ~maps.allowed[i] & real).any()
        torch.testing.assert_close(steps.keys[i] * real, maps.keys[i] * real, atol=1e-5, rtol=0)


def test_generation_of_an_encoder_decoder():
    config = small(transformers.AutoConfig.for_model("bart"), {})
    model = transformers.BartForConditionalGeneration(config).eval()
    with capture(model) as maps:
        settings = {"max_new_tokens": 5, "do_sample": False, "num_beams": 1, "eos_token_id": None}
        model.generate(torch.randint(3, 98, (2, 9)), **settings, forced_eos_token_id=None)
    assert [tuple(x.shape[2:]) for x in maps if x.shape[2] == x.shape[3] == 9] == [(9, 9)] * 2
    decoder = [
        x for x, name, kind in zip(maps, maps.names, maps.kinds, strict=True) if "decoder" in name and kind == "self"
    ]
    assert [tuple(x.shape) for x in decoder] == [(2, 4, 5, 5)] * 2


# ------------------------------------------------------------------------------------------ what is no map


@pytest.mark.parametrize("family", ["longformer", "led"])
def test_a_band_is_not_taken_for_a_map(family):
    model = transformers.AutoModel.from_config(
        small(transformers.AutoConfig.for_model(family), {"attention_window": [4, 4]})
    ).eval()
    given = {"input_ids": torch.randint(3, 98, (2, 8))}
    if family == "longformer":
        with torch.no_grad(), pytest.raises(RuntimeError, match="encoder.layer.0.attention.self: .* a band of"):
            with capture(model):
                model(**given)
        return
    with torch.no_grad(), capture(model) as maps:
        model(**given)
    assert {name.split(".")[0] for name in maps.names} == {"decoder"}
    assert all("a band of neighbours" in why for why in maps.missed.values()) and len(maps.missed) == 2
