"""Make `.venv` and install into it what the given requirement files name.

    python tools/setup_env.py requirements.txt [--torch-index URL]

`make lab` and `make test` call this; where there is no make, type it. venv and pip do the work: they come with Python,
and pip follows the settings of the machine (a proxy, a mirror, wheels on a disk), which uv does not read. Here stands
what they do not do: refuse a Python out of range, know a complete environment by its stamp without starting pip, take
torch from another index, keep JupyterLab offline, and say in words what went wrong.
Only the standard library, and only syntax that Python 3.6 can read: an old Python must be able to say what
is wrong. Messages are plain ASCII for the same reason: they must print in any terminal.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)
VERSION = "{}.{}".format(*sys.version_info)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "installed.json"
DISK_NEEDED = 2.0  # GB for torch without CUDA and all the rest, with what pip unpacks on the way
PROBE = "import sys, pip; print('{}.{}'.format(*sys.version_info))"
# What to type to choose a Python.
OTHER = "make lab PYTHON=python3.12" if os.name != "nt" else "py -3.12 tools/setup_env.py requirements.txt"
# What pip says, and what it means and asks for.
WORDS = (
    (
        r"No space left on device|Errno 28\b|Errno 122\b|Disk quota exceeded|not enough space on the disk",
        "The disk is full: .venv, or the folder for temporary files, {tmp}.\nFree some space, {again}",
    ),
    (
        r"after connection broken by|Failed to establish a new connection|Max retries exceeded|NewConnectionError|"
        r"name resolution|getaddrinfo failed|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|Connection refused|"
        r"ConnectionResetError|Network is unreachable|CERTIFICATE_VERIFY_FAILED",
        "The network is gone, or a proxy or firewall blocks it: pip could not reach its index.\nMend that, {again}",
    ),
    (
        r"No matching distribution found for (\S+)",
        "There is no {0} for Python {version} on this machine ({machine}).\n"
        "Name another Python, {other}, or take a machine that torch supports.",
    ),
    ("", "The installation failed. The lines below say why. Mend that, {again}"),
)


def fail(message):
    """End with a message and status 1."""
    sys.exit("\n" + message)


def check_python(version):
    """End with a clear word when this Python cannot run the course."""
    if not OLDEST <= version[:2] <= NEWEST:
        fail(
            f"Python {'.'.join(map(str, version[:3]))} is too {'old' if version[:2] < OLDEST else 'new'}: this course "
            f"needs Python 3.11 to 3.14 (found at {sys.executable}).\nInstall one beside it, then name it: {OTHER}"
        )


def with_nested(names):
    """Return the paths of the requirement files, together with those that they take in by `-r` or `-c`."""
    paths = []
    for path in (ROOT / name for name in names):
        if not path.is_file():
            fail(f"expected the requirement file {path}, found none; is this copy of the repository complete?")
        paths += [path] + with_nested(re.findall(r"^-[rc]\s+(\S+)", path.read_text(encoding="utf-8"), re.M))
    return paths


def fingerprints(paths):
    """Return for each requirement file a hash of all that decides what pip would do with it."""
    project = ROOT / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    # What stands under [tool.*] is for ruff and pytest. ROOT counts: the editable install points to it.
    around = [text.split("[tool.")[0], VERSION, str(ROOT)]
    hashed = ((path.name, json.dumps([path.read_text(encoding="utf-8")] + around)) for path in paths)
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in hashed}


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
    try:
        if subprocess.check_output([str(PYTHON), "-c", PROBE], stderr=subprocess.DEVNULL).decode().strip() == VERSION:
            return
    except (OSError, subprocess.CalledProcessError):
        pass  # none there, or a broken one
    # Inside a virtual environment (the old .venv, say) the Python underneath makes the new one.
    python = getattr(sys, "_base_executable", None) or sys.executable
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        fail(
            f"Python {VERSION} at {python} comes without the modules venv and ensurepip.\nInstall them "
            f"(Debian and Ubuntu: the package python{VERSION}-venv), or name another Python: {OTHER}"
        )
    print(f"Creating .venv with Python {VERSION} ({python})", flush=True)
    run([python, "-m", "venv", "--clear", str(VENV)], stdout=subprocess.DEVNULL)


def run(command, **options):
    """Run venv or pip, which show what they do; end with one clear sentence when it fails."""
    environ = dict(os.environ, PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    environ.pop("PYTHONPATH", None)  # packages found there would count as installed
    options.update(cwd=str(ROOT), env=environ, stderr=subprocess.PIPE, universal_newlines=True, errors="replace")
    process, lines = subprocess.Popen(command, **options), []
    for line in process.stderr:
        lines.append(line)
        if "Retrying (" in line:
            print("The network does not answer, trying again", flush=True)
    if process.wait():
        fail(explain("".join(lines)))


def pip_install(*arguments):
    run([str(PYTHON), "-m", "pip", "install", "--no-input", "--no-compile"] + list(arguments))


def compile_all():
    """Compile what was installed on all cores, where pip uses one; but not the tests of packages, nor all models."""
    left_out = r"[/\\](tests?|transformers[/\\]models)[/\\]"  # a third of it
    command = [str(PYTHON), "-m", "compileall", "-qq", "-j", "0", "-x", left_out, str(VENV)]
    subprocess.call(command)  # a file for another Python cannot be compiled, and nobody imports it


def explain(output):
    """Return what to tell about a failure: one sentence, what to do, and the last lines of the output."""
    found, text = next((found, text) for said, text in WORDS for found in [re.search(said, output)] if found)
    facts = {"tmp": tempfile.gettempdir(), "version": VERSION, "machine": platform.platform(), "other": OTHER}
    again = "then run the same command again: it goes on where it stopped."
    tail = "\n".join("    " + line[:300] for line in output.splitlines()[-8:])
    return text.format(*found.groups(), again=again, **facts) + "\n\nThe last lines were:\n" + tail


def stay_offline():
    """Let the JupyterLab of .venv neither ask for news nor fetch any: a lesson needs no network."""
    settings = VENV / "etc" / "jupyter" / "labconfig" / "page_config.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    settings.write_text(json.dumps(off, indent=1), encoding="utf-8")


def main(arguments=None):
    check_python(sys.version_info)
    parser = argparse.ArgumentParser(description="Make .venv and install what the requirement files name.")
    parser.add_argument("files", nargs="+", help="requirement files, relative to the repository")
    parser.add_argument("--torch-index", default="", help="take the pinned torch from this index")
    options = parser.parse_args(arguments)
    paths = with_nested(options.files)
    wanted = fingerprints(paths)
    if PYTHON.exists() and wanted.items() <= stamped().items():
        if options.torch_index:
            print("torch is installed already; to take it from another index, delete .venv first.")
        return
    torch = re.search(r"^torch==\S+", "\n".join(path.read_text(encoding="utf-8") for path in paths), re.M)
    if torch and not any(any(VENV.glob(lib + "/site-packages/torch")) for lib in ("lib/python*", "Lib")):
        check_disk()
    make_venv()
    print("Installing " + ", ".join(options.files) + " into .venv (the first time: some minutes)", flush=True)
    if torch and options.torch_index:
        # Without its dependencies, which that index need not have; the next step brings them.
        pip_install("--no-deps", "--index-url", options.torch_index, torch.group())
    for name in options.files:
        # A package that is pinned by its hash comes alone: pip would want a hash of all that it asks for as well.
        hashed = "--hash=" in (ROOT / name).read_text(encoding="utf-8")
        pip_install(*(["--no-deps", "--require-hashes"] if hashed else []), "-r", name)
    compile_all()
    stay_offline()
    STAMP.write_text(json.dumps({**stamped(), **wanted}, indent=1), encoding="utf-8")
    print("Installed.")


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):  # a path may hold what a terminal cannot write; Python 3.6 has no such word
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        main()
    except KeyboardInterrupt:
        fail("Interrupted. Run the same command again: it goes on where it stopped.")
