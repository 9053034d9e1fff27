"""Families of transformers: captured maps are the weights that eager attention hands out, and views show them."""

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from headview import HeadView, capture
from tests.helpers.small_models import SPECIAL, called, captured, inputs, model_of, pair

pytestmark = pytest.mark.usefixtures("one_thread")

# Of each kind one: shared keys, windows, soft caps, sinks, biases of positions, narrow values, one layer that is called
# twice, layers without attention, pixels, translators, sound.
QUICK = """
bert albert gpt2 bloom llama mistral gemma2 gemma3_text gpt_oss deepseek_v3 jamba vit swin t5 bart whisper
""".split()
SHOWN = """
roberta distilbert electra deberta-v2 modernbert xlnet gpt_neox opt falcon mixtral qwen2 qwen3 phi3 qwen3_next big_bird
marian
""".split()
OTHERS = """
bert-generation biogpt bitnet camembert canine convbert ctrl data2vec-text deberta
dpr ernie flaubert gpt_bigcode gpt_neo ibert imagegpt layoutlm markuplm
megatron-bert mobilebert modernbert-decoder mpt openai-gpt rembert roberta-prelayernorm
roformer splinter xglm xlm xlm-roberta xlm-roberta-xl
apertus arcee cohere cohere2 ernie4_5 ernie4_5_moe exaone4 flex_olmo gemma glm glm4 glm4_moe granite
granitemoe helium jetmoe lfm2 llama4_text minimax_m2 ministral3 olmo olmo2 olmo3 olmoe
persimmon phi phimoe qwen2_moe qwen3_moe seed_oss smollm3 stablelm starcoder2
bigbird_pegasus blenderbot blenderbot-small fsmt m2m_100 mbart mt5 mvp pegasus plbart switch_transformers umt5
beit clip_text_model clip_vision_model deit dinov2 dinov2_with_registers dinov3_vit dpt ijepa mlcd vit_msn
data2vec-audio hubert sew unispeech unispeech-sat
aya_vision idefics3 internvl mllama
""".split()
SHARED = "falcon llama mistral mixtral qwen2 qwen3 gemma2 gemma3_text phi3 jamba qwen3_next gpt_oss".split()
LAYER_NAMES = {"albert": ["call 1", "call 2"], "jamba": ["layer 1"], "qwen3_next": ["layer 1"]}


def assert_same(maps, outputs, more: int = 0) -> None:
    """Compare maps in the order of calls with weights in the order of parts; `more` maps are not handed out."""
    left = list(maps)
    handed_out = tree_leaves([part for name, part in outputs.items() if "attentions" in name])
    assert handed_out
    for wanted in handed_out:
        same = [i for i, x in enumerate(left) if x.shape == wanted.shape and torch.allclose(x, wanted, 0, 2e-6)]
        assert same, f"no map is the one of shape {tuple(wanted.shape)}"
        left.pop(same[0])
    assert len(left) == more, f"{len(left)} maps are more than handed out"


def assert_captured(family: str) -> tuple:
    """Both models give what eager attention hands out, and answer as they do without; return what that was."""
    fused, eager = pair(family)
    given = inputs(fused)
    before, output = called(fused, given), called(eager, given, output_attentions=True)
    with torch.no_grad(), capture(fused) as maps:
        during = fused(**given)
    by_hand = captured(eager, given)
    assert torch.equal(before[0], during[0]), "another answer"
    for each in (maps, by_hand):  # Swin hands out one block of each stage, half of what it computes
        assert_same(each, output, 2 if family.startswith("swin") else 0)
    assert maps.kinds == by_hand.kinds and maps.names == by_hand.names
    return maps, output


@pytest.mark.parametrize("family", [*QUICK, *(pytest.param(family, marks=pytest.mark.slow) for family in SHOWN)])
def test_views_show_the_weights_of_each_part_layer_sample_and_head(family):
    maps, output = assert_captured(family)
    if family == "swin":
        return  # whose maps are of windows: see what is refused
    parts = {name.removesuffix("attentions").strip("_"): x for name, x in output.items() if "attentions" in name}
    parts = {name: [each for each in x if each is not None] for name, x in parts.items() if x}
    kind = "part" if family == "gpt_oss" else "weights"
    for view in (HeadView(maps), HeadView(output, kind=kind)):
        shapes = {name: [len(x), *x[0].shape[1:]] for name, x in parts.items()}
        assert {part["name"]: part["shape"] for part in view.parts} == shapes
        for number, sample in np.ndindex(len(view.parts), 2):
            view.part, view.sample = number, sample
            for i, j in np.ndindex(*view.shape[:2]):
                read, wanted = view.weights_of(i, j), parts[view.parts[number]["name"]][i][sample, j].numpy()
                np.testing.assert_allclose(read.clip(0), wanted, atol=1e-6)  # -1 where masked
                assert not wanted[read == -1].any(), "weight is masked"
    first = HeadView(maps).parts[0]
    assert first["layer_names"] == LAYER_NAMES.get(family, ["layer 0", "layer 1"])
    assert (first["kv_heads"] is not None and first["kv_heads"][0] < 4) == (family in SHARED)
    assert first["windows"][0] == (4 if family in ("gemma3_text", "mistral") else None)
    assert first["kind"] == kind


