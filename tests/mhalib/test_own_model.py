"""Models that are not ours: the lines of README and YOUR_MODEL as written, on small ones with random weights."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headview import HeadView, capture
from mhalib import MultiHeadAttention
from mhalib.heads import zero_importance
from mhalib.reference import from_torch
from tests.helpers.small_models import model_of, pair

ROOT = Path(__file__).resolve().parents[2]
README = "\n".join((ROOT / name).read_text("utf-8") for name in ("README.md", "notebooks/YOUR_MODEL.md"))
TOKENS = "any sentence will do here now".split()
WORDS = {word: place for place, word in enumerate(["[UNK]", *TOKENS])}
ENDLESS = {"vocab_size": len(WORDS), "bos_token_id": 0, "eos_token_id": None}  # it knows these words, and never stops


@pytest.fixture
def scope(tmp_path, monkeypatch) -> dict:
    """What the README takes for granted, in a folder into which its lines may write."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    monkeypatch.chdir(tmp_path)
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", model_input_names=names)
    tokenizer.save_pretrained(tmp_path)
    inputs = tokenizer(" ".join(TOKENS), return_tensors="pt")
    known = {"torch": torch, "HeadView": HeadView, "capture": capture}
    return {**known, "tokenizer": tokenizer, "inputs": inputs, "tokens": TOKENS}


def block(word: str) -> str:
    """Return the one piece of Python in the README that holds this word."""
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", README, re.S) if word in code]
    return code


def inline(word: str) -> str:
    """Return the one piece of code in the README's sentences that holds this."""
    text = re.sub(r"```.*?```", "", README, flags=re.S)
    (code,) = [code for code in re.findall(r"`([^`]+)`", text) if word in code]
    return code


def run(code: str, scope: dict):
    """Run lines as they are written, and return what the last one is worth, as a notebook would show it."""
    *lines, last = ast.parse(code).body
    exec(compile(ast.Module(lines, []), "README.md", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "README.md", "eval"), scope)


def hold_against(view: HeadView, wanted: list[torch.Tensor]) -> None:
    """Hold every head of a view against maps (1, h, Tq, Tk) that hold 0 where the view says masked."""
    assert view.shape == [len(wanted), *wanted[0].shape[1:]]
    for layer, maps in enumerate(wanted):
        for head in range(view.shape[1]):
            shown = view.weights_of(layer, head)
            np.testing.assert_allclose(np.where(shown < 0, 0, shown), maps[0, head].detach().numpy(), atol=1e-6)


def parts(view: HeadView) -> dict:
    """Return what each part of a view shows: its shape, its tokens and its keys."""
    return {part["name"]: (part["shape"], *part["tokens"], *part["key_tokens"]) for part in view.parts}


def test_heads_of_any_model_are_shown_and_where_it_returns_none_the_view_says_what_to_do(scope, as_shipped):
    model, eager = pair("gpt2")
    outputs = eager(**scope["inputs"], output_attentions=True)
    for view in (
        run(block("import HeadView, capture\n\nwith"), {**scope, "model": model}),
        HeadView(outputs.attentions, TOKENS),
    ):
        hold_against(view, outputs.attentions)
        assert view.tokens == view.key_tokens == TOKENS
    with pytest.raises(ValueError, match=r'empty tuple; ask for the weights: .*attn_implementation="eager"'):
        HeadView(model(**scope["inputs"], output_attentions=True).attentions, TOKENS)
    unasked = eager(**scope["inputs"])
    with pytest.raises(TypeError, match="weights is None; ask for the weights: .*output_attentions=True"):
        HeadView(unasked.attentions, TOKENS)
    with pytest.raises(TypeError, match="output_attentions=True"):
        HeadView(unasked, TOKENS)

    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)  # layers of torch inside a model
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    x = torch.randn(1, 6, 16)
    with torch.no_grad():  # where torch would take its fast path, which returns no weights
        view = run(block("import HeadView, capture\n\nwith"), {**scope, "model": model, "inputs": {"src": x}})
        wanted = model.layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    assert view.shape == [3, 4, 6, 6]
    np.testing.assert_allclose(view.weights_of(0, 2), wanted[0, 2], atol=1e-6)


def test_a_model_of_hugging_face_from_the_first_line_to_the_last(scope):
    """Only the name of the model is replaced, by a folder with a small one."""
    code = block("AutoModel")
    model_of("bert").save_pretrained(".")
    assert '"bert-base-uncased"' in code
    view = run(code.replace('"bert-base-uncased"', '"."'), {"HeadView": HeadView, "capture": capture})
    assert view.shape == [2, 4, 5, 5]
    assert view.tokens == ["[UNK]", "sentence", "will", "do", "[UNK]"]
    page = Path("heads.html").read_bytes()
    assert b"<script>" in page and page.isascii(), "whatever encoding a machine writes and a browser guesses"


