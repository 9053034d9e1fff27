"""The real model of sentences: against what its reference says, where its weights may lie, and without them.

Without the weights its tests are skipped with a reason; where CI is set, that is a failure. The network is used by
none of them: the hub is played by a function.
"""

import json
import os
import re
import shutil
import socket
import sys
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import hf_hub_download

from mhalib.pretrained import WeightsMissing, bert, load_minilm
from mhalib.pretrained.__main__ import main
from mhalib.pretrained.minilm import MINILM, find
from tests.helpers.refusals import accepted

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = json.loads((ROOT / "tests" / "data" / "minilm_reference.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return find()
    except WeightsMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the weights: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def model(folder):
    return load_minilm(folder)


def test_its_embeddings_and_its_72_heads_equal_the_stored_ones_of_the_reference(model):
    wanted = torch.tensor(REFERENCE["embeddings"])
    with pytest.warns(UserWarning, match=r"1 of 8 sentences have more than 256 tokens"):
        found = model.encode(REFERENCE["sentences"])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    short = REFERENCE["sentences"][:7]
    for many in (torch.cat([model.encode([sentence]) for sentence in short]), model.encode(10 * short)[63:]):
        torch.testing.assert_close(many, found[:7], atol=1e-5, rtol=0)
    tokens, weights = model.attend(REFERENCE["looked_at"])
    assert tokens == REFERENCE["tokens"]
    wanted = torch.tensor(REFERENCE["attention"]).reshape(6, 12, len(tokens), len(tokens))
    torch.testing.assert_close(weights, wanted, atol=1e-4, rtol=0)


def test_the_lines_of_the_page_run_as_they_are_written(folder):
    text = (ROOT / "notebooks/YOUR_MODEL.md").read_text(encoding="utf-8")
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


def test_what_is_no_list_of_sentences_is_refused(model, as_shipped):
    calls = {
        "TypeError: sentences must be a list of strings, got 'the cat'": partial(model.encode, "the cat"),
        "must be a list of strings": partial(model.encode, ["the cat", 3]),
        "at least one sentence": partial(model.encode, []),
        "TypeError: sentence must be a string, got list": partial(model.attend, ["the cat"]),
    }
    assert accepted(calls) == []


@pytest.fixture
def no_weights(monkeypatch, tmp_path):
    """A machine without the weights: no package, and an empty cache of Hugging Face."""
    monkeypatch.setattr(MINILM, "package", "no_such_package")
    empty = partial(hf_hub_download, cache_dir=tmp_path / "hub", token=False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", empty)


def test_without_weights_one_sentence_says_how_to_get_them(no_weights, monkeypatch, capsys, tmp_path):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(WeightsMissing, match=r"not on this machine; .*`make weights`.*--download") as missing:
        load_minilm()
    assert isinstance(missing.value, FileNotFoundError) and "\n" not in str(missing.value)
    assert main([]) == 1
    assert capsys.readouterr().err.strip() == str(missing.value)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsMissing, match=r"no model.safetensors in .*make weights"):
        load_minilm(tmp_path)


@pytest.mark.parametrize("name", MINILM.sha256)
def test_a_file_that_is_not_the_pinned_one_is_refused_unread(folder, tmp_path, monkeypatch, name):
    for each in MINILM.sha256:
        shutil.copy(folder / each, tmp_path)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    for reader in ("read_tensors", "Tokenizer"):
        monkeypatch.setattr(bert, reader, None)  # whoever loads something of it, fails
    with pytest.raises(ValueError, match=rf"{name} is not the pinned file: expected sha256 {MINILM.sha256[name]}"):
        load_minilm(tmp_path)


def test_only_a_download_asks_the_hub_and_what_it_brings_is_verified(folder, no_weights, monkeypatch, capsys, tmp_path):
    asked = []

    def hub(repository, name, *, revision, local_files_only):
        if local_files_only and not (tmp_path / name).exists():
            raise FileNotFoundError("not in the cache")
        if not local_files_only:
            asked.append((repository, revision, name))
            shutil.copy(source / name, tmp_path)
        return str(tmp_path / name)

    source = folder
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hub)
    with pytest.raises(WeightsMissing):
        load_minilm()
    assert asked == []
    assert main(["--download"]) == 0 and "verified" in capsys.readouterr().out
    assert asked == [(MINILM.repository, MINILM.revision, name) for name in MINILM.sha256]
    assert load_minilm().encode(["From the cache."]).shape == (1, 384) and len(asked) == len(MINILM.sha256)

    source = tmp_path / "wrong"
    source.mkdir()
    for name in MINILM.sha256:
        (source / name).write_bytes(b"{}")
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
