"""The model of sentences: against a small BERT of transformers, and the real one, with its weights or without them.

Without the weights its tests are skipped with a reason; where CI is set, that is a failure. The network is used by
none of them: the hub is played by a function.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
import torch
import torch.nn.functional as F
from huggingface_hub import hf_hub_download
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from mhalib.experiments import spearman
from mhalib.pretrained import SENTENCE_PAIRS, SentenceModel, WeightsMissing, __main__, bert, load_minilm, minilm
from mhalib.pretrained.__main__ import main
from mhalib.pretrained.bert import from_bert
from mhalib.pretrained.minilm import MINILM
from mhalib.pretrained.weights import find
from tests.helpers.refusals import accepted

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = json.loads((ROOT / "tests" / "data" / "minilm_reference.json").read_text(encoding="utf-8"))

# ------------------------------------------------------------------------------------ a small one

WORDS = {word: place for place, word in enumerate("[PAD] [UNK] [CLS] [SEP] the cat sat on a mat and slept".split())}


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(name, WORDS[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


@pytest.fixture(scope="module")
def pair():
    """A small BERT of transformers with random weights, and ours with the same."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 24, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=10, attn_implementation="eager", **sizes)
    torch.manual_seed(0)
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


def test_a_vector_is_the_mean_over_the_tokens_that_count_in_batches_without_a_trace(pair):
    model, _ = pair
    ids, lengths = model.tokenize(["the cat sat", "a"])
    assert ids.tolist() == [[2, 4, 5, 6, 3], [2, 8, 3, 0, 0]] and lengths.tolist() == [5, 3]
    found, _ = model(ids, lengths)
    wanted = torch.stack([found[0].mean(0), found[1, :3].mean(0)])
    torch.testing.assert_close(model.encode(["the cat sat", "a"]), F.normalize(wanted, dim=-1))
    sentences = ["the cat", "the cat sat on a mat", "a", "", "the mat slept"]
    together = model.encode(sentences)
    assert together.shape == (5, 24)
    torch.testing.assert_close(model.encode(sentences, batch_size=2), together)
    torch.testing.assert_close(torch.cat([model.encode([sentence]) for sentence in sentences]), together)


def test_it_shows_the_tokens_and_every_head_and_cuts_a_text_that_is_too_long(pair):
    model, _ = pair
    tokens, weights = model.attend("the cat sat on a zebra")
    assert tokens == ["[CLS]", "the", "cat", "sat", "on", "a", "[UNK]", "[SEP]"]
    assert weights.shape == (2, 4, 8, 8)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 8))
    with pytest.warns(UserWarning, match=r"1 of 2 sentences have more than 10 tokens"):
        cut = model.encode(["the cat sat on a mat and slept on a mat", "a cat"])
    torch.testing.assert_close(cut, model.encode(["the cat sat on a mat and slept", "a cat"]))


def test_what_is_no_list_of_sentences_is_refused(pair, as_shipped):
    model, _ = pair
    calls = {
        "TypeError: sentences must be a list of strings, got 'the cat'": partial(model.encode, "the cat"),
        "must be a list of strings": partial(model.encode, ["the cat", 3]),
        "at least one sentence": partial(model.encode, []),
        "batch_size must be a positive integer": partial(model.encode, ["a"], batch_size=0),
        "TypeError: sentence must be a string, got list": partial(model.attend, ["the cat"]),
        "num_layers must be a positive": partial(SentenceModel, small_tokenizer(), num_layers=0),
        "not divisible by num_heads=7": partial(SentenceModel, small_tokenizer(), num_heads=7),
    }
    assert accepted(calls) == []


# ------------------------------------------------------------------------------------ where the weights are


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return find(MINILM)
    except WeightsMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the weights: {error}")
        pytest.skip(str(error))


@pytest.fixture
def no_weights(monkeypatch, tmp_path):
    """A machine without the weights: no package, and an empty cache of Hugging Face."""
    without = replace(MINILM, package="no_such_package")
    monkeypatch.setattr(minilm, "MINILM", without)
    monkeypatch.setattr(__main__, "MODELS", (without,))
    empty = partial(hf_hub_download, cache_dir=tmp_path / "hub", token=False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", empty)


@pytest.fixture
def no_network(monkeypatch):
    """Whoever asks the network, fails."""

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_without_weights_one_sentence_says_how_to_get_them(no_weights, no_network, capsys, tmp_path):
    with pytest.raises(WeightsMissing, match=r"not on this machine; .*`make weights`.*--download") as missing:
        load_minilm()
    assert isinstance(missing.value, FileNotFoundError) and "\n" not in str(missing.value)
    assert main([]) == 1
    assert capsys.readouterr().err.strip() == str(missing.value)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsMissing, match=r"no model.safetensors in .*make weights"):
        load_minilm(tmp_path)


