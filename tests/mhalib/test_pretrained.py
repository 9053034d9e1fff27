"""The real model, in both worlds: with its weights, and on a machine that does not have them.

Without the weights its tests are skipped with a reason; where CI is set, that is a failure. The network is used by
none of them: the hub is played by a server of this machine.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import hf_hub_download

from mhalib.experiments import spearman
from mhalib.pretrained import SENTENCE_PAIRS, WeightsMissing, __main__, bert, load_minilm, minilm
from mhalib.pretrained.__main__ import main
from mhalib.pretrained.minilm import MINILM
from mhalib.pretrained.weights import find

REFERENCE = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "minilm_reference.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return find(MINILM)
    except WeightsMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the weights: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def model(folder):
    return load_minilm(folder)


@pytest.fixture
def no_weights(monkeypatch, tmp_path):
    """A machine without the weights: no package, and an empty cache of Hugging Face."""
    without = replace(MINILM, package="no_such_package")
    monkeypatch.setattr(minilm, "MINILM", without)
    monkeypatch.setattr(__main__, "MODELS", (without,))
    empty = functools.partial(hf_hub_download, cache_dir=tmp_path / "hub", token=False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", empty)


@pytest.fixture
def no_network(monkeypatch):
    """Whoever asks the network, fails."""

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# ------------------------------------------------------------------------------------ where the weights are


def test_without_weights_one_sentence_says_how_to_get_them(no_weights, no_network, capsys):
    with pytest.raises(WeightsMissing, match=r"not on this machine; .*`make weights`.*--download") as missing:
        load_minilm()
    assert isinstance(missing.value, FileNotFoundError) and "\n" not in str(missing.value)
    assert main([]) == 1
    assert capsys.readouterr().err.strip() == str(missing.value)


@pytest.mark.parametrize("package", ["safetensors", "tokenizers"])
def test_without_the_extra_one_sentence_says_what_to_install(package):
    code = f"import sys; sys.modules['{package}'] = None; import mhalib.pretrained.minilm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    (last,) = done.stderr.strip().splitlines()[-1:]
    assert re.match(rf'ModuleNotFoundError: the real model needs {package}.*; .*"mhalib\[pretrained\]"$', last)


def test_a_folder_without_them_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsMissing, match=r"no model.safetensors in .*make weights"):
        load_minilm(tmp_path)


@pytest.mark.parametrize("name", MINILM.sha256)
@pytest.mark.parametrize("damage", ["a flipped bit", "a missing end"])
def test_a_file_that_is_not_the_pinned_one_is_refused(folder, tmp_path, monkeypatch, name, damage):
    for each in MINILM.sha256:
        shutil.copy(folder / each, tmp_path)
    content = bytearray((folder / name).read_bytes())
    if damage == "a flipped bit":
        content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content if damage == "a flipped bit" else content[:-1])

    def never(*_):
        raise AssertionError("something of it was loaded")

    monkeypatch.setattr(bert, "read_tensors", never)
    monkeypatch.setattr(bert.Tokenizer, "from_str", never) if name == "tokenizer.json" else None
    with pytest.raises(
        ValueError, match=rf"{name} is not the pinned file: expected sha256 {MINILM.sha256[name]}, got "
    ):
        load_minilm(tmp_path)


class Hub(BaseHTTPRequestHandler):
    """A hub of Hugging Face that has two files, and breaks off in the middle as often as `breaks` says."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool):
        repository, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        if (repository, revision) != (MINILM.repository, MINILM.revision) or name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", revision)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if not body:
            return
        end = len(content)
        if name == "model.safetensors":
            self.server.starts.append(start)
            if self.server.breaks:
                self.server.breaks -= 1
                end = start + (len(content) - start) // 2
                self.close_connection = True
        self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(no_weights, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.breaks, server.starts = {}, 0, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ours = functools.partial(huggingface_hub.hf_hub_download, endpoint=f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", ours)
    monkeypatch.setenv("NO_PROXY", "*")
    yield server
    server.shutdown()
    server.server_close()


def test_a_lost_connection_is_taken_up_where_it_broke_and_the_files_are_then_used_offline(folder, hub, request, capsys):
    hub.files = {name: (folder / name).read_bytes() for name in MINILM.sha256}
    hub.breaks = 1
    with pytest.raises(WeightsMissing):
        load_minilm()
    assert hub.starts == [], "without download=True nobody is asked"

    assert main(["--download"]) == 0
    assert "verified" in capsys.readouterr().out
    assert hub.starts[0] == 0 and 0 < hub.starts[1] < len(hub.files["model.safetensors"])

    request.getfixturevalue("no_network")
    assert load_minilm().encode(["From the cache."]).shape == (1, 384)
    assert main(["--download"]) == 0, "what is there is not fetched again"


def test_a_hub_out_of_reach_is_told_in_one_sentence(no_weights, monkeypatch):
    monkeypatch.setattr(
        huggingface_hub.constants, "HF_HUB_OFFLINE", True
    )  # without it, the hub's client tries for 20 seconds
    with pytest.raises(WeightsMissing, match="did not arrive .*; run it again when the network is back"):
        load_minilm(download=True)


def test_whatever_breaks_on_the_way_is_told_so_too(no_weights, monkeypatch):
    def break_off(*_, **__):
        raise RuntimeError("peer closed connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", break_off)
    with pytest.raises(WeightsMissing, match=r"did not arrive \(peer closed connection\); run it again"):
        load_minilm(download=True)
    with pytest.raises(RuntimeError, match="peer closed connection"):  # nobody asked for a download: no guess
        load_minilm()


def test_a_wrong_file_from_the_hub_is_refused(hub, capsys):
    hub.files = {"model.safetensors": b"something else", "tokenizer.json": b"{}"}
    assert main(["--download"]) == 1
    told = capsys.readouterr().err
    assert "is not the pinned file" in told and "Delete it" in told


# ------------------------------------------------------------------------------------ with the weights


def test_its_embeddings_equal_the_stored_ones_of_the_reference(model):
    wanted = torch.tensor(REFERENCE["embeddings"])
    with pytest.warns(UserWarning, match=r"1 of 8 sentences have more than 256 tokens"):
        found = model.encode(REFERENCE["sentences"])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    for sentence, row in zip(REFERENCE["sentences"][:7], wanted, strict=False):
        torch.testing.assert_close(model.encode([sentence])[0], row, atol=1e-4, rtol=0)


def test_its_72_heads_equal_the_stored_ones_of_the_reference(model):
    tokens, weights = model.attend(REFERENCE["looked_at"])
    assert tokens == REFERENCE["tokens"]
    wanted = torch.tensor(REFERENCE["attention"]).reshape(6, 12, len(tokens), len(tokens))
    torch.testing.assert_close(weights, wanted, atol=1e-4, rtol=0)


def test_similar_sentences_come_first(model):
    guitar, music, fell, lost, cat = model.encode(REFERENCE["sentences"][:5])
    assert guitar @ music > 0.5 > max(guitar @ fell, guitar @ cat)
    assert fell @ lost > 0.5 > max(fell @ music, fell @ cat)
    first, second, grades = zip(*SENTENCE_PAIRS, strict=True)
    similarity = (model.encode(first) * model.encode(second)).sum(-1)
    assert spearman(similarity, torch.tensor(grades)) > 0.85


def test_the_lines_of_the_readme_run_as_they_are_written(folder):
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "load_minilm" in block]
    scope = {}
    exec(code, scope)
    assert scope["vectors"].shape == (2, 384)
    assert scope["weights"].shape == (6, 12, len(scope["tokens"]), len(scope["tokens"]))


def test_loading_leaves_no_trace(folder):
    state = torch.get_rng_state()
    model = load_minilm()
    assert torch.equal(torch.get_rng_state(), state)
    assert MINILM.package not in sys.modules, "the package carries files; its code is not run"
    assert not any(parameter.requires_grad for parameter in model.parameters()) and not model.training
    assert sum(parameter.numel() for parameter in model.parameters()) == 22_565_376


def test_the_command_says_where_they_are(folder, capsys):
    assert main([]) == 0
    assert capsys.readouterr().out == f"all-MiniLM-L6-v2 is in {folder}, verified.\n"
