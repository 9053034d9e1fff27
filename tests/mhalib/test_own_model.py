"""Models that are not ours: what the README says to do with them, on small ones with random weights."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.heads import capture, zero_importance
from mhalib.reference import from_torch
from mhalib.widgets import HeadView

README = Path(__file__).resolve().parents[2] / "README.md"
TOKENS = "any sentence will do here now".split()
IDS = torch.arange(1, 7)[None]
TOWER = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TRANSLATOR = {"vocab_size": 7, "d_model": 24, "d_kv": 6, "d_ff": 32, "num_layers": 2, "num_heads": 4}
TRANSLATOR |= {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": None}


def make(kind: str, attention: str = "eager") -> nn.Module:
    """Return a small model of transformers, which is imported only here: that takes seconds."""
    import transformers as hf

    gpt = {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 40, "bos_token_id": 0}
    pixels = {"image_size": 32, "patch_size": 8}  # 4 x 4 patches, and a token for the class
    text = {**TOWER, "vocab_size": 7, "max_position_embeddings": 16, "eos_token_id": 2}
    models = {
        "bert": (hf.BertModel, hf.BertConfig, {**TOWER, "vocab_size": 20}),
        "gpt2": (hf.GPT2Model, hf.GPT2Config, {**gpt, "vocab_size": 20, "eos_token_id": 0}),
        "writer": (hf.GPT2LMHeadModel, hf.GPT2Config, {**gpt, "vocab_size": 7, "eos_token_id": None}),  # never stops
        "t5": (hf.T5ForConditionalGeneration, hf.T5Config, TRANSLATOR),
        "vit": (hf.ViTModel, hf.ViTConfig, {**TOWER, **pixels}),
        "clip": (
            hf.CLIPModel,
            hf.CLIPConfig,
            {"text_config": text, "vision_config": {**TOWER, **pixels}, "projection_dim": 8},
        ),
    }
    model, config, sizes = models[kind]
    return model(config(**sizes, attn_implementation=attention)).eval()


def hold_against(view: HeadView, wanted: list[torch.Tensor]) -> None:
    """Hold every head of a view against maps (1, h, Tq, Tk) that hold 0 where the view says masked."""
    assert view.shape == [len(wanted), *wanted[0].shape[1:]]
    for layer, maps in enumerate(wanted):
        for head in range(view.shape[1]):
            shown = view.weights_of(layer, head)
            np.testing.assert_allclose(np.where(shown < 0, 0, shown), maps[0, head].detach().numpy(), atol=1e-6)


# ------------------------------------------------------------------------------------ what a model returns


def test_what_a_model_returns_is_shown_head_by_head_and_where_it_returns_none_the_view_says_what_to_do(as_shipped):
    for kind in ("bert", "gpt2"):
        outputs = make(kind)(IDS, output_attentions=True)
        view = HeadView(outputs.attentions, TOKENS, exact=True)
        hold_against(view, outputs.attentions)
        assert view.tokens == view.key_tokens == TOKENS
        outputs = make(kind, "sdpa")(IDS, output_attentions=True)
        with pytest.raises(ValueError, match=r'empty tuple; ask for the weights: .*attn_implementation="eager"'):
            HeadView(outputs.attentions, TOKENS)
    with pytest.raises(TypeError, match="weights is None; ask for the weights: .*output_attentions=True"):
        HeadView(make("bert")(IDS).attentions, TOKENS)  # nobody asked for attentions
    with pytest.raises(TypeError, match="output_attentions=True"):
        HeadView(make("bert")(IDS), TOKENS)
    view = HeadView(make("bert")(IDS.repeat(2, 1), output_attentions=True), [TOKENS] * 2)
    assert view.shape == [2, 4, 6, 6] and view.parts[0]["samples"] == 2


# ---------------------------------------------------------------- the lines of the README, as they are written


@pytest.fixture
def scope(tmp_path, monkeypatch) -> dict:
    """What the README takes for granted, in a folder into which its lines may write."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    monkeypatch.chdir(tmp_path)
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(["[UNK]", *TOKENS])}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    names = ["input_ids", "attention_mask"]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", model_input_names=names)
    tokenizer.save_pretrained(tmp_path)
    inputs = tokenizer(" ".join(TOKENS), return_tensors="pt")
    known = {"torch": torch, "HeadView": HeadView, "capture": capture}
    return {**known, "tokenizer": tokenizer, "inputs": inputs, "tokens": TOKENS}


def block(word: str) -> str:
    """Return the one piece of Python in the README that holds this word."""
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S) if word in code]
    return code


def inline(word: str) -> str:
    """Return the one piece of code in the README's sentences that holds this."""
    text = re.sub(r"```.*?```", "", README.read_text("utf-8"), flags=re.S)
    (code,) = [code for code in re.findall(r"`([^`]+)`", text) if word in code]
    return code


def run(code: str, scope: dict):
    """Run lines as they are written, and return what the last one is worth, as a notebook would show it."""
    *lines, last = ast.parse(code).body
    exec(compile(ast.Module(lines, []), "README.md", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "README.md", "eval"), scope)


def shapes(view: HeadView) -> dict[str, list[int]]:
    return {part["name"]: part["shape"] for part in view.parts}


