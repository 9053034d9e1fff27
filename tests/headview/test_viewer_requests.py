"""What people ask of viewers of attention heads, row by row, as far as Python shows it."""

import numpy as np
import pytest
import torch

from mhalib.heads import capture
from mhalib.masks import causal_mask
from mhalib.widgets import HeadView
from tests.headview.test_architectures import SPECIAL, inputs, pair, small
from tests.helpers.later import transformers

pytestmark = pytest.mark.usefixtures("one_thread")

PAIR = "[CLS] it rains [SEP] take the umb ##rel ##la [SEP]".split()


def some(*shape):
    return (2 * torch.randn(*shape)).softmax(-1)


def shapes(view):
    return {part["name"]: (part["samples"], *part["shape"]) for part in view.parts}


def called(model, given, **options):
    with torch.no_grad():
        return model(**given, **options)


def captured(model, given, **options):
    with torch.no_grad(), capture(model, **options) as maps:
        model(**given)
    return maps


def writer(family="gpt2", **changes):
    """Return a small model that writes text, eager."""
    config = small(transformers.AutoConfig.for_model(family), changes)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    return kind.from_config(config, attn_implementation="eager").eval()


# ---------------------------------------------------------------- architectures, from the model to the view

TRANSLATORS = ("t5", "bart", "marian", "whisper")
SHARED = "falcon llama mistral mixtral qwen2 qwen3 gemma2 gemma3_text phi3 jamba qwen3_next gpt_oss".split()
FAMILIES = """
bert roberta distilbert albert electra deberta-v2 modernbert xlnet gpt2 gpt_neox opt bloom falcon llama mistral mixtral
qwen2 qwen3 gemma2 gemma3_text phi3 deepseek_v3 vit jamba qwen3_next gpt_oss big_bird t5 bart marian whisper
""".split()


def expected_parts(family, given):
    """The samples, layers, heads, queries and keys of each part."""
    if family == "vit":
        return {"": (2, 2, 4, 17, 17)}
    if family not in TRANSLATORS:
        return {"": (2, 1 if family in ("jamba", "qwen3_next") else 2, 4, 9, 9)}
    heard, heads = (32, 2) if family == "whisper" else (9, 4)  # of 64 frames every other, two heads in the encoder
    return {"encoder": (2, 2, heads, heard, heard), "decoder": (2, 2, 4, 5, 5), "cross": (2, 2, 4, 5, heard)}


QUICK = ("bert", "gpt2", "llama", "mistral", "gpt_oss", "vit", "t5", "big_bird", "deepseek_v3")


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in FAMILIES]
)
def test_a_model_is_shown_as_it_weighs(family):
    fused, eager = pair(family, SPECIAL.get(family, {}))
    given = inputs(fused)
    output = called(eager, given, output_attentions=True)
    parts = expected_parts(family, given)
    sink = {"kind": "part"} if family == "gpt_oss" else {}
    for shown in (HeadView(captured(fused, given)), HeadView(output, **sink)):
        assert shapes(shown) == parts
        for number, part in enumerate(shown.parts):
            name = f"{part['name']}_attentions".replace("_", "", not part["name"])
            wanted = [each for each in getattr(output, name) if each is not None]
            shown.part = number
            for sample in range(2):
                shown.sample = sample
                for i, j in np.ndindex(*shown.shape[:2]):
                    read = shown.weights_of(i, j)  # -1 where masked
                    expected = wanted[i][sample, j].float().numpy()
                    np.testing.assert_allclose(read.clip(0), expected, atol=1e-6)
                    assert not expected[read == -1].any()
    view = HeadView(captured(fused, given))
    names = {"albert": ["call 1", "call 2"], "jamba": ["layer 1"], "qwen3_next": ["layer 1"]}
    assert view.parts[0]["layer_names"] == names.get(family, ["layer 0", "layer 1"])
    heads = view.parts[0]["kv_heads"]
    assert (heads is not None and heads[0] < 4) == (family in SHARED)
    assert view.parts[0]["windows"][0] == (4 if family == "gemma3_text" else None)
    assert view.parts[0]["kind"] == ("part" if family == "gpt_oss" else "weights")