@pytest.mark.slow
@pytest.mark.parametrize("family", [*(family for family in SPECIAL if family not in (*QUICK, *SHOWN)), *OTHERS])
def test_captured_maps_are_the_eager_weights(family):
    assert_captured(family)


@pytest.mark.parametrize("family", ["t5", "marian", "whisper", "fsmt"])
def test_cross_attention_is_told_from_self_attention_where_lengths_do_not_tell(family):
    model = model_of(family)
    given = inputs(model)
    if family != "whisper":
        given["decoder_input_ids"] = torch.randint(3, 98, (2, 9))  # as long as the source
    assert captured(model, given).kinds == ["self"] * 2 + ["self", "cross"] * 2


@pytest.mark.parametrize("how", [None, "eager"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "gpt_neox", "bloom"])
def test_queries_and_keys_make_the_map_and_the_neuron_view_of_any_model(family, how):
    model = model_of(family, how=how)
    given = inputs(model)
    if not model.config.is_encoder_decoder:
        given["attention_mask"] = torch.tensor([[1] * 9, [1] * 7 + [0] * 2])
    maps = captured(model, given, qkv=True)
    part = HeadView(maps).parts[0]
    assert part["has_neurons"] and part["has_values"]
    for i, (q, k, v) in enumerate(zip(maps.queries, maps.keys, maps.values, strict=True)):
        assert v.shape == k.shape
        allowed = torch.tensor(True) if maps.allowed[i] is None else maps.allowed[i]
        scores = (q @ k.mT * maps.scales[i]).masked_fill(~allowed, -torch.inf)
        if family not in ("t5", "bloom"):  # these add a bias of positions
            torch.testing.assert_close(scores.softmax(-1), maps[i], atol=1e-6, rtol=0)


# ------------------------------------------------------------------------------------------ generation

PLAIN = [(family, how, None) for family in ("llama", "gpt2", "mistral") for how in ("sdpa", "eager")]
STATIC = [("llama", "sdpa", "static"), ("llama", "eager", "static"), ("gemma2", "eager", "static")]
FIXED = {"do_sample": False, "eos_token_id": None}


def writer(family: str, how: str | None = None, **changes):
    return model_of(family, "AutoModelForCausalLM", how, **changes)


@pytest.mark.parametrize(("family", "how", "cache"), [*PLAIN, *STATIC])
def test_the_steps_of_generation_become_one_map(family, how, cache):
    model = writer(family, how, **({"sliding_window": 5} if family == "mistral" else {}))
    tokens, mask = torch.randint(3, 98, (2, 7)), torch.ones(2, 12, dtype=torch.long)
    mask[1, :2] = 0
    settings = {"max_new_tokens": 6, "cache_implementation": cache, **FIXED}
    with capture(model, qkv=True) as steps:
        out = model.generate(tokens, attention_mask=mask[:, :7], **settings)
    places = (mask.cumsum(1) - 1).clamp(0)
    whole = {"input_ids": out[:, :-1], "attention_mask": mask, "position_ids": places}
    maps = captured(model, whole, qkv=True)
    assert steps.names == maps.names and len(steps) == 2
    real = mask[:, None, :, None].bool()
    for i in range(2):
        torch.testing.assert_close(steps[i] * real, maps[i] * real, atol=1e-5, rtol=0)
        assert not (steps.allowed[i].expand(2, 4, 12, 12) & ~maps.allowed[i] & real).any()
        torch.testing.assert_close(steps.keys[i] * real, maps.keys[i] * real, atol=1e-5, rtol=0)


