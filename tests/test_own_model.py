"""Models that are not ours: what the README says to do with them, on small ones with random weights."""

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
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from mhalib import MultiHeadAttention
from mhalib.heads import zero_importance
from mhalib.plots import plot_attention
from mhalib.reference import from_torch
from mhalib.widgets import HeadView

README = Path(__file__).resolve().parent.parent / "README.md"
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


def test_what_else_is_handed_over_by_mistake_is_told_too(as_shipped):
    outputs = bert("eager")(IDS)  # nobody asked for attentions
    with pytest.raises(TypeError, match="weights is None; ask for the weights: .*output_attentions=True"):
        HeadView(outputs.attentions, TOKENS)
    with pytest.raises(TypeError, match=r"the whole output of a model, BaseModelOutput\w+; give its \.attentions"):
        HeadView(bert("eager")(IDS, output_attentions=True), TOKENS)
    two = bert("eager")(IDS.repeat(2, 1), output_attentions=True).attentions
    with pytest.raises(ValueError, match=r"holds 2 samples, \(2, 4, 6, 6\), a view shows one"):
        HeadView(two, TOKENS)


def test_all_layers_of_a_generated_text_are_one_step_of_many(as_shipped):
    steps = tuple(gpt2("eager")(IDS, output_attentions=True).attentions for _ in range(2))  # as generate() has them
    with pytest.raises(TypeError, match=r"weights\[0\] is a tuple of 3, where one layer .*give weights\[0\]"):
        HeadView(steps, TOKENS)
    assert HeadView(steps[0], TOKENS).shape == [3, 2, 6, 6]


# ---------------------------------------------------------------- the lines of the README, as they are written


def test_a_model_of_hugging_face(tmp_path, monkeypatch):
    """Only the name of the model is replaced, by a folder with a small one."""
    monkeypatch.chdir(tmp_path)  # it writes a page
    code = block("AutoModel")
    words = {"[UNK]": 0, **{token: place for place, token in enumerate(TOKENS, start=1)}}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(tmp_path)
    bert("eager").save_pretrained(tmp_path)
    assert '"bert-base-uncased"' in code
    scope = {}
    exec(code.replace('"bert-base-uncased"', repr(str(tmp_path))), scope)
    assert scope["view"].shape == [2, 4, 5, 5]
    assert scope["view"].tokens == ["[UNK]", "sentence", "will", "do", "[UNK]"]
    page = (tmp_path / "heads.html").read_bytes()
    assert b"<script>" in page and page.isascii(), "whatever encoding a machine writes and a browser guesses"


def test_one_layer_of_torch():
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    scope = {"layer": layer, "x": torch.randn(2, 6, 16), "tokens": TOKENS}
    exec(block("# layer = nn.MultiheadAttention"), scope)
    assert HeadView(scope["weights"][0], TOKENS).shape == [1, 4, 6, 6]
    assert plot_attention(scope["weights"][0], TOKENS).axes


@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_of_torch_inside_a_model(batch_first):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=batch_first)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    inputs = torch.randn(*(1, 6, 16) if batch_first else (6, 1, 16))
    expected = model.eval()(inputs)
    scope = {"model": model, "inputs": inputs, "tokens": TOKENS, "nn": nn, "HeadView": HeadView}
    with torch.no_grad():  # where torch would take its fast path, which returns no weights
        exec(block("register_forward_pre_hook"), scope)
        exec(block("register_forward_pre_hook"), scope)  # a cell is run again; its hooks must not add up
    view = HeadView(scope["maps"], TOKENS, exact=True)
    assert view.shape == [3, 4, 6, 6]
    torch.testing.assert_close(model(inputs), expected)
    attention = model.layers[0].self_attn
    wanted = attention(inputs, inputs, inputs, average_attn_weights=False)[1][0, 2].detach().numpy()
    np.testing.assert_allclose(view.weights_of(0, 2), wanted, atol=1e-6)


class Fused(nn.Module):
    """Attention as nanoGPT writes it."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.num_heads = num_heads

    def forward(self, x):
        heads = [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1)]
        return self.c_proj(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(-2))


def test_a_layer_that_keeps_its_weights_to_itself_lends_them():
    layer, x = Fused(16, 4), torch.randn(1, 6, 16)
    scope = {"layer": layer, "x": x, "d_model": 16, "num_heads": 4}
    exec(block("c_proj"), scope)
    torch.testing.assert_close(scope["output"], layer(x))
    assert HeadView(scope["weights"], TOKENS).shape == [1, 4, 6, 6]


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
