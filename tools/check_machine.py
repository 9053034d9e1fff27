"""Say whether this machine has what the lessons need, and what to type where something is missing.

    python tools/check_machine.py          in a terminal
    %run ../tools/check_machine.py         in a lesson (00 does)

It looks at the Python that runs it: in a lesson the kernel's. What is needed stands in `requirements.txt`, beside the
folder in which this file lies, wherever one calls it from. Nothing is installed or changed; of the packages only torch
is loaded, to ask where it computes.
Only the standard library, and only syntax that Python 3.6 can read: what is missing, or too old, must not stop it.
Messages are plain ASCII for the same reason: they print in any terminal.
"""

import builtins
import os
import re
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # as in setup_env.py
ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^([\w.-]+)\s*==\s*([\w.!]+)", re.MULTILINE)
# What to type, with any Python and with a chosen one: Windows has no make.
SET_UP, CHOOSE = (
    ("make lab", "make lab PYTHON=python3.12")
    if os.name != "nt"
    else ("python tools/setup_env.py requirements.txt", "py -3.12 tools/setup_env.py requirements.txt")
)
PLACES = {"cpu": "the processor", "mps": "the GPU of this Mac"}


def in_a_notebook():
    return hasattr(builtins, "get_ipython")


def row(name, version, verdict):
    print(f"{name:16} {version:9} {verdict}".rstrip())


def python_is_right():
    """Print the row of this Python; say what to do where it is not one that the course runs on."""
    version, this = ".".join(map(str, sys.version_info[:3])), tuple(sys.version_info[:2])
    verdict = "too old" if this < OLDEST else "too new" if this > NEWEST else "ok"
    row("Python", version, verdict)
    if verdict == "ok":
        return True
    print(f"\nThe course needs Python 3.11, 3.12, 3.13 or 3.14; this one is {sys.executable}.")
    print(f"Install one of these beside it, then name it, in the course folder:\n    {CHOOSE}")
    print("or make the environment with it by hand, as the README says.")
    return False


def installed(package):
    """Return the version of an installed package, or None; the package itself is not loaded."""
    from importlib import metadata  # Python 3.7 has none

    try:
        version = metadata.version(package)
    except (metadata.PackageNotFoundError, KeyError):  # KeyError: what an interrupted installation left behind
        return None
    return version and version.split("+")[0]  # 2.13.0+cpu -> 2.13.0


def check_packages(wanted):
    """Print a row for each package; return the names of those that are missing, and of those of another version."""
    from importlib.util import find_spec

    missing, other = [], []
    for package, version in wanted:
        found = installed(package)
        if found is None:
            missing.append(package)
            row(package, "missing", "")
        elif found != version:
            other.append(package)
            row(package, found, "the course was run with " + version)
        else:
            row(package, found, "ok")
    own, spec = ROOT / "mhalib", find_spec("mhalib")
    if spec is None:
        missing.append("mhalib (the library of the course)")
        row("mhalib", "missing", "")
    else:
        elsewhere = own.is_dir() and own not in Path(spec.origin).resolve().parents
        row("mhalib", installed("mhalib") or "", "from another folder than this one" if elsewhere else "ok")
    return missing, other


def torch_computes():
    """Print where torch computes; return whether it starts."""
    try:
        import torch

        assert torch.ones(2, 3).sum() == 6
    except Exception as error:  # a library of the system that is missing, a build for another machine, ...
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print("\ntorch is installed and does not start: " + first)
        return False
    try:
        device = torch.accelerator.current_accelerator(check_available=True)
        kind = device.type if device else "cpu"
        assert torch.ones(2, 3, device=kind).sum() == 6
    except Exception:  # a torch that does not know this question, or a GPU that it does not know
        kind = "cpu"
    print(f"\ntorch can compute on {PLACES.get(kind, 'a GPU')} ({kind}). The lessons need no GPU, and use none.")
    return True


def main():
    """Print what is here and what is not; return 0 if the lessons can run, else 1."""
    if not python_is_right():
        return 1  # another Python has packages of its own
    requirements = ROOT / "requirements.txt"
    try:
        wanted = PIN.findall(requirements.read_text(encoding="utf-8"))
    except OSError as error:
        print(f"\n{requirements} cannot be read: {error.strerror}. Is this copy of the course complete?")
        print("Download it again, or type in its folder:\n    git checkout -- requirements.txt")
        return 1
    missing, other = check_packages(wanted)
    starts = "torch" in missing or torch_computes()
    if missing:
        python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
        print(f"\nMissing: {', '.join(missing)}\nIn a terminal, in the course folder {ROOT}, type:\n    {SET_UP}")
        print(f"or by hand:\n    {python} -m pip install -r requirements.txt")
        again = "choose Kernel > Restart Kernel and run this cell again" if in_a_notebook() else "run this once more"
        print(f"Then {again}.")
    elif starts:
        print("Everything is here." + (" Other versions than the course's may well do." if other else ""))
    else:
        print("Without torch no lesson runs. Its pages on installing say what your system lacks; or begin anew:")
        print(f"delete the folder {ROOT / '.venv'}, then type: {SET_UP}")
    return 1 if missing or not starts else 0


if __name__ == "__main__":
    status = main()
    if not in_a_notebook():
        sys.exit(status)
    globals().clear()  # %run hands all names of a script on to the notebook, where ours are nobody's business
