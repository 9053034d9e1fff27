"""Make `.venv` and install into it what the given requirement files name.

    python tools/setup_env.py requirements.txt [--torch-index URL]

`make lab` and `make test` call this. A complete environment is known by its stamp and left alone without
starting pip; an interrupted one is completed. What to install stands in the requirement files, not here.
Only the standard library, and only syntax that Python 3.6 can read: an old Python must be able to say what
is wrong. Messages are plain ASCII for the same reason: they must print in any terminal.
"""

import argparse
import hashlib
import json
import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)
VERSION = "{}.{}".format(*sys.version_info)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "installed.json"
DISK_NEEDED = 2.0  # GB for torch without CUDA and all the rest, with what pip unpacks on the way
CALM = 10  # seconds without news after which the last line of pip is shown
LARGE = 5  # MB from which a download is worth a line of its own

DISK_FULL = re.compile(
    r"No space left on device|Errno 28\b|Errno 122\b|Disk quota exceeded|not enough space on the disk"
)
NO_NETWORK = re.compile(
    r"after connection broken by|Failed to establish a new connection|Max retries exceeded|NewConnectionError|"
    r"name resolution|getaddrinfo failed|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|Connection refused|"
    r"ConnectionResetError|Network is unreachable|CERTIFICATE_VERIFY_FAILED"
)
NO_VERSION = re.compile(r"No matching distribution found for (\S+)")


def fail(message):
    """End with a message and status 1."""
    sys.exit("\n" + message)


def say(message):
    print(message, flush=True)


def check_python(version):
    """End with a clear word when this Python cannot run the course."""
    name = "Python " + ".".join(map(str, version[:3]))
    if version[:2] < OLDEST or version[:2] > NEWEST:
        fail(
            f"{name} is too {'old' if version[:2] < OLDEST else 'new'}: this course needs Python 3.11 to 3.14 "
            f"(found at {sys.executable}).\nInstall one of these beside it, then name it: make lab PYTHON=python3.12"
        )


def with_nested(names):
    """Return the paths of the requirement files, together with those that they take in by `-r`."""
    paths = []
    for name in names:
        path = ROOT / name
        if not path.is_file():
            fail(f"expected the requirement file {path}, found none; is this copy of the repository complete?")
        paths += [path] + with_nested(re.findall(r"^-r\s+(\S+)", path.read_text(encoding="utf-8"), re.M))
    return paths


def fingerprints(paths):
    """Return for each requirement file a hash of all that decides what pip would do with it."""
    project = ROOT / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    # What stands under [tool.*] is for ruff and pytest. ROOT counts: the editable install points to it.
    around = [text.split("[tool.")[0], VERSION, str(ROOT)]
    return {
        path.name: hashlib.sha256(json.dumps([path.read_text(encoding="utf-8")] + around).encode()).hexdigest()
        for path in paths
    }


def stamped():
    """Return the fingerprints of what was installed completely."""
    try:
        return json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def check_disk():
    free = shutil.disk_usage(str(ROOT)).free / 1e9
    if free < DISK_NEEDED:
        fail(
            f"The disk is full: {free:.1f} GB are free at {ROOT}, the packages need about {DISK_NEEDED:.0f} GB.\n"
            "Free some space, then run the same command again."
        )


