"""What people ask of viewers of attention heads in the trackers of bertviz, CircuitsVis and others, shown in Python.

Sixty-three requests were counted. What a page alone shows of them stands in the page tests, families of models in
`test_architectures.py`, structures, masks, steps and labels in the files beside the view.
"""

import numpy as np
import pytest
import torch

from headview import HeadView, capture
from mhalib.masks import causal_mask
from tests.helpers.page import some
from tests.helpers.refusals import accepted
from tests.helpers.small_models import called, captured, inputs, model_of, pair

pytestmark = pytest.mark.usefixtures("one_thread")


def shapes(view):
    return {part["name"]: (part["samples"], *part["shape"]) for part in view.parts}


def close(found, wanted, atol=1e-6):
    np.testing.assert_allclose(found, torch.as_tensor(wanted).detach().numpy(), atol=atol)


def test_padding_is_marked_where_the_model_masks_it():
    model = model_of("bert")
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    labels = [[f"a{i}" for i in range(9)], [f"b{i}" for i in range(6)] + ["[PAD]"] * 3]
    view = HeadView(captured(model, {**inputs(model), "attention_mask": mask}), labels)
    assert (view.weights_of(0, 0) >= 0).all() and view.tokens == labels[0]
    view.sample = 1
    assert (view.weights_of(0, 0)[:, 6:] == -1).all() and (view.weights_of(0, 0)[:, :6] > 0).all()
    assert view.tokens == labels[1]
    view.hidden = ["[PAD]"]
    assert view.selection.weights.shape == (6, 6)


def test_both_halves_of_clip_with_text_and_picture():
    fused, eager = pair("clip")
    given = {"input_ids": torch.randint(3, 98, (1, 9)), "pixel_values": torch.randn(1, 3, 32, 32)}
    output, words = called(eager, given, output_attentions=True), [f"w{i}" for i in range(9)]
    for weights in (output, captured(fused, given)):
        view = HeadView(weights, words, image=given["pixel_values"][0])
        assert shapes(view) == {"text": (1, 2, 4, 9, 9), "vision": (1, 2, 4, 17, 17)}
        parts = {part["name"]: i for i, part in enumerate(view.parts)}
        view.part = parts["text"]
        assert view.tokens == words and view.parts[view.part]["picture"] is None
        close(view.weights_of(0, 3).clip(0), output.text_model_output.attentions[0][0, 3])
        view.part = parts["vision"]
        assert view.tokens[16] == "patch 3,3" and view.parts[view.part]["picture"]["rows"] == 4
        close(view.weights_of(1, 2), output.vision_model_output.attentions[1][0, 2])


def test_text_to_image_and_output_to_image():
    """The places of the image among the tokens are found by their labels."""
    fused, eager = pair("llava", image_token_index=99, image_token_id=99, vision_feature_layer=-1)
    tokens = torch.randint(3, 98, (1, 24))
    tokens[:, 2:18] = 99  # 4 x 4 patches
    given = {"input_ids": tokens, "pixel_values": torch.randn(1, 3, 32, 32)}
    labels = ["<s>", "USER:", *["<image>"] * 16, *"what is in it ?".split(), "."]
    output = called(eager, given, output_attentions=True)
    view = HeadView(output, labels, image=torch.rand(3, 32, 32))
    assert view.tokens[2] == "patch 0,0" and view.tokens[17:19] == ["patch 3,3", "what"]
    assert view.shape == [2, 4, 24, 24] and view.parts[0]["picture"]["first"] == 2
    close(view.weights_of(1, 3)[22, 2:18], output.attentions[1][0, 3, 22, 2:18])
    maps = captured(fused, given)
    for tokens, under_text in ((labels, 2), (None, None)):  # the model's own eyes as well, where capture saw them
        both = HeadView(maps, tokens, image=torch.rand(3, 32, 32))
        firsts = {part["name"]: part["picture"] and part["picture"]["first"] for part in both.parts}
        assert firsts == {"vision": 1, "text": under_text}
    with pytest.raises(ValueError, match=r"fit no part: .*after generate\(\) give tokens\[:-1\]"):
        HeadView(maps, [*labels, "made"])


