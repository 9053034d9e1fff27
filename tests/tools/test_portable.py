"""What other systems do otherwise, simulated here: text in another encoding, a terminal of few signs, locked files."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mhalib.experiments import sweeps

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("mhalib", "tools", ".ci") for path in (ROOT / folder).rglob("*.py")]
TEXT = {"read_text", "write_text"}
PROCESSES = {"run", "Popen", "check_output"}
NARROW = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}  # a pipe on Windows


def left_to_the_system(source: str) -> list[int]:
    """Return the lines that open a file as text, or read what a command says in our own words, in no named encoding.

    Windows would take its own there, in which each tool of ours and most of our texts cannot be read.
    """
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        modes = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        opened = isinstance(call.func, ast.Name) and name == "open" and not any("b" in mode for mode in modes[-1:])
        if (name in TEXT or opened) and "encoding" not in named and "errors" not in named:
            found.append(call.lineno)
    return found


def test_every_file_that_is_opened_as_text_names_its_encoding():
    wrong = {
        path.relative_to(ROOT).as_posix(): lines
        for path in SOURCES
        if (lines := left_to_the_system(path.read_text(encoding="utf-8")))
    }
    assert len(SOURCES) > 100 and wrong == {}, 'add encoding="utf-8"'


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("path.read_text()", [1]),
        ("x = 1\npath.write_text(text)", [2]),
        ("open(path)", [1]),
        ("open(path, 'rb')", []),
        ("path.read_text(encoding='utf-8')", []),
        ("Image.open(path)", []),
    ],
)
def test_what_is_left_to_the_system_is_found(source, lines):
    assert left_to_the_system(source) == lines


def narrow(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **NARROW}, capture_output=True, encoding="cp1252")


def test_a_tool_spells_what_a_pipe_cannot_write():
    done = narrow("-c", "import tools; print('a … −')")
    assert (done.returncode, done.stdout) == (0, "a … \\u2212\n"), done.stderr
    assert narrow("-c", "print('−')").returncode, "without the tools Python stops at it, or this test says nothing"


REPORT = """
import sys
from mhalib.doctor import __main__ as doctor

class Report:
    ok = True
    __str__ = to_markdown = lambda self: "1/√8"

doctor.examine = lambda *arguments, **options: Report()
sys.exit(doctor.main(["mhalib:MultiHeadAttention", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("options", [(), ("--markdown", "-")])
def test_the_doctor_can_be_read_from_a_pipe_of_few_signs(options):
    done = narrow("-c", REPORT, *options)
    assert (done.returncode, done.stdout) == (0, "1/\\u221a8\n"), done.stderr


class Locked:
    """os.replace as on Windows, while somebody reads the file that is to be replaced."""

    def __init__(self, after=lambda: None):
        self.after = after

    def __call__(self, source, target):
        self.after()
        raise PermissionError(13, "Access is denied", str(target))


def test_a_run_that_another_sweep_stores_and_reads_at_the_moment_is_stored(tmp_path, monkeypatch):
    store, job = sweeps._Store(tmp_path), {"arm": "a", "seed": 0}
    store.write(job, {"loss": 0.5})
    monkeypatch.setattr(sweeps.os, "replace", Locked())
    store.write(job, {"loss": 0.5})
    assert store.read(job) == {"loss": 0.5} and len(list(tmp_path.iterdir())) == 1


def test_a_run_that_cannot_be_stored_is_told(tmp_path, monkeypatch):
    store = sweeps._Store(tmp_path)
    monkeypatch.setattr(sweeps.os, "replace", Locked())
    with pytest.raises(PermissionError):
        store.write({"arm": "a", "seed": 0}, {"loss": 0.5})
    assert list(tmp_path.iterdir()) == []
