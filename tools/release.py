"""Look whether this state of the repository can be released, and build what a release consists of into `dist/`.

    python -m tools.release [--check]

All that is wrong is said at once. Wheel and source are built from what git holds, by flit, twice, and must be the same
to the bit. Nothing is uploaded and no tag is set: at the end stands what to type. The bill of materials beside them is
the business of `licences.py`.
"""

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from tools.notebooks.colab import lacks_cell
from tools.notebooks.run import read
from tools.notebooks.store import stale
from tools.notebooks.which import notebook_files

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r'^__version__ = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
EDITION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
SHOWN = re.compile(r"mhalib +(\d+\.\d+\.\d+)")  # in the list of packages that lesson 00 prints
BUILD = "import sys; from flit_core import buildapi as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, encoding="utf-8")
    return done.stdout.strip()


def version_of(root: Path) -> str:
    """Return the version, from the one place where it stands.

    Raises:
        ValueError: it does not stand there as three numbers.
    """
    found = VERSION.search((root / "mhalib" / "__init__.py").read_text(encoding="utf-8"))
    if not found:
        raise ValueError('mhalib/__init__.py must say __version__ = "1.2.3", three numbers')
    return found[1]


# ------------------------------------------------------------------------------------------ what must be so


def tree(root: Path) -> list[str]:
    changed = git(root, "status", "--porcelain").splitlines()
    return [f"{len(changed)} files differ from what git holds, {changed[0]!r} first; commit them"] if changed else []


def tag(root: Path) -> list[str]:
    version, numbers = version_of(root), lambda name: tuple(map(int, name.split(".")))
    known = [name[1:] for name in git(root, "tag", "--list", "v*").split() if re.fullmatch(r"v\d+\.\d+\.\d+", name)]
    if version in known:
        return [f"the tag v{version} is there already; give mhalib/__init__.py the next version"]
    newer = [name for name in known if numbers(name) > numbers(version)]
    return [f"expected a version above {max(known, key=numbers)}, got {version}"] if newer else []


def changes(root: Path) -> list[str]:
    """Say what the changelog lacks: the version on top, with its date, and nothing left over it."""
    text, version = (root / "CHANGELOG.md").read_text(encoding="utf-8"), version_of(root)
    editions = list(EDITION.finditer(text))
    if not editions or editions[0]["name"] != "Unreleased":
        return ["CHANGELOG.md must open with the section ## [Unreleased]"]
    if len(editions) < 2 or editions[1]["name"] != version:
        return [f"CHANGELOG.md must say below Unreleased what is new, under ## [{version}] - YYYY-MM-DD"]
    found = []
    if text[editions[0].end() : editions[1].start()].strip():
        found.append(f"CHANGELOG.md still holds something under Unreleased; move it to [{version}]")
    try:
        date = datetime.date.fromisoformat(editions[1]["date"] or "")
    except ValueError:
        return [*found, f"CHANGELOG.md must give [{version}] its date, as 2026-11-23; it says {editions[1]['date']}"]
    if date > datetime.datetime.now(datetime.UTC).date():
        found.append(f"CHANGELOG.md dates [{version}] on {date}, which is still to come")
    return found


def citation(root: Path) -> list[str]:
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    dated = {
        each["name"]: each["date"] for each in EDITION.finditer((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    }
    version = version_of(root)
    wanted = {"version": version, "date-released": dated.get(version)}
    return [
        f"CITATION.cff says {name}: {cited.get(name)}, expected {value}"
        for name, value in wanted.items()
        if str(cited.get(name)) != value
    ]


def lessons(root: Path) -> list[str]:
    """Say which notebooks do not belong to this state: stale, without Colab's cell, naming another version."""
    found, version = [], version_of(root)
    for path in notebook_files(root / "notebooks"):
        nb = read(path)
        if reason := stale(nb):
            found.append(f"{path.name}: {reason}; run `make notebooks`")
        if reason := lacks_cell(nb, version):
            found.append(f"{path.name}: {reason}; run `python -m tools.notebooks.colab`")
        printed = "".join(output.get("text", "") for cell in nb.cells for output in cell.get("outputs", []))
        if named := set(SHOWN.findall(printed)) - {version}:
            found.append(f"{path.name} shows mhalib {', '.join(named)}, expected {version}; execute it again")
    return found


def readme(root: Path) -> list[str]:
    named = set(re.findall(r"mhalib-(\d+\.\d+\.\d+)-py3", (root / "README.md").read_text(encoding="utf-8")))
    version = version_of(root)
    return [f"README.md names the wheel of {', '.join(named)}, expected {version}"] if named != {version} else []


CHECKS: tuple[Callable[[Path], list[str]], ...] = (tree, tag, changes, citation, readme, lessons)


# ------------------------------------------------------------------------------------------ what is built


def build(root: Path, out: Path) -> list[Path]:
    """Build wheel and source of what git holds into `out`, and return them.

    They carry the time of the commit, so that the same commit gives the same files wherever it is built.
    """
    environ = {
        **os.environ,
        "SOURCE_DATE_EPOCH": git(root, "log", "-1", "--format=%ct"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryDirectory(prefix="mhalib-") as folder:
        source = Path(folder, "source")
        archive = Path(folder, "source.tar")
        git(root, "archive", "--format=tar", f"--output={archive}", "HEAD")
        with tarfile.open(archive) as held:
            held.extractall(source, filter="data")
        out.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-c", BUILD, str(out.resolve())], cwd=source, env=environ, check=True)
    return sorted(path for path in out.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def digests(files: list[Path]) -> str:
    """Return a line for each file, in the form that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def release(root: Path) -> list[Path]:
    """Build everything into `dist/`, which holds nothing else afterwards.

    Raises:
        ValueError: a second build gives other files.
        CalledProcessError: twine, or the check of licences, refuses; it has said why.
    """
    out = root / "dist"
    shutil.rmtree(out, ignore_errors=True)
    files = build(root, out)
    with tempfile.TemporaryDirectory(prefix="mhalib-") as again:
        if digests(files) != digests(build(root, Path(again))):
            raise ValueError(
                "expected two builds of one commit to be the same, they differ; see tools/release.py, build"
            )
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)
    bill = out / f"mhalib-{version_of(root)}.cdx.json"
    subprocess.run([sys.executable, "-m", "tools.licences", "--out", str(bill)], cwd=root, check=True)
    files.append(bill)
    (out / "SHA256SUMS").write_text(digests(files), encoding="utf-8", newline="\n")
    return files


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Check whether this state can be released, and build it into dist/.")
    parser.add_argument("--check", action="store_true", help="build nothing, only say what is wrong")
    options = parser.parse_args(arguments)
    wrong = [line for check in CHECKS for line in check(root)]
    for line in wrong:
        print(f"- {line}")
    if wrong:
        print(f"Not released: {len(wrong)} to mend. Nothing was built.")
        return 1
    name = f"v{version_of(root)}"
    if options.check:
        print(f"{name} can be released: python -m tools.release")
        return 0
    for path in release(root):
        print(f"dist/{path.name}  {path.stat().st_size / 1000:.0f} KB")
    print(f"\nBuilt; nothing was uploaded. Once `make test` has passed on this commit:\n  git tag -a {name} -m {name}")
    print(f"  git push origin {name}\nthen hand out what lies in dist/, with SHA256SUMS.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