SETTINGS = {"do_sample": False, "eos_token_id": None, "output_attentions": True, "return_dict_in_generate": True}


def test_what_generate_hands_out_is_one_map_a_layer():
    model, prompt = model_of("gpt2", "AutoModelForCausalLM", "eager"), torch.randint(3, 98, (1, 5))
    made = model.generate(prompt, max_new_tokens=4, **SETTINGS)
    tokens = [f"t{i}" for i in made.sequences[0].tolist()]
    whole = called(model, {"input_ids": made.sequences[:, :-1]}, output_attentions=True).attentions
    for given, labels in ((made, tokens), (made, tokens[:-1]), (made.attentions, tokens)):
        view = HeadView(given, labels)
        assert view.shape == [2, 4, 8, 8] and view.tokens == tokens[:-1]  # the last one made is no query yet
        close(view.weights_of(1, 2).clip(0), whole[1][0, 2], atol=1e-5)
        assert np.array_equal(view.weights_of(1, 2) == -1, ~causal_mask(8).numpy())

    model, source = model_of("marian", "AutoModelForSeq2SeqLM", "eager"), torch.randint(3, 98, (1, 7))
    made = model.generate(source, max_new_tokens=5, num_beams=1, forced_eos_token_id=None, **SETTINGS)
    target = [f"t{i}" for i in made.sequences[0].tolist()]
    view = HeadView(made, target[:-1], [f"s{i}" for i in range(7)])
    assert shapes(view) == {"encoder": (1, 2, 4, 7, 7), "decoder": (1, 2, 4, 5, 5), "cross": (1, 2, 4, 5, 7)}
    view.part = 2
    assert view.tokens == target[:-1] and view.key_tokens[6] == "s6"
    given = {"input_ids": source, "decoder_input_ids": made.sequences[:, :-1]}
    close(view.weights_of(1, 3), called(model, given, output_attentions=True).cross_attentions[1][0, 3], atol=1e-5)


def test_a_wrong_object_is_told_what_it_is(as_shipped):
    fused, eager = pair("bert")
    given = inputs(fused)
    output = called(eager, given, output_attentions=True, output_hidden_states=True)
    calls = {
        'attn_implementation="eager"': called(fused, given).attentions,
        "with capture(model)": called(fused, given).attentions,
        "the model itself, BertModel; call it": eager,
        "give it to the model": {"input_ids": torch.ones(1, 4).long()},
        "hidden states ": output.last_hidden_state,
        "are no weights, capture": output.hidden_states,
        "is a tuple of 2 maps": output.to_tuple(),
        "the whole output of a model": [output],
        'kind="part" where': some(2, 10, 10)[..., :4],  # a block of a map: its rows sum to less than 1
        'kind="signed"': torch.randn(2, 6, 6) * 1e-4,
    }
    assert accepted({words: lambda given=given: HeadView(given) for words, given in calls.items()}) == []


def test_gradients_keep_their_sign():
    eager = model_of("bert", how="eager")
    output = eager(**inputs(eager), output_attentions=True)
    for layer in output.attentions:
        layer.retain_grad()
    output.last_hidden_state[:, 0, 0].sum().mul(1e-4).backward()
    gradients = [layer.grad for layer in output.attentions]
    view = HeadView(gradients, kind="signed")
    assert np.array_equal(view.weights_of(0, 3), gradients[0][0, 3].numpy())
    assert view.weights_of(0, 3).min() < 0 and "from -" in view.figure().alt.replace("−", "-")


def test_layers_and_parts_keep_their_names_and_all_heads_are_one_map():
    weights = some(12, 2, 6, 6)
    assert "layer 8 head 0" in HeadView(weights[8:9], layer_names=8).figure().alt
    both = HeadView({"first paragraph": list(weights[8:10]), "second": list(some(2, 2, 4, 4))}, layer_names=8)
    assert [part["layer_names"] for part in both.parts] == [["layer 8", "layer 9"]] * 2
    for which, expected in (("all", weights[8:10].mean((0, 1))), ("layer", weights[9].mean(0))):
        both.layer, both.heads = 1, which
        close(both.selection.weights, expected)
    both.part = 1
    assert "second" in both.figure().alt