@pytest.mark.slow
def test_without_the_extra_one_sentence_says_what_to_install():
    for package in ("safetensors", "tokenizers"):
        code = f"import sys; sys.modules['{package}'] = None; import mhalib.pretrained.minilm"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        (last,) = done.stderr.strip().splitlines()[-1:]
        assert re.match(rf'ModuleNotFoundError: the real model needs {package}.*; .*"mhalib\[pretrained\]"$', last)


@pytest.mark.parametrize("name", MINILM.sha256)
def test_a_file_that_is_not_the_pinned_one_is_refused_unread(folder, tmp_path, monkeypatch, name):
    for each in MINILM.sha256:
        shutil.copy(folder / each, tmp_path)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)

    def never(*_):
        raise AssertionError("something of it was loaded")

    monkeypatch.setattr(bert, "read_tensors", never)
    monkeypatch.setattr(bert.Tokenizer, "from_str", never) if name == "tokenizer.json" else None
    with pytest.raises(ValueError, match=rf"{name} is not the pinned file: expected sha256 {MINILM.sha256[name]}"):
        load_minilm(tmp_path)


def test_only_a_download_asks_the_hub_and_what_it_brings_is_verified(folder, no_weights, monkeypatch, capsys, tmp_path):
    asked = []

    def hub(repository, name, *, revision, local_files_only):
        if local_files_only and not (tmp_path / name).exists():
            raise FileNotFoundError("not in the cache")
        if not local_files_only:
            asked.append((repository, revision, name))
            shutil.copy(folder / name, tmp_path)
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub)
    with pytest.raises(WeightsMissing):
        load_minilm()
    assert asked == []
    assert main(["--download"]) == 0 and "verified" in capsys.readouterr().out
    assert asked == [(MINILM.repository, MINILM.revision, name) for name in MINILM.sha256]
    assert load_minilm().encode(["From the cache."]).shape == (1, 384) and len(asked) == len(MINILM.sha256)

    folder = tmp_path / "wrong"
    folder.mkdir()
    for name in MINILM.sha256:
        (folder / name).write_bytes(b"{}")
    assert main(["--download"]) == 1
    told = capsys.readouterr().err
    assert "is not the pinned file" in told and "Delete it" in told

    def break_off(*_, **__):
        raise RuntimeError("peer closed connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", break_off)
    with pytest.raises(WeightsMissing, match=r"did not arrive \(peer closed connection\); run it again"):
        load_minilm(download=True)
    with pytest.raises(RuntimeError, match="peer closed connection"):  # nobody asked for a download: no guess
        load_minilm()


# ------------------------------------------------------------------------------------ the real one


@pytest.fixture(scope="module")
def model(folder):
    return load_minilm(folder)


def test_its_embeddings_and_its_72_heads_equal_the_stored_ones_of_the_reference(model):
    wanted = torch.tensor(REFERENCE["embeddings"])
    with pytest.warns(UserWarning, match=r"1 of 8 sentences have more than 256 tokens"):
        found = model.encode(REFERENCE["sentences"])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    torch.testing.assert_close(model.encode(REFERENCE["sentences"][:1]), wanted[:1], atol=1e-4, rtol=0)
    tokens, weights = model.attend(REFERENCE["looked_at"])
    assert tokens == REFERENCE["tokens"]
    wanted = torch.tensor(REFERENCE["attention"]).reshape(6, 12, len(tokens), len(tokens))
    torch.testing.assert_close(weights, wanted, atol=1e-4, rtol=0)


def test_similar_sentences_come_first(model):
    first, second, grades = zip(*SENTENCE_PAIRS, strict=True)
    assert {grade: grades.count(grade) for grade in grades} == {grade: 6 for grade in range(6)}
    assert len({frozenset(pair[:2]) for pair in SENTENCE_PAIRS}) == len(SENTENCE_PAIRS)
    similarity = (model.encode(first) * model.encode(second)).sum(-1)
    assert spearman(similarity, torch.tensor(grades)) > 0.85


def test_the_lines_of_the_readme_run_as_they_are_written(folder):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "load_minilm" in block]
    scope = {}
    exec(code, scope)
    assert scope["vectors"].shape == (2, 384)
    assert scope["weights"].shape == (6, 12, len(scope["tokens"]), len(scope["tokens"]))


def test_loading_leaves_no_trace_and_the_command_says_where_they_are(folder, model, capsys):
    state = torch.get_rng_state()
    assert load_minilm() is not model and torch.equal(torch.get_rng_state(), state)
    assert MINILM.package not in sys.modules, "the package carries files; its code is not run"
    assert not any(parameter.requires_grad for parameter in model.parameters()) and not model.training
    assert main([]) == 0
    assert capsys.readouterr().out == f"all-MiniLM-L6-v2 is in {folder}, verified.\n"
