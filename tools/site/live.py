"""The lessons, executed, with widgets that stay alive where no kernel runs.

The stored notebooks hold pictures in the place of widgets. Pages and slides have the widgets themselves, so they are
made from lessons that are executed here, once for each state of the lesson, the library and the packages.
"""

import base64
import copy
import functools
import hashlib
import multiprocessing
import operator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from headview.base import page_fragment
from tools.notebooks.plain import COLAB
from tools.notebooks.run import PACKAGES, ROOT, execute, read
from tools.notebooks.store import STATE, VIEW, clean, source_hash

LIVE = "mhalib_view"  # in an output's metadata: which of our widgets it shows, and of a question how many choices
KEPT = ROOT / ".site"  # executed lessons, one file each
AT_A_TIME = 2  # lessons; each wants a core, and up to a gigabyte


def executed(paths: list[Path]) -> dict[str, NotebookNode]:
    """Return the lessons with their outputs, by their names; from what was kept, where nothing changed since.

    Raises:
        NotebookError: a lesson fails. Those that were finished before are kept.
    """
    kept = {path: KEPT / f"{path.stem}.{_state_of(path)}.ipynb" for path in paths}
    # From the end: the long ones come late in the course, and short ones fill the time beside the last of them.
    missing = [path for path in reversed(paths) if not kept[path].exists()]
    if missing:  # in processes, since a kernel's environment is its parent's
        KEPT.mkdir(exist_ok=True)
        with ProcessPoolExecutor(AT_A_TIME, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_keep, missing, [kept[path] for path in missing]))
    return {path.stem: _with_own_metadata(read(kept[path]), path) for path in paths}


def _keep(path: Path, kept: Path) -> None:
    """Execute a lesson and write it where it is kept, in the place of older states of it."""
    print(f"{path.name}: executing", flush=True)
    nb = execute(path)
    make_live(nb)
    clean(nb)  # and no make_storable: what a page shows is larger than what is stored
    for old in kept.parent.glob(f"{path.stem}.*"):
        old.unlink()
    kept.write_text(nbformat.writes(nb), encoding="utf-8")


def _with_own_metadata(nb: NotebookNode, path: Path) -> NotebookNode:
    for cell, stored in zip(nb.cells, read(path).cells, strict=True):
        cell.metadata = stored.metadata  # slide types change without a reason to execute again
    nb.cells = [cell for cell in nb.cells if cell.id != COLAB]  # on a page nothing runs
    return nb


def _state_of(path: Path) -> str:
    """Return a hash of what the outputs of a lesson depend on, besides the machine."""
    files = (part for package in PACKAGES for part in (ROOT / package).rglob("*"))
    library = [part for part in files if part.is_file() and "__pycache__" not in part.parts]
    state = hashlib.sha256(source_hash(read(path)).encode())
    for part in sorted([*library, ROOT / "requirements.txt", Path(__file__)]):
        state.update(part.read_bytes())
    return state.hexdigest()[:16]


def make_live(nb: NotebookNode) -> None:
    """Put HTML that needs no kernel in the place of our widgets' views, in the state in which the lesson left them."""
    models = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for output in (output for cell in nb.cells for output in cell.get("outputs", [])):
        model = models.get(output.get("data", {}).get(VIEW, {}).get("model_id"), {})
        if model.get("model_module") != "anywidget":
            continue  # a small demonstration by ipywidgets: its picture stays
        state = copy.deepcopy(dict(model["state"]))
        for buffer in model.get("buffers", []):
            *path, last = buffer["path"]  # a trait, or places within one: ["blocks", "overview 0 0 a", "bytes"]
            functools.reduce(operator.getitem, path, state)[last] = base64.b64decode(buffer["data"])
        del output.data[VIEW]
        name = state["_anywidget_id"].rpartition(".")[2]
        fragment = page_fragment(name, state)
        beside = output.data.get("text/html")  # a question, whose choices are text as well
        output.data["text/html"] = fragment + (f"<noscript>{beside}</noscript>\n" if beside else "")
        output.metadata[LIVE] = {"name": name, "choices": len(state.get("options", ()))}
