"""What the cell for Google Colab calls, once the repository is there: install what is missing, and nothing else.

Colab has its own torch, for its GPU, and hundreds of packages around it, some of them loaded already. None of these is
touched: pip may add, held to the version of everything that is there, so that nothing has to be restarted. `mhalib` is
not installed, but found by its path. Only the standard library, and `packaging`, on which pip's own world stands.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("headview", "pretrained", "training")
FURTHER = ("einops", "ipywidgets", "pandas")  # what lessons import besides
ALONE = ("d2l==0.17.0",)  # asks for all of Jupyter, of which the lessons need nothing


def installed() -> dict[str, str]:
    """Return name and version of each package that is there; what has no version in the usual form is left out."""
    found = {}
    for each in distributions():
        name, version = each.metadata["Name"], each.version
        try:
            found.setdefault(canonicalize_name(name), str(Version(version)))  # the first is the one that is imported
        except (InvalidVersion, TypeError):
            continue
    return found


def wanted(root: Path = ROOT) -> list[Requirement]:
    """Return what the lessons need, in the ranges of the package, not in the pins of the course."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    return [Requirement(line) for line in (*project["dependencies"], *extras, *FURTHER)]


def sorted_out(needs: list[Requirement], there: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return what has to be installed, and in words what is there in a version that the course does not know."""
    missing, other = {}, []
    for need in needs:
        version = there.get(canonicalize_name(need.name))
        if version is None:
            missing[need.name] = str(need)
        elif not need.specifier.contains(version, prereleases=True):
            other.append(f"{need.name} is {version} here and stays so; the course was made for {need.specifier}")
    return list(missing.values()), other


def pip(*arguments: str) -> None:
    """Run pip."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise RuntimeError(f"pip could not add what the course needs and Colab lacks; nothing was changed.\n{last}")


def set_up(root: Path = ROOT) -> None:
    """Add what is missing, and go to where the notebooks find their pictures and tools."""
    there = installed()
    missing, other = sorted_out(wanted(root), there)
    alone = [line for line in ALONE if canonicalize_name(Requirement(line).name) not in there]
    if missing:
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder, "held.txt")
            held.write_text("".join(f"{name}=={version}\n" for name, version in there.items()), encoding="utf-8")
            pip("--constraint", str(held), *missing)
    if alone:
        pip("--no-deps", *alone)
    importlib.invalidate_caches()
    sys.path.insert(0, str(root))  # wherever the notebook goes from here
    os.chdir(root / "notebooks")
    added = ", ".join([*missing, *alone]) or "nothing"
    print(f"The course is there; added: {added}. torch is {there.get('torch')}, as it was.")
    for line in other:
        print(line)
