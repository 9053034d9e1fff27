"""Models that are not ours: what the README says to do with them, on small ones with random weights."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
)

from mhalib import MultiHeadAttention
from mhalib.heads import capture, zero_importance
from mhalib.reference import from_torch
from mhalib.widgets import HeadView

README = Path(__file__).resolve().parents[2] / "README.md"
TOKENS = "any sentence will do here now".split()
IDS = torch.arange(1, 7)[None]


def block(word: str) -> str:
    """Return the one piece of Python in the README that holds this word."""
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S) if word in code]
    return code


def bert(attention: str) -> BertModel:
    sizes = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return BertModel(BertConfig(vocab_size=20, attn_implementation=attention, **sizes)).eval()


def gpt2(attention: str) -> GPT2Model:
    sizes = {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2Model(GPT2Config(vocab_size=20, attn_implementation=attention, **sizes)).eval()


def hold_against(view: HeadView, wanted: list[torch.Tensor]) -> None:
    """Hold every head of a view against maps (1, h, Tq, Tk) that hold 0 where the view says masked."""
    assert view.shape == [len(wanted), *wanted[0].shape[1:]]
    for layer, maps in enumerate(wanted):
        for head in range(view.shape[1]):
            shown = view.weights_of(layer, head)
            np.testing.assert_allclose(np.where(shown < 0, 0, shown), maps[0, head].detach().numpy(), atol=1e-6)


def writer() -> GPT2LMHeadModel:
    """Make a model that never stops writing before it is told."""
    sizes = {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 40, "bos_token_id": 0, "eos_token_id": None}
    return GPT2LMHeadModel(GPT2Config(vocab_size=7, attn_implementation="eager", **sizes)).eval()


@pytest.mark.parametrize(("make", "shape"), [(bert, [2, 4, 6, 6]), (gpt2, [3, 2, 6, 6])])
def test_every_head_of_every_layer_is_shown_as_the_model_says(make, shape):
    attentions = make("eager")(IDS, output_attentions=True).attentions
    view = HeadView(attentions, TOKENS, exact=True)
    assert view.shape == shape
    assert view.tokens == view.key_tokens == TOKENS
    for layer in range(shape[0]):
        for head in range(shape[1]):
            shown = view.weights_of(layer, head)
            assert np.array_equal(shown, attentions[layer][0, head].detach().numpy())
            if make is gpt2:
                assert not np.triu(shown, 1).any(), "a causal model looks at nothing that comes later"


@pytest.mark.parametrize("make", [bert, gpt2])
def test_the_default_attention_returns_no_weights_and_the_view_says_what_to_do(make):
    outputs = make("sdpa")(IDS, output_attentions=True)
    assert not outputs.attentions
    with pytest.raises(ValueError, match=r'empty tuple; ask for the weights: .*attn_implementation="eager"'):
        HeadView(outputs.attentions, TOKENS)


def test_the_whole_output_of_a_model_will_do_and_one_without_weights_is_told(as_shipped):
    with pytest.raises(TypeError, match="weights is None; ask for the weights: .*output_attentions=True"):
        HeadView(bert("eager")(IDS).attentions, TOKENS)  # nobody asked for attentions
    with pytest.raises(TypeError, match="output_attentions=True"):
        HeadView(bert("eager")(IDS), TOKENS)
    view = HeadView(bert("eager")(IDS.repeat(2, 1), output_attentions=True), [TOKENS] * 2)
    assert view.shape == [2, 4, 6, 6] and view.parts[0]["samples"] == 2


def test_the_steps_of_a_generated_text_are_put_together():
    model = writer()
    given = {"max_new_tokens": 4, "return_dict_in_generate": True, "output_attentions": True}
    written = model.generate(IDS, attention_mask=torch.ones_like(IDS), **given)
    assert len(written.attentions) == 4 and len(written.attentions[0]) == 3  # steps of layers
    view = HeadView(written, [str(token) for token in written.sequences[0, :-1].tolist()])
    hold_against(view, model(written.sequences[:, :-1], output_attentions=True).attentions)
    assert view.shape == [3, 2, 9, 9]


# ---------------------------------------------------------------- the lines of the README, as they are written


@pytest.fixture
def scope(tmp_path, monkeypatch) -> dict:
    """What the README takes for granted, in a folder into which its lines may write."""
    monkeypatch.chdir(tmp_path)
    words = {"[UNK]": 0, **{token: place for place, token in enumerate(TOKENS, start=1)}}
    made = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", model_input_names=["input_ids", "attention_mask"]
    )
    tokenizer.save_pretrained(tmp_path)
    inputs = tokenizer(" ".join(TOKENS), return_tensors="pt")
    known = {"torch": torch, "HeadView": HeadView, "capture": capture}
    return {**known, "tokenizer": tokenizer, "inputs": inputs, "tokens": TOKENS}


def run(code: str, scope: dict):
    """Run lines as they are written, and return what the last one is worth, as a notebook would show it."""
    *lines, last = ast.parse(code).body
    exec(compile(ast.Module(lines, []), "README.md", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "README.md", "eval"), scope)


def inline(word: str) -> str:
    """Return the one piece of code in the README's sentences that holds this."""
    text = re.sub(r"```.*?```", "", README.read_text("utf-8"), flags=re.S)
    (code,) = [code for code in re.findall(r"`([^`]+)`", text) if word in code]
    return code