def make_venv():
    """Create .venv, or keep the one that is there when it works and has the version of this Python."""
    probe = "import sys, pip; print('{}.{}'.format(*sys.version_info))"
    try:
        if subprocess.check_output([str(PYTHON), "-c", probe], stderr=subprocess.DEVNULL).decode().strip() == VERSION:
            return
    except (OSError, subprocess.CalledProcessError):
        pass  # none there, or a broken one
    # Inside a virtual environment (the old .venv, say) the Python underneath makes the new one.
    python = getattr(sys, "_base_executable", None) or sys.executable
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        fail(
            f"Python {VERSION} at {python} comes without the modules venv and ensurepip.\n"
            f"Install them (Debian and Ubuntu: the package python{VERSION}-venv), or name another Python: "
            "make lab PYTHON=python3.12"
        )
    say(f"Creating .venv with Python {VERSION} ({python})")
    command = [python, "-m", "venv", "--clear", str(VENV)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        fail(explain(done.stdout))


def pip_install(*arguments):
    """Run pip, show calmly what it does, end with one clear sentence when it fails."""
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", "--progress-bar", "off"] + list(arguments)
    environ = dict(os.environ, PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONUNBUFFERED="1")
    environ.pop("PYTHONPATH", None)  # packages found there would count as installed
    process = subprocess.Popen(
        command,
        cwd=str(ROOT),
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    news = queue.Queue()

    def read():
        for line in process.stdout:
            news.put(line.strip())
        news.put(None)

    threading.Thread(target=read, daemon=True).start()
    lines, doing = [], "starting pip"
    start = shown = time.monotonic()
    while True:
        try:
            line = news.get(timeout=CALM)
        except queue.Empty:
            line = ""
        if line is None:
            break
        if line:
            lines.append(line)
        step, at_once = understand(line)
        doing = step or doing
        if at_once or time.monotonic() - shown > CALM:
            say(f"  {time.monotonic() - start:3.0f} s  {doing}")
            shown = time.monotonic()
    if process.wait():
        fail(explain("\n".join(lines)))


def stay_offline():
    """Let the JupyterLab of .venv neither ask for news nor fetch any: a lesson needs no network."""
    settings = VENV / "etc" / "jupyter" / "labconfig" / "page_config.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    settings.write_text(json.dumps(off, indent=1), encoding="utf-8")


def understand(line):
    """Return what a line of pip says that it is doing, or None; and whether to show it at once."""
    download = re.match(r"Downloading (\S+?)-(\d\S*?)-\S+ \(([\d.]+) (kB|MB|GB)\)", line)
    if download:
        name, version, size, unit = download.groups()
        return f"downloading {name} {version} ({size} {unit})", unit == "GB" or unit == "MB" and float(size) >= LARGE
    if line.startswith("Installing collected packages"):
        return f"installing {line.count(',') + 1} packages", True
    if "Retrying (" in line:
        return "the network does not answer, trying again", True
    if line.startswith("Collecting"):
        return "looking up " + line.split()[1], False
    return None, False


def explain(output):
    """Return what to tell about a failure: one sentence, what to do, and the last lines of the output."""
    tail = "\n".join("    " + line[:300] for line in output.splitlines()[-8:])
    again = "then run the same command again: it goes on where it stopped."
    missing = NO_VERSION.search(output)
    if DISK_FULL.search(output):
        text = (
            f"The disk is full: .venv, or the folder for temporary files, {tempfile.gettempdir()}.\nFree some space, "
        )
    elif NO_NETWORK.search(output):
        text = "The network is gone, or a proxy or firewall blocks it: pip could not reach its index.\nMend that, "
    elif missing:
        text = f"There is no {missing.group(1)} for Python {VERSION} on this machine ({platform.platform()}).\n"
        text += "Name another Python, make lab PYTHON=python3.12, "
        again = "or take a machine that torch supports."
    else:
        text = "The installation failed. The lines below say why. Mend that, "
    return f"{text}{again}\n\nThe last lines were:\n{tail}"


def main(arguments=None):
    check_python(sys.version_info)
    parser = argparse.ArgumentParser(description="Make .venv and install what the requirement files name.")
    parser.add_argument("files", nargs="+", help="requirement files, relative to the repository")
    parser.add_argument("--torch-index", default="", help="take the pinned torch from this index")
    options = parser.parse_args(arguments)
    paths = with_nested(options.files)
    wanted = fingerprints(paths)
    before = stamped()
    if PYTHON.exists() and wanted.items() <= before.items():
        if options.torch_index:
            say("torch is installed already; to take it from another index, delete .venv first.")
        return
    torch = re.search(r"^torch==\S+", "\n".join(path.read_text(encoding="utf-8") for path in paths), re.M)
    has_torch = any(VENV.glob("lib/python*/site-packages/torch")) or (VENV / "Lib/site-packages/torch").exists()
    if torch and not has_torch:
        check_disk()
    make_venv()
    say("Installing " + ", ".join(options.files) + " into .venv (the first time: some minutes)")
    if torch and options.torch_index:
        # Without its dependencies, which that index need not have; the next step brings them.
        pip_install("--no-deps", "--index-url", options.torch_index, torch.group())
    for name in options.files:
        # A package that is pinned by its hash comes alone: pip would want a hash of all that it asks for as well.
        hashed = "--hash=" in (ROOT / name).read_text(encoding="utf-8")
        pip_install(*(["--no-deps", "--require-hashes"] if hashed else []), "-r", name)
    stay_offline()
    STAMP.write_text(json.dumps({**stamped(), **wanted}, indent=1), encoding="utf-8")
    say("Installed.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("Interrupted. Run the same command again: it goes on where it stopped.")