def test_a_text_that_a_model_writes_and_the_parts_of_a_translator(scope):
    scope["model"] = model_of("gpt2", "AutoModelForCausalLM", "eager", **ENDLESS)
    view = run(block("max_new_tokens"), scope)
    assert view.tokens[:6] == TOKENS and view.shape == [2, 4, 25, 25]  # 6 read, and 19 of 20 that it wrote
    written = torch.tensor([[WORDS[token] for token in view.tokens]])
    hold_against(view, scope["model"](written, output_attentions=True).attentions)
    scope["model"] = model_of("t5", "AutoModelForSeq2SeqLM", **ENDLESS)
    view = run(block("decoder_input_ids"), scope)
    labels = scope["tokenizer"].convert_ids_to_tokens(scope["target"][0])
    long = len(labels)
    assert long > 6 and parts(view) == {
        "encoder": ([2, 4, 6, 6], TOKENS, TOKENS),
        "decoder": ([2, 4, long, long], labels, labels),
        "cross": ([2, 4, long, 6], labels, TOKENS),
    }


def test_the_picture_under_what_a_model_sees(scope):
    sees = {"pixel_values": torch.randn(1, 3, 32, 32)}  # 4 x 4 patches, and a token for the class
    scope["image"] = torch.rand(3, 40, 40)
    vit, clip = model_of("vit"), model_of("clip", vocab_size=20)
    with capture(vit) as scope["maps"]:
        vit(**sees)
    view = run(inline("HeadView(maps, image=image)"), scope)
    assert view.shape == [2, 4, 17, 17] and view.tokens[1:3] == ["patch 0,0", "patch 0,1"]
    with capture(clip) as scope["maps"]:
        clip(**scope["inputs"], **sees)
    found = parts(run(inline("HeadView(maps, tokens, image=image)"), scope))
    assert {name: (shown[0], shown[1][-1]) for name, shown in found.items()} == {
        "vision": ([2, 4, 17, 17], "patch 3,3"),
        "text": ([2, 4, 6, 6], "now"),
    }


def test_what_the_sentences_name_half_precision_queries_keys_and_values_and_two_of_one_shape(scope):
    scope["model"] = model = model_of("gpt2", how="eager")
    ids = scope["inputs"]["input_ids"]
    with run(inline("layers=1"), scope) as maps:
        model(ids.repeat(3, 1))
    assert [each.shape for each in maps] == [(1, 4, 6, 6)] and maps[0].dtype == torch.float16
    wanted = model(ids, output_attentions=True).attentions[1]
    torch.testing.assert_close(maps[0].float(), wanted, atol=1e-3, rtol=0)

    with run(inline("qkv=True"), scope) as maps:
        model(ids)
    view = HeadView(maps, TOKENS)
    view.values = "values"
    wanted = maps[0][0, 0] * maps.values[0][0, 0].norm(dim=-1)
    np.testing.assert_allclose(np.maximum(view.selection.weights, 0), wanted.detach(), atol=1e-5)

    scope["before"], scope["after"] = torch.randn(2, 2, 4, 6, 6).softmax(-1)  # (2 layers, 4 heads, 6, 6) each
    view = run(inline("compare=after"), scope)
    assert view.sides == ["before", "after"]
    view.side, view.layer, view.head = "difference", 0, 0
    difference = (scope["after"] - scope["before"])[0, 0]
    np.testing.assert_allclose(view.selection.weights, difference, atol=1e-6)
    view.side = "a"
    strong = run(block("view.strongest"), {"view": view})
    assert (view.layer, view.head, view.scale) == (1, 3, "maximum")
    np.testing.assert_allclose(view.selection.weights, scope["before"][1, 3], atol=1e-6)
    wanted = scope["before"].flatten().topk(10).values
    np.testing.assert_allclose([each.weight for each in strong], wanted, atol=1e-6)


def test_one_layer_of_torch(scope):
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    scope |= {"layer": layer, "x": torch.randn(2, 6, 16)}
    exec(block("# layer = nn.MultiheadAttention"), scope)
    assert HeadView(scope["weights"][0], TOKENS).shape == [1, 4, 6, 6]
    assert Path("heads.png").read_bytes().startswith(b"\x89PNG")


def test_heads_of_an_own_model_are_measured_and_cut():
    """The first head of the first layer hands over nothing: it is the one that goes."""
    theirs = [nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(2)]
    theirs[0].out_proj.weight.data[:, :4] = 0
    model = nn.Sequential(*map(from_torch, theirs))
    x = torch.randn(8, 6, 16)
    target = model(x).detach()

    def losses(model):
        return (model(x) - target).square().mean((1, 2))

    with pytest.raises(ValueError, match="holds no mhalib.MultiHeadAttention.*from_torch.*notebooks/YOUR_MODEL.md"):
        zero_importance(theirs[0], losses)
    scope = {"model": model, "losses": losses}
    exec(block("prune_heads"), scope)
    heads = [layer.num_heads for layer in scope["small"].modules() if isinstance(layer, MultiHeadAttention)]
    assert heads == [3, 4]
    torch.testing.assert_close(scope["small"](x), target)