def test_generations_beams_passes_without_a_cache_and_a_cache_that_was_cut_have_maps_of_their_own():
    import transformers

    model, tokens = writer("llama"), torch.randint(3, 98, (1, 7))
    with capture(model, layers=["*.0.self_attn"], dtype=torch.float16) as maps:
        model.generate(tokens, max_new_tokens=5, **FIXED)
        model.generate(tokens[:, :3], max_new_tokens=3, **FIXED)
        model(tokens)
    assert maps.names == [f"model.layers.0.self_attn{x}" for x in ("", " call 2", " call 3")]
    assert [x.shape[2:] for x in maps] == [(11, 11), (5, 5), (7, 7)] and {x.dtype for x in maps} == {torch.float16}
    torch.testing.assert_close(maps[2], maps[0][..., :7, :7], atol=1e-3, rtol=0)
    model = writer("gpt2")
    with torch.no_grad(), capture(model) as twice:
        model(tokens)
        model(tokens)
    assert [x.split(".attn")[1] for x in twice.names] == ["", "", " call 2", " call 2"] and twice.passes == [0, 0, 1, 1]
    part = HeadView(twice).parts[0]
    assert part["layer_names"] == ["layer 0", "layer 1"] and part["samples"] == part["passes"] == 2
    with capture(model) as maps:
        model.generate(tokens, num_beams=2, max_new_tokens=4, **FIXED)
        model.generate(tokens, use_cache=False, max_new_tokens=4, **FIXED)
    sizes = [(2, 10), (2, 10), *((1, size) for size in (7, 7, 8, 8, 9, 9, 10, 10))]
    assert [tuple(x.shape) for x in maps] == [(samples, 4, size, size) for samples, size in sizes]
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad(), capture(model, layers=slice(None, None, 2)) as maps:
        for piece in (tokens, tokens[:, :1], tokens[:, :1]):
            model(piece, past_key_values=cache)
        cache.crop(-5)  # 4 are left
        model(tokens[:, :2], past_key_values=cache)
    assert [x.shape[2:] for x in maps] == [(9, 9), (2, 6)]


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_a_translation_that_is_generated_has_one_map_a_layer(family):
    """A second text is not taken for the next step of the first, though its keys are as many."""
    model, ids = model_of(family, "AutoModelForSeq2SeqLM"), torch.randint(3, 98, (1, 7))
    settings = {**FIXED, "num_beams": 1, "forced_eos_token_id": None, "decoder_start_token_id": 1}
    with capture(model, qkv=True) as maps:
        written = model.generate(ids, max_new_tokens=4, min_new_tokens=4, **settings)
        model.generate(ids.flip(1), max_new_tokens=3, min_new_tokens=3, **settings)
    whole = captured(model, {"input_ids": ids, "decoder_input_ids": written[:, :-1]})
    for kind, sizes in (("cross", [(4, 7), (3, 7)]), ("self", [(4, 4), (3, 3)])):
        found = [i for i, name in enumerate(maps.names) if "decoder" in name and maps.kinds[i] == kind]
        assert [maps[i].shape[2:] for i in found] == [sizes[0]] * 2 + [sizes[1]] * 2
        for i in found[:2]:
            torch.testing.assert_close(maps[i], whole[whole.names.index(maps.names[i])], atol=1e-6, rtol=0)
            assert maps.queries[i].shape[2] == 4


# ------------------------------------------------------------------------------------------ what is no map


def test_what_is_no_map_from_queries_to_keys_is_refused_with_the_reason():
    def tokens(length):
        return {"input_ids": torch.randint(3, 98, (2, length))}

    bands, blocks = {"attention_window": [4, 4]}, {"attention_type": "block_sparse", "block_size": 4}
    cases = [
        ("longformer", 8, bands, "encoder.layer.0.attention.self: .* a band of"),
        ("big_bird", 64, {**blocks, "num_random_blocks": 1, "max_position_embeddings": 128}, "to blocks"),
        ("mamba", 9, {"state_size": 4, "time_step_rank": 4}, "no attention was seen"),
    ]
    for family, length, changes, why in cases:
        with pytest.raises(RuntimeError, match=why):
            captured(model_of(family, **changes), tokens(length))
    maps = captured(model_of("led", **bands), tokens(8))
    assert {name.split(".")[0] for name in maps.names} == {"decoder"}
    assert all("a band of neighbours" in why for why in maps.missed.values()) and len(maps.missed) == 2
    for family, changes in (("longformer", bands), ("swin", {})):
        eager = model_of(family, how="eager", **changes)
        output = called(eager, inputs(eager) if family == "swin" else tokens(16), output_attentions=True)
        with pytest.raises(ValueError, match="no map from queries to keys: .*window"):
            HeadView(output)
