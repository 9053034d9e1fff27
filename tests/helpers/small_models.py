"""Models of the families of transformers, small, with random weights, as they come and with eager attention."""

import torch

from headview import capture

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

# Families that need more to be small.
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
    "mistral": {"sliding_window": 4},
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


def reduced(config, changes: dict):
    """Return a configuration with its sizes and those of its parts reduced."""
    import transformers

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
            reduced(part, {})
        elif name.endswith(("_token_id", "_token_index")) and isinstance(part, int) and part >= 100:
            setattr(config, name, 99)
        elif name == "conv_dim":
            config.conv_dim = [16] * len(part)
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def model_of(family: str, kind: str = "AutoModel", how: str | None = None, **changes):
    """Return a small model; `kind` is the class of transformers that makes it, `how` the way it attends."""
    import transformers

    config = reduced(transformers.AutoConfig.for_model(family), SPECIAL.get(family, {}) | changes)
    attention = {} if how is None else {"attn_implementation": how}
    return getattr(transformers, kind).from_config(config, **attention).eval()


def pair(family: str, **changes) -> tuple:
    """Return a model as it comes and the same model with eager attention."""
    fused, eager = model_of(family, **changes), model_of(family, how="eager", **changes)
    for parameter in fused.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.randn_like(parameter) * 0.1  # far enough from even weights
    eager.load_state_dict(fused.state_dict())
    return fused, eager


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


def called(model, given: dict, **options):
    with torch.no_grad():
        return model(**given, **options)


def captured(model, given: dict, **options):
    """Return the maps that `capture` gathers of one call."""
    with capture(model, **options) as maps:
        called(model, given)
    return maps
