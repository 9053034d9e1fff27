"""The model of sentences without its weights: against a small BERT of transformers with random ones."""

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel

from mhalib.pretrained import SentenceModel
from mhalib.pretrained.bert import from_bert
from mhalib.pretrained.minilm import MINILM

WORDS = {word: place for place, word in enumerate("[PAD] [UNK] [CLS] [SEP] the cat sat on a mat and slept".split())}


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(name, WORDS[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


@pytest.fixture
def pair():
    """A small BERT of transformers with random weights, and ours with the same."""
    sizes = {"hidden_size": 24, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=10, attn_implementation="eager", **sizes)
    theirs = BertModel(config).eval()
    for parameter in theirs.parameters():  # biases and norms start as 0 and 1, and would hide a wrong place
        torch.nn.init.normal_(parameter, std=0.3)
    ours = SentenceModel(small_tokenizer(), vocab=len(WORDS), tokens=10, d_model=24, num_heads=4, num_layers=2)
    ours.load_state_dict(from_bert(theirs.state_dict(), MINILM))
    return ours.eval(), theirs


def test_it_computes_what_the_reference_computes_layer_by_layer(pair):
    ours, theirs = pair
    tokens = torch.randint(4, len(WORDS), (3, 7))
    lengths = torch.tensor([7, 4, 2])
    counts = (torch.arange(7) < lengths[:, None]).long()
    wanted = theirs(tokens, attention_mask=counts, output_attentions=True)
    for need_weights in (False, True):
        found, maps = ours(tokens, lengths, need_weights)
        torch.testing.assert_close(found[counts.bool()], wanted.last_hidden_state[counts.bool()], atol=1e-5, rtol=0)
    for layer, weights in enumerate(maps):
        torch.testing.assert_close(weights, wanted.attentions[layer], atol=1e-5, rtol=0)


def test_sentences_are_cut_into_batches_without_a_trace(pair):
    model, _ = pair
    sentences = ["the cat", "the cat sat on a mat", "a", "", "the mat slept"]
    together = model.encode(sentences)
    assert together.shape == (5, 24)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(5))
    torch.testing.assert_close(model.encode(sentences, batch_size=2), together)
    torch.testing.assert_close(torch.cat([model.encode([sentence]) for sentence in sentences]), together)


def test_one_vector_is_the_mean_over_the_tokens_that_count(pair):
    model, _ = pair
    ids, lengths = model.tokenize(["the cat sat", "a"])
    assert ids.tolist() == [[2, 4, 5, 6, 3], [2, 8, 3, 0, 0]] and lengths.tolist() == [5, 3]
    found, _ = model(ids, lengths)
    wanted = torch.stack([found[0].mean(0), found[1, :3].mean(0)])
    torch.testing.assert_close(model.encode(["the cat sat", "a"]), F.normalize(wanted, dim=-1))


def test_it_shows_the_tokens_and_every_head(pair):
    model, _ = pair
    tokens, weights = model.attend("the cat sat on a zebra")
    assert tokens == ["[CLS]", "the", "cat", "sat", "on", "a", "[UNK]", "[SEP]"]
    assert weights.shape == (2, 4, 8, 8)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 8))


def test_a_text_that_is_too_long_is_cut_and_says_so(pair):
    model, _ = pair
    with pytest.warns(UserWarning, match=r"1 of 2 sentences have more than 10 tokens"):
        cut = model.encode(["the cat sat on a mat and slept on a mat", "a cat"])
    torch.testing.assert_close(cut, model.encode(["the cat sat on a mat and slept", "a cat"]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda model: model.encode("the cat"), TypeError, "must be a list of strings, got 'the cat'"),
        (lambda model: model.encode(["the cat", 3]), TypeError, "must be a list of strings"),
        (lambda model: model.encode([]), ValueError, "at least one sentence"),
        (lambda model: model.encode(["a"], batch_size=0), ValueError, "batch_size must be a positive integer"),
        (lambda model: model.attend(["the cat"]), TypeError, "sentence must be a string, got list"),
        (lambda model: SentenceModel(small_tokenizer(), num_layers=0), ValueError, "num_layers must be a positive"),
        (lambda model: SentenceModel(small_tokenizer(), num_heads=7), ValueError, "not divisible by num_heads=7"),
    ],
)
def test_bad_input_is_refused(pair, as_shipped, call, error, text):
    with pytest.raises(error, match=text):
        call(pair[0])