def test_the_first_lines_show_every_head_of_models_of_transformers_and_of_torch(scope):
    code = block("import capture")
    for kind in ("bert", "gpt2"):  # what a model would return if it were eager
        model, eager = make(kind, "sdpa"), make(kind)
        eager.load_state_dict(model.state_dict())
        view = run(code, {**scope, "model": model})
        hold_against(view, eager(**scope["inputs"], output_attentions=True).attentions)
        assert view.tokens == view.key_tokens == TOKENS
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)  # layers of torch inside a model
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    x = torch.randn(1, 6, 16)
    with torch.no_grad():  # where torch would take its fast path, which returns no weights
        view = run(code, {**scope, "model": model, "inputs": {"src": x}})
        wanted = model.layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    assert view.shape == [3, 4, 6, 6]
    np.testing.assert_allclose(view.weights_of(0, 2), wanted[0, 2], atol=1e-6)


def test_a_model_of_hugging_face_from_the_first_line_to_the_last(scope):
    """Only the name of the model is replaced, by a folder with a small one."""
    code = block("AutoModel")
    make("bert", "sdpa").save_pretrained(".")
    assert '"bert-base-uncased"' in code
    view = run(code.replace('"bert-base-uncased"', '"."'), {"HeadView": HeadView, "capture": capture})
    assert view.shape == [2, 4, 5, 5]
    assert view.tokens == ["[UNK]", "sentence", "will", "do", "[UNK]"]
    page = Path("heads.html").read_bytes()
    assert b"<script>" in page and page.isascii(), "whatever encoding a machine writes and a browser guesses"


def test_a_text_that_a_model_writes(scope):
    model = make("writer")
    view = run(block("max_new_tokens"), {**scope, "model": model})
    assert view.tokens[:6] == TOKENS and set(view.tokens[6:]) <= {"[UNK]", *TOKENS}
    written = torch.tensor(scope["tokenizer"].convert_tokens_to_ids(view.tokens))[None]
    hold_against(view, model(written, output_attentions=True).attentions)  # 6 read, and 19 of 20 that it wrote
    assert view.shape == [3, 2, 25, 25]


def test_the_parts_of_a_translator(scope):
    scope["model"] = make("t5")
    view = run(block("decoder_input_ids"), scope)
    labels = scope["tokenizer"].convert_ids_to_tokens(scope["target"][0])
    long = len(labels)
    own, decoder, cross = [2, 4, 6, 6], [2, 4, long, long], [2, 4, long, 6]
    assert long > 6 and shapes(view) == {"encoder": own, "decoder": decoder, "cross": cross}
    names = {part["name"]: (part["tokens"], part["key_tokens"]) for part in view.parts}
    assert names == {"encoder": ([TOKENS],) * 2, "decoder": ([labels],) * 2, "cross": ([labels], [TOKENS])}


def test_the_picture_under_what_a_model_sees(scope):
    sees = {"pixel_values": torch.randn(1, 3, 32, 32)}
    scope["image"] = torch.rand(3, 40, 40)
    vit, clip = make("vit", "sdpa"), make("clip", "sdpa")
    with capture(vit) as scope["maps"]:
        vit(**sees)
    view = run(inline("HeadView(maps, image=image)"), scope)
    assert view.shape == [2, 4, 17, 17] and view.tokens[1:3] == ["patch 0,0", "patch 0,1"]
    with capture(clip) as scope["maps"]:
        clip(**scope["inputs"], **sees)
    view = run(inline("HeadView(maps, tokens, image=image)"), scope)
    assert shapes(view) == {"vision": [2, 4, 17, 17], "text": [2, 4, 6, 6]}
    assert {part["name"]: part["tokens"][0][-1] for part in view.parts} == {"vision": "patch 3,3", "text": "now"}


def test_what_the_sentences_name_half_precision_queries_keys_and_values_and_two_of_one_shape(scope):
    model = make("gpt2")
    with eval(inline("layers=1"), {**scope, "model": model}) as maps:
        model(IDS.repeat(3, 1))
    assert [each.shape for each in maps] == [(1, 2, 6, 6)] and maps[0].dtype == torch.float16
    wanted = model(IDS, output_attentions=True).attentions[1]
    torch.testing.assert_close(maps[0].float(), wanted, atol=1e-3, rtol=0)

    with eval(inline("qkv=True"), {**scope, "model": model}) as maps:
        model(**scope["inputs"])
    view = HeadView(maps, TOKENS)
    view.values = "values"
    wanted = maps[0][0, 0] * maps.values[0][0, 0].norm(dim=-1)
    np.testing.assert_allclose(np.maximum(view.selection.weights, 0), wanted.detach(), atol=1e-5)

    scope["before"], scope["after"] = torch.randn(2, 2, 4, 6, 6).softmax(-1)  # (2 layers, 4 heads, 6, 6) each
    view = run(inline("compare=after"), scope)
    assert view.sides == ["before", "after"]
    view.side = "difference"
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


class Residual(nn.Module):
    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return x + self.attention(x)


def test_heads_of_an_own_model_are_measured_and_cut():
    """The first head of the first layer hands over nothing: it is the one that goes."""
    theirs = [nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(2)]
    theirs[0].out_proj.weight.data[:, :4] = 0
    model = nn.Sequential(*(Residual(from_torch(layer)) for layer in theirs))
    x = torch.randn(8, 6, 16)
    with torch.no_grad():
        target = model(x)

    def losses(model):
        return (model(x) - target).square().mean((1, 2))

    with pytest.raises(ValueError, match="holds no mhalib.MultiHeadAttention.*from_torch"):
        zero_importance(theirs[0], losses)
    scope = {"model": model, "losses": losses}
    exec(block("prune_heads"), scope)
    heads = [layer.num_heads for layer in scope["small"].modules() if isinstance(layer, MultiHeadAttention)]
    assert heads == [3, 4]
    torch.testing.assert_close(scope["small"](x), target)