def test_a_model_that_is_called_twice_has_its_calls_told_apart():
    fused, _ = pair("gpt2", {})
    given = inputs(fused)
    with torch.no_grad(), capture(fused) as maps:
        fused(**given)
        fused(**given)
    names = HeadView(maps).parts[0]["layer_names"]
    assert names == ["layer 0", "layer 1", "layer 0 call 2", "layer 1 call 2"]


def test_both_halves_of_clip_with_text_and_picture():
    fused, eager = pair("clip", {})
    given = {"input_ids": torch.randint(3, 98, (1, 9)), "pixel_values": torch.randn(1, 3, 32, 32)}
    output, words = called(eager, given, output_attentions=True), [f"w{i}" for i in range(9)]
    for weights in (output, captured(fused, given)):
        view = HeadView(weights, words, image=given["pixel_values"][0])
        assert shapes(view) == {"text": (1, 2, 4, 9, 9), "vision": (1, 2, 4, 17, 17)}
        parts = {part["name"]: i for i, part in enumerate(view.parts)}
        view.part = parts["text"]
        assert view.tokens == words and view.parts[view.part]["picture"] is None
        view.part = parts["vision"]
        assert view.tokens[16] == "patch 3,3" and view.parts[view.part]["picture"]["rows"] == 4
        expected = output.vision_model_output.attentions[1][0, 2].numpy()
        np.testing.assert_allclose(view.weights_of(1, 2), expected, atol=1e-6)


@pytest.mark.parametrize("family", ["longformer", "swin"])
def test_what_only_looks_like_attention_is_refused(family):
    changes = {"attention_window": [4, 4]} if family == "longformer" else SPECIAL["swin"]
    config = small(transformers.AutoConfig.for_model(family), changes)
    eager = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    given = inputs(eager) if family == "swin" else {"input_ids": torch.randint(3, 98, (2, 16))}
    output = called(eager, given, output_attentions=True)
    with pytest.raises(ValueError, match="which is no map from queries to keys: .*window"):
        HeadView(output)
    if family == "longformer":
        with pytest.raises(ValueError, match="look like those of Longformer"):
            HeadView(output.attentions)


def test_blocks_of_a_sparse_model_are_shown_as_the_parts_they_are():
    changes = {"block_size": 4, "num_random_blocks": 1}
    config = small(transformers.AutoConfig.for_model("big_bird"), changes)
    config.max_position_embeddings = 128
    output = called(transformers.AutoModel.from_config(config).eval(), {"input_ids": torch.randint(3, 98, (1, 64))})
    assert output.last_hidden_state.shape[1] == 64
    padded = some(2, 6, 6) * torch.tensor([1, 1, 1, 1, 0.4, 0.7])[:, None]  # as BigBird hands out its padding
    with pytest.raises(ValueError, match=r'sums to 0.4; say kind="part" where .*sparse layers') as refused:
        HeadView(padded)
    assert "softmax" not in str(refused.value)
    np.testing.assert_allclose(HeadView(padded, kind="part").weights_of(0, 1), padded[1].numpy(), atol=1e-7)


# ---------------------------------------------------------------- solved before


def test_a_default_model_hands_out_nothing_and_capture_shows_it():
    fused, eager = pair("bert", {})
    given = inputs(fused)
    with pytest.raises((TypeError, ValueError), match=r'attn_implementation="eager"(?s:.*)with capture\(model\)'):
        HeadView(called(fused, given).attentions)
    expected = called(eager, given, output_attentions=True).attentions
    np.testing.assert_allclose(HeadView(captured(fused, given)).weights_of(1, 3), expected[1][0, 3].numpy(), atol=1e-6)


def test_padding_is_marked_where_the_model_masks_it():
    fused, _ = pair("bert", {})
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    maps = captured(fused, {**inputs(fused), "attention_mask": mask})
    labels = [[f"a{i}" for i in range(9)], [f"b{i}" for i in range(6)] + ["[PAD]"] * 3]
    view = HeadView(maps, labels)
    assert (view.weights_of(0, 0) >= 0).all() and view.tokens == labels[0]
    view.sample = 1
    assert (view.weights_of(0, 0)[:, 6:] == -1).all() and (view.weights_of(0, 0)[:, :6] > 0).all()
    assert view.tokens == labels[1]
    view.hidden = ["[PAD]"]
    assert view.selection.weights.shape == (6, 6)


