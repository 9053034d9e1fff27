"""HeadView on models that are not ours, as Hugging Face builds them: small, with random weights, nothing fetched."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from mhalib.widgets import HeadView

README = Path(__file__).resolve().parent.parent / "README.md"
TOKENS = "any sentence will do here now".split()
IDS = torch.arange(1, 7)[None]


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


def test_the_lines_of_the_readme_run_as_they_are_written(tmp_path):
    """Only the name of the model is replaced, by a folder with a small one."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "AutoModel" in block]
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
