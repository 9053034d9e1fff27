"""Whether a site is still what would be built: then `make site` has nothing to do.

Told by contents, not by dates: of all that a page may depend on, and of the pages themselves, which may have been
changed or lost since.
"""

import hashlib
import json
import platform
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from tools.notebooks.run import ROOT

FOLDERS = ("images", "mhalib", "notebooks", "tools")
PASSING = ("__pycache__", ".ipynb_checkpoints")


def sources(root: Path = ROOT) -> Iterable[Path]:
    """Yield the files that a page may depend on: the course's folders, and what lies beside them."""
    yield from (path for path in root.iterdir() if path.is_file())
    for folder in FOLDERS:
        yield from (path for path in (root / folder).rglob("*") if path.is_file() and not set(path.parts) & {*PASSING})


def contents(paths: Iterable[Path], root: Path) -> dict[str, str]:
    """Return a hash of each file, by its place below `root`."""
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def state(chosen: Iterable[Path], out: Path, root: Path = ROOT) -> dict:
    """Return what the pages of the chosen lessons are made of, and the pages as they lie in `out`."""
    return {
        "python": platform.python_version(),
        "packages": sorted({f"{one.name} {one.version}" for one in distributions()}),
        "lessons": [path.name for path in chosen],
        "made of": contents(sources(root), root),
        "pages": contents((path for path in out.rglob("*") if path.is_file()), out),
    }


def unchanged(chosen: list[Path], out: Path, kept: Path) -> bool:
    """Return whether the site in `out` was built of these lessons as all is now; `remember` has noted it in `kept`."""
    note = _note(out, kept)
    return note.exists() and json.loads(note.read_text(encoding="utf-8")) == state(chosen, out)


def remember(chosen: list[Path], out: Path, kept: Path) -> None:
    kept.mkdir(exist_ok=True)
    _note(out, kept).write_text(json.dumps(state(chosen, out)), encoding="utf-8")


def _note(out: Path, kept: Path) -> Path:
    return kept / f"built.{hashlib.sha256(str(out).encode()).hexdigest()[:16]}.json"