# ---------------------------------------------------------------- solved partly before


def test_bert_large_at_its_own_length():
    layer = some(1, 16, 512, 512).half()
    view = HeadView([layer] * 24, [f"t{i}" for i in range(512)])
    assert view.shape == [24, 16, 512, 512]
    assert np.array_equal(view.weights_of(23, 15), layer[0, 15].float().numpy())
    page = view.to_html()
    assert len(page) < 6_000_000
    assert view.left_out == "" and "shrunk to what the overview shows" in page  # said there, not here


def test_generated_text_is_one_causal_map():
    model, prompt = writer(), torch.randint(3, 98, (1, 5))
    settings = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    made = model.generate(prompt, output_attentions=True, return_dict_in_generate=True, **settings)
    tokens = [f"t{i}" for i in made.sequences[0].tolist()]
    whole = called(model, {"input_ids": made.sequences[:, :-1]}, output_attentions=True).attentions
    for given, labels in ((made, tokens), (made, tokens[:-1]), (made.attentions, tokens)):
        view = HeadView(given, labels)
        assert view.shape == [2, 4, 8, 8] and view.tokens == tokens[:-1]  # the last one made is no query yet
        np.testing.assert_allclose(view.weights_of(1, 2).clip(0), whole[1][0, 2].numpy(), atol=1e-5)
        assert np.array_equal(view.weights_of(1, 2) == -1, ~causal_mask(8).numpy())


def test_a_translation_by_generate_has_its_three_parts():
    model, source = writer("marian"), torch.randint(3, 98, (1, 7))
    settings = {"max_new_tokens": 5, "do_sample": False, "num_beams": 1, "eos_token_id": None}
    settings["forced_eos_token_id"] = None
    made = model.generate(source, output_attentions=True, return_dict_in_generate=True, **settings)
    target = [f"t{i}" for i in made.sequences[0].tolist()]
    view = HeadView(made, target[:-1], [f"s{i}" for i in range(7)])
    assert shapes(view) == {"encoder": (1, 2, 4, 7, 7), "decoder": (1, 2, 4, 5, 5), "cross": (1, 2, 4, 5, 7)}
    view.part = 2
    assert view.tokens == target[:-1] and view.key_tokens[6] == "s6"
    given = {"input_ids": source, "decoder_input_ids": made.sequences[:, :-1]}
    whole = called(model, given, output_attentions=True).cross_attentions
    np.testing.assert_allclose(view.weights_of(1, 3), whole[1][0, 3].numpy(), atol=1e-5)


def test_single_steps_are_put_together_however_the_prompt_sees_itself():
    """A prompt that begins with an image is often seen from both sides."""
    open_ = torch.ones(8, 8, dtype=torch.bool).tril()
    open_[:5, :3] = True
    whole = [torch.randn(1, 4, 8, 8).masked_fill(~open_, -torch.inf).softmax(-1) for _ in range(2)]
    steps = [[layer[..., :5, :5] for layer in whole]]
    steps += [[layer[..., end - 1 : end, :end] for layer in whole] for end in range(6, 9)]
    view = HeadView(steps)
    assert view.shape == [2, 4, 8, 8]
    assert np.array_equal(view.weights_of(1, 2) == -1, ~open_.numpy())
    np.testing.assert_array_equal(view.weights_of(1, 2).clip(0), whole[1][0, 2].numpy())
    alone = HeadView(steps[3])  # one step: the last query
    assert alone.shape == [2, 4, 1, 8]
    np.testing.assert_array_equal(alone.weights_of(0, 1), whole[0][0, 1, 7:].numpy())