def test_long_texts_and_sounds_are_taken_in_full():
    layer = some(1, 16, 512, 512).half()
    view = HeadView([layer] * 24, [f"t{i}" for i in range(512)])  # as large as BERT
    assert np.array_equal(view.weights_of(23, 15), layer[0, 15].float().numpy())
    page = view.to_html()
    assert len(page) < 6_000_000
    assert view.left_out == "" and "shrunk to what the overview shows" in page  # said there, not here
    frames = some(1, 2, 1500, 1500)
    view = HeadView({"encoder": [frames], "cross": [frames[:, :, :4]]})
    assert shapes(view) == {"encoder": (1, 1, 2, 1500, 1500), "cross": (1, 1, 2, 4, 1500)}
    view.window = [700.0, 720.0, 700.0, 720.0]
    assert np.array_equal(view.selection.weights, frames[0, 0, 700:720, 700:720].numpy())


def test_passes_of_a_model_are_an_axis_to_walk_along():
    """The steps of a diffusion model: each layer is there once, however often the model ran."""
    model, steps = model_of("vit"), torch.randn(3, 2, 3, 32, 32)
    with torch.no_grad(), capture(model, qkv=True) as maps:
        for pixels in steps:
            model(pixels)
    labels = [[f"{sample}{i}" for i in range(17)] for sample in "ab"]
    view = HeadView(maps, labels)
    assert shapes(view) == {"": (6, 2, 4, 17, 17)} and view.parts[0]["passes"] == 3
    for number in range(6):
        view.sample = number
        assert view.tokens == labels[number % 2]
        close(view.weights_of(1, 3), maps[2 * (number // 2) + 1][number % 2, 3])
        view.values = "values"
        assert view.selection.weights.shape == (17, 17)
        view.values = "weights"
    view = HeadView(maps, labels, samples="mean")
    close(view.weights_of(0, 0), torch.cat(maps[::2])[:, 0].mean(0))
    model = model_of("gpt2")  # a pass of another length stays apart, with its mask
    with torch.no_grad(), capture(model) as maps:
        for length in (6, 6, 4):
            model(torch.randint(3, 98, (1, length)))
    view = HeadView(maps)
    assert shapes(view) == {"4 x 6 x 6": (2, 2, 4, 6, 6), "4 x 4 x 4": (1, 2, 4, 4, 4)}
    assert all(part["layer_names"] == ["layer 0", "layer 1"] for part in view.parts)
    assert np.array_equal(view.weights_of(1, 2) == -1, ~causal_mask(6).numpy())


def test_the_mean_over_inputs():
    mask = torch.ones(3, 1, 1, 5, dtype=torch.bool)
    mask[2, ..., 4:] = False
    layers = [torch.randn(3, 2, 5, 5).masked_fill(~mask, -torch.inf).softmax(-1) for _ in range(2)]
    layers[1][0, 1, 3] = 0  # a query that attends to nothing does not count
    labels = [["<s>", *"abcd"], ["<s>", *"efgh"], ["<s>", *"ijk", "<pad>"]]
    view = HeadView(layers, labels, mask=mask, samples="mean")
    assert shapes(view) == {"mean of 3 samples": (1, 2, 2, 5, 5)}
    assert view.tokens == ["<s>", "1", "2", "3", "4"]
    close(view.weights_of(0, 1), layers[0][:, 1].mean(0))
    close(view.weights_of(1, 1)[3], layers[1][1:, 1, 3].mean(0))
    close(view.weights_of(1, 1).sum(-1), torch.ones(5), atol=1e-5)
    with pytest.raises(ValueError, match="samples must be .*got 'all'"):
        HeadView(layers, samples="all")
