"""SECURITY.md says what is so: every address, port, hash and pin that the code holds, and what it is held by."""

import json
import re
from pathlib import Path

import pytest

from mhalib.pretrained.__main__ import MODELS
from tests.tools.test_repository import files

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ADDRESS = re.compile(r"\bhttps?://((?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*\.[a-z]{2,}|127\\?\.0\\?\.0\\?\.1)", re.IGNORECASE)
# Tests and this page name addresses in order to refuse them, or to say so.
ASIDE = re.compile(r"tests/|images/|SECURITY\.md$")
LISTENS = re.compile(
    r"--ip=(\S+)|0\.0\.0\.0|\.bind\(\(|HTTPServer\(|--allow-origin|IdentityProvider\.token|--port=\$\(PORT\)"
)
CODE_IN_DATA = re.compile(
    r"^\s*(?:import|from) (?:pickle|shelve|marshal|dill|cloudpickle)\b|torch\.load\(|allow_pickle=True", re.MULTILINE
)


def texts() -> dict[str, str]:
    names = [name for name in files() if not ASIDE.search(name) and not name.endswith((".png", ".gif"))]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in names}


def sources(name: str, text: str) -> str:
    """Return what somebody wrote: of a notebook the cells, since its pictures are long random letters."""
    if not name.endswith(".ipynb"):
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def addresses() -> set[tuple[str, str]]:
    found = set()
    for name, text in texts().items():
        hosts = ADDRESS.findall(sources(name, text))
        found |= {(host.replace("\\", "").lower(), name) for host in hosts}
    return found


def test_every_address_in_the_code_stands_on_the_page_with_its_place():
    rows = re.findall(r"^\| https?://(\S+) \| `(\S+)` \|", PAGE, re.MULTILINE)
    assert len(rows) == len(set(rows)) > 5
    assert set(rows) == addresses()


def test_an_address_would_be_found():
    assert ADDRESS.findall('get("https://Cdn.example.org/x.js"), http://127\\.0\\.0\\.1:1') == [
        "Cdn.example.org",
        "127\\.0\\.0\\.1",
    ]
    assert ADDRESS.findall("https://…, https:// and f'https://{host}'") == []


def test_the_only_server_listens_on_this_machine_and_keeps_its_token():
    found = {(name, match.group()) for name, text in texts().items() for match in LISTENS.finditer(text)}
    # Servers of a class are the teacher's: what they open is said where they are set up.
    here = {(name, what) for name, what in found if not name.startswith(("notebooks/", "tools/classroom/"))}
    assert here == {("Makefile", "--ip=127.0.0.1"), ("Makefile", "--port=$(PORT)")}


def test_the_ports_of_the_page_are_those_of_the_container_and_of_jupyterlab():
    container = json.loads(re.sub(r"^//.*$", "", (ROOT / ".devcontainer/devcontainer.json").read_text(), flags=re.M))
    assert {port for port in re.findall(r"\b\d{4,5}\b", PAGE.split("## Ports")[1].split("## ")[0])} == {
        str(port) for port in container["forwardPorts"]
    }


def test_the_hashes_of_the_page_are_those_that_are_verified():
    for model in MODELS:
        assert all(f"`{value}`" in PAGE for value in (*model.sha256.values(), model.revision))
    hashed = [name for name in files() if re.fullmatch(r"requirements.*\.txt", name) and "--hash=" in texts()[name]]
    assert hashed == ["requirements-site.txt", "requirements-weights.txt"]


@pytest.mark.parametrize("name", [name for name in files() if re.fullmatch(r"requirements.*\.txt", name)])
def test_what_is_installed_is_pinned(name):
    lines = (line.partition(" #")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    loose = [line for line in lines if line and not line.startswith(("#", "-r ", "-e .")) and "==" not in line]
    assert loose == []


def test_no_code_is_read_out_of_data():
    assert [name for name, text in texts().items() if CODE_IN_DATA.search(sources(name, text))] == []
    assert CODE_IN_DATA.search("import pickle") and CODE_IN_DATA.search("x = torch.load(path)")


def test_a_container_runs_as_no_root_and_its_commands_exist():
    text = (ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8")
    container = json.loads(re.sub(r"^//.*$", "", text, flags=re.MULTILINE))
    assert container["remoteUser"] != "root" and "sudo" not in text
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{container['postCreateCommand'].removeprefix('make ')}:", makefile, re.MULTILINE)
    assert container["customizations"]["codespaces"]["openFiles"] == ["my/00_start_here.ipynb"]
    assert (ROOT / "notebooks" / "00_start_here.ipynb").is_file()