def test_from_sentence_a_to_sentence_b():
    weights, end = some(2, 3, 10, 10), PAIR.index("[SEP]") + 1
    view = HeadView(weights, PAIR, queries=slice(0, end), keys=slice(end, None))
    assert view.tokens == PAIR[:end] and view.key_tokens == ["take", "the", "umb", "rel", "la", "[SEP]"]
    np.testing.assert_array_equal(view.weights_of(1, 2), weights[1, 2, :end, end:].numpy())
    block = weights[..., :end, end:]  # cut out by the reader: their rows sum to less than 1
    with pytest.raises(ValueError, match='say kind="part" where .* a block of a map'):
        HeadView(block, PAIR[:end], PAIR[end:])
    np.testing.assert_array_equal(HeadView(block, kind="part").weights_of(1, 2), view.weights_of(1, 2))


def test_all_heads_in_one():
    weights = some(3, 4, 6, 6)
    view = HeadView(weights)
    for which, expected in (("all", weights.mean((0, 1))), ("layer", weights[2].mean(0))):
        view.layer, view.heads = 2, which
        np.testing.assert_allclose(view.selection.weights, expected.numpy(), atol=1e-6)
    np.testing.assert_allclose(HeadView(weights.mean((0, 1))).weights_of(0, 0), weights.mean((0, 1)), atol=1e-6)


def test_the_mean_over_inputs():
    mask = torch.ones(3, 1, 1, 5, dtype=torch.bool)
    mask[2, ..., 4:] = False
    layers = [torch.randn(3, 2, 5, 5).masked_fill(~mask, -torch.inf).softmax(-1) for _ in range(2)]
    layers[1][0, 1, 3] = 0  # a query that attends to nothing does not count
    labels = [["<s>", *"abcd"], ["<s>", *"efgh"], ["<s>", *"ijk", "<pad>"]]
    view = HeadView(layers, labels, mask=mask, samples="mean")
    assert shapes(view) == {"mean of 3 samples": (1, 2, 2, 5, 5)}
    assert view.tokens == ["<s>", "1", "2", "3", "4"]
    np.testing.assert_allclose(view.weights_of(0, 1), layers[0][:, 1].mean(0).numpy(), atol=1e-6)
    np.testing.assert_allclose(view.weights_of(1, 1)[3], layers[1][1:, 1, 3].mean(0).numpy(), atol=1e-6)
    np.testing.assert_allclose(view.weights_of(1, 1).sum(-1), 1, atol=1e-5)
    with pytest.raises(ValueError, match="samples must be .*got 'all'; .*view.sample = 1"):
        HeadView(layers, samples="all")


class Words:
    """As much of a tokenizer as tells that it is one."""

    def convert_ids_to_tokens(self, ids):
        return [str(i) for i in ids]


@pytest.mark.parametrize(
    ("give", "advice"),
    [
        (lambda model, output: model, "weights is the model itself, BertModel; call it"),
        (lambda model, output: Words(), "weights is a tokenizer, Words; its labels are the tokens"),
        (lambda model, output: {"input_ids": torch.ones(1, 4).long()}, "give it to the model"),
        (lambda model, output: output.last_hidden_state, "hidden states .* are no weights, capture"),
        (lambda model, output: output.hidden_states, "hidden states .* are no weights, capture"),
        (lambda model, output: output.to_tuple(), r"weights\[\d\] is a tuple of 2 maps, .*give it alone, weights\["),
        (lambda model, output: [output], "the whole output of a model, .*; give it alone"),
    ],
)
def test_a_wrong_object_is_told_what_it_is(give, advice, as_shipped):
    _, eager = pair("bert", {})
    output = called(eager, inputs(eager), output_attentions=True, output_hidden_states=True)
    with pytest.raises((TypeError, ValueError), match=advice):
        HeadView(give(eager, output))


def rolled_out(weights):
    """Abnar and Zuidema (2020), as its authors compute it."""
    result = torch.eye(weights.shape[-1])
    for layer in weights:
        mixed = layer.mean(0) + torch.eye(weights.shape[-1])
        result = mixed / mixed.sum(-1, keepdim=True) @ result
    return result