def shapes(view: HeadView) -> dict[str, list[int]]:
    return {part["name"]: part["shape"] for part in view.parts}


@pytest.mark.parametrize("make", [bert, gpt2])
def test_the_first_lines_show_what_a_model_would_return_if_it_were_eager(make, scope):
    scope["model"], eager = make("sdpa"), make("eager")
    eager.load_state_dict(scope["model"].state_dict())
    view = run(block("import capture"), scope)
    hold_against(view, eager(**scope["inputs"], output_attentions=True).attentions)
    assert view.tokens == view.key_tokens == TOKENS


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_first_lines_show_layers_of_torch_inside_a_model(batch_first, scope):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=batch_first)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    x = torch.randn(*(1, 6, 16) if batch_first else (6, 1, 16))
    with torch.no_grad():  # where torch would take its fast path, which returns no weights
        expected = model(x)
        view = run(block("import capture"), {**scope, "model": model, "inputs": {"src": x}})
        torch.testing.assert_close(model(x), expected)
        wanted = model.layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    assert view.shape == [3, 4, 6, 6]
    np.testing.assert_allclose(view.weights_of(0, 2), wanted[0, 2], atol=1e-6)


class Fused(nn.Module):
    """Attention as nanoGPT writes it."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.num_heads = num_heads

    def heads(self, x):
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1)]

    def forward(self, x):
        y = F.scaled_dot_product_attention(*self.heads(x), is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(-2))


def test_the_first_lines_show_a_layer_that_keeps_its_weights_to_itself(scope):
    layer, x = Fused(16, 4), torch.randn(1, 6, 16)
    view = run(block("import capture"), {**scope, "model": layer, "inputs": {"x": x}})
    q, k, _ = layer.heads(x)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    hold_against(view, [(q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf).softmax(-1)])


def test_a_model_of_hugging_face_from_the_first_line_to_the_last(scope):
    """Only the name of the model is replaced, by a folder with a small one."""
    code = block("AutoModel")
    bert("sdpa").save_pretrained(".")
    assert '"bert-base-uncased"' in code
    view = run(code.replace('"bert-base-uncased"', '"."'), {"HeadView": HeadView, "capture": capture})
    assert view.shape == [2, 4, 5, 5]
    assert view.tokens == ["[UNK]", "sentence", "will", "do", "[UNK]"]
    page = Path("heads.html").read_bytes()
    assert b"<script>" in page and page.isascii(), "whatever encoding a machine writes and a browser guesses"


def test_a_text_that_a_model_writes(scope):
    model = writer()
    view = run(block("max_new_tokens"), {**scope, "model": model})
    assert view.tokens[:6] == TOKENS and set(view.tokens[6:]) <= {"[UNK]", *TOKENS}
    written = torch.tensor(scope["tokenizer"].convert_tokens_to_ids(view.tokens))[None]
    hold_against(view, model(written, output_attentions=True).attentions)  # 6 read, and 19 of 20 that it wrote
    assert view.shape == [3, 2, 25, 25]


SMALL = {"vocab_size": 7, "d_model": 24, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": None}
LAYERS = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 32))}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 40}


@pytest.mark.parametrize(
    "make",
    [
        lambda: T5ForConditionalGeneration(T5Config(d_kv=6, d_ff=32, num_layers=2, num_heads=4, **SMALL)),
        lambda: BartForConditionalGeneration(
            BartConfig(**SMALL, **LAYERS, **HEADS, bos_token_id=0, forced_eos_token_id=None)
        ),
    ],
    ids=["t5", "bart"],
)
def test_the_parts_of_a_translator(make, scope):
    scope["model"] = make().eval()
    view = run(block("decoder_input_ids"), scope)
    labels = scope["tokenizer"].convert_ids_to_tokens(scope["target"][0])
    long = len(labels)
    assert long > 6 and shapes(view) == {
        "encoder": [2, 4, 6, 6],
        "decoder": [2, 4, long, long],
        "cross": [2, 4, long, 6],
    }
    names = {part["name"]: (part["tokens"], part["key_tokens"]) for part in view.parts}
    assert names == {"encoder": ([TOKENS],) * 2, "decoder": ([labels],) * 2, "cross": ([labels], [TOKENS])}


TOWER = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
PIXELS = {"image_size": 32, "patch_size": 8}  # 4 x 4 patches, and a token for the class


def test_the_picture_under_what_a_model_sees(scope):
    sees = {"pixel_values": torch.randn(1, 3, 32, 32)}
    scope["image"] = torch.rand(3, 40, 40)
    vit = ViTModel(ViTConfig(**TOWER, **PIXELS))
    with capture(vit) as scope["maps"]:
        vit(**sees)
    view = run(inline("HeadView(maps, image=image)"), scope)
    assert view.shape == [2, 4, 17, 17] and view.tokens[1:3] == ["patch 0,0", "patch 0,1"]

    text = {**TOWER, "vocab_size": 7, "max_position_embeddings": 16, "eos_token_id": 2}
    clip = CLIPModel(CLIPConfig(text_config=text, vision_config={**TOWER, **PIXELS}, projection_dim=8))
    with capture(clip) as scope["maps"]:
        clip(**scope["inputs"], **sees)
    view = run(inline("HeadView(maps, tokens, image=image)"), scope)
    assert shapes(view) == {"vision": [2, 4, 17, 17], "text": [2, 4, 6, 6]}
    assert {part["name"]: part["tokens"][0][-1] for part in view.parts} == {"vision": "patch 3,3", "text": "now"}


def test_a_layer_of_a_model_in_half_precision(scope):
    model = gpt2("eager")
    with eval(inline("layers=1"), {**scope, "model": model}) as maps:
        model(IDS.repeat(3, 1))
    assert [each.shape for each in maps] == [(1, 2, 6, 6)] and maps[0].dtype == torch.float16
    wanted = model(IDS, output_attentions=True).attentions[1]
    torch.testing.assert_close(maps[0].float(), wanted, atol=1e-3, rtol=0)


def test_two_of_one_shape_and_what_is_in_sight(scope):
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


def test_queries_keys_and_values_are_kept_on_request(scope):
    model = gpt2("sdpa")
    with eval(inline("qkv=True"), {**scope, "model": model}) as maps:
        model(**scope["inputs"])
    view = HeadView(maps, TOKENS)
    view.values = "values"
    wanted = maps[0][0, 0] * maps.values[0][0, 0].norm(dim=-1)
    shown = np.maximum(view.selection.weights, 0)
    np.testing.assert_allclose(shown, wanted.detach(), atol=1e-5)


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