def test_rollout_over_an_image():
    weights, image = some(3, 4, 17, 17), torch.rand(3, 32, 32)
    view = HeadView(weights, image=image)
    view.values, view.layer = "rollout", 2
    np.testing.assert_allclose(view.selection.weights, rolled_out(weights).numpy(), atol=1e-6)
    assert view.parts[0]["picture"]["first"] == 1 and view.tokens[1] == "patch 0,0"
    own = HeadView(rolled_out(weights), image=image)  # computed by the reader
    assert own.shape == [1, 1, 17, 17] and own.parts[0]["picture"]["rows"] == 4


# ---------------------------------------------------------------- not solved before


def test_a_page_of_patches_carries_the_picture():
    """Text to image as well: the places of the image among the tokens are found by their labels."""
    fused, eager = pair("llava", {"image_token_index": 99, "image_token_id": 99, "vision_feature_layer": -1})
    tokens = torch.randint(3, 98, (1, 24))
    tokens[:, 2:18] = 99  # 4 x 4 patches
    given = {"input_ids": tokens, "pixel_values": torch.randn(1, 3, 32, 32)}
    labels = ["<s>", "USER:", *["<image>"] * 16, *"what is in it ?".split(), "."]
    output = called(eager, given, output_attentions=True)
    view = HeadView(output, labels, image=torch.rand(3, 32, 32))
    assert view.shape == [2, 4, 24, 24]
    assert view.tokens[2] == "patch 0,0" and view.tokens[17] == "patch 3,3" and view.tokens[18] == "what"
    assert view.parts[0]["picture"]["first"] == 2
    np.testing.assert_allclose(view.weights_of(1, 3)[22, 2:18], output.attentions[1][0, 3, 22, 2:18], atol=1e-6)
    maps = captured(fused, given)
    for tokens, under_text in ((labels, 2), (None, None)):  # the model's own eyes as well, where capture saw them
        both = HeadView(maps, tokens, image=torch.rand(3, 32, 32))
        firsts = {part["name"]: part["picture"] and part["picture"]["first"] for part in both.parts}
        assert firsts == {"vision": 1, "text": under_text}
    with pytest.raises(ValueError, match=r"which fit no part: .*after generate\(\) give tokens\[:-1\]"):
        HeadView(maps, [*labels, "made"])


@pytest.mark.parametrize("family", ["bert", "llama", "gpt_neox"])
def test_the_neuron_view_has_what_it_needs_of_any_model(family):
    fused, _ = pair(family, {})
    maps = captured(fused, inputs(fused), qkv=True)
    view = HeadView(maps)
    assert view.parts[0]["has_neurons"] and view.parts[0]["has_values"]
    scores = maps.queries[1][0, 2] @ maps.keys[1][0, 2].T * maps.scales[1]
    if maps.allowed[1] is not None:
        scores = scores.masked_fill(~maps.allowed[1].expand(2, 4, 9, 9)[0, 2], -torch.inf)
    np.testing.assert_allclose(view.weights_of(1, 2).clip(0), scores.softmax(-1).numpy(), atol=1e-6)


def test_gradients_differences_and_scores_keep_their_sign():
    _, eager = pair("bert", {})
    output = eager(**inputs(eager), output_attentions=True)
    for layer in output.attentions:
        layer.retain_grad()
    output.last_hidden_state[:, 0, 0].sum().mul(1e-4).backward()  # so small that its rows sum to about 0
    gradients = [layer.grad for layer in output.attentions]
    with pytest.raises(ValueError, match='kind="signed" to see scores, gradients or differences'):
        HeadView(gradients)
    view = HeadView(gradients, kind="signed")
    np.testing.assert_array_equal(view.weights_of(0, 3), gradients[0][0, 3].numpy())
    assert view.weights_of(0, 3).min() < 0 and "from -" in view.figure().alt.replace("−", "-")
    scores = torch.randn(2, 6, 6).masked_fill(~causal_mask(6), -torch.inf)
    assert np.array_equal(HeadView(scores, kind="signed", mask=causal_mask(6)).weights_of(0, 1), scores[1].numpy())
    before, after = some(2, 3, 5, 5), some(2, 3, 5, 5)
    compared = HeadView(before, compare=after, names=("before", "after"))
    compared.side = "difference"
    np.testing.assert_allclose(compared.selection.weights, (after - before)[0, 0].numpy(), atol=1e-7)
