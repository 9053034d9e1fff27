"""The lessons, executed, with widgets that stay alive where no kernel runs.

The stored notebooks hold pictures in the place of widgets. Pages and slides have the widgets themselves, so they are
made from lessons that are executed here, once for each state of the lesson, the library and the packages.
"""

import base64
import hashlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from mhalib.widgets.base import page_fragment
from tools.notebooks.plain import COLAB
from tools.notebooks.run import ROOT, execute, read
from tools.notebooks.store import STATE, VIEW, clean, source_hash

LIVE = "mhalib_view"  # in an output's metadata: which of our widgets it shows, and of a question how many choices
KEPT = ROOT / ".site"  # executed lessons, one file each
AT_A_TIME = 2  # lessons; each wants a core, and up to a gigabyte


def executed(path: Path) -> NotebookNode:
    """Return the lesson with its outputs, widgets as live HTML; from what was kept, where nothing changed since."""
    return all_executed([path])[path.stem]


def all_executed(paths: list[Path]) -> dict[str, NotebookNode]:
    """Return the lessons with their outputs, by their names; those that nothing was kept of run two at a time.

    Raises:
        NotebookError: a lesson fails. Those that were finished before are kept.
    """
    places = {path: KEPT / f"{path.stem}.{_state_of(path)}.ipynb" for path in paths}
    missing = [path for path in paths if not places[path].exists()]
    # From the end: the long ones come late in the course, and short ones fill the time beside the last of them.
    for path, text in _made(missing[::-1]):
        KEPT.mkdir(exist_ok=True)
        for old in KEPT.glob(f"{path.stem}.*"):
            old.unlink()
        places[path].write_text(text, encoding="utf-8")
    return {path.stem: _with_own_metadata(read(places[path]), path) for path in paths}


def _made(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each lesson, executed, as soon as it is; in processes, since a kernel's environment is its parent's."""
    if len(paths) < 2:
        yield from ((path, _make(path)) for path in paths)
        return
    with ProcessPoolExecutor(AT_A_TIME, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_make, path): path for path in paths}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _make(path: Path) -> str:
    print(f"{path.name}: executing", flush=True)
    nb = execute(path)
    make_live(nb)
    clean(nb)  # and no make_storable: what a page shows is larger than what is stored
    return nbformat.writes(nb)


def _with_own_metadata(nb: NotebookNode, path: Path) -> NotebookNode:
    for cell, stored in zip(nb.cells, read(path).cells, strict=True):
        cell.metadata = stored.metadata  # slide types change without a reason to execute again
    nb.cells = [cell for cell in nb.cells if cell.id != COLAB]  # on a page nothing runs
    return nb


def _state_of(path: Path) -> str:
    """Return a hash of what the outputs of a lesson depend on, besides the machine."""
    library = [part for part in (ROOT / "mhalib").rglob("*") if part.is_file() and "__pycache__" not in part.parts]
    state = hashlib.sha256(source_hash(read(path)).encode())
    for part in sorted([*library, ROOT / "requirements.txt", Path(__file__)]):
        state.update(part.read_bytes())
    return state.hexdigest()[:16]


def make_live(nb: NotebookNode) -> None:
    """Put HTML that needs no kernel in the place of our widgets' views, in the state in which the lesson left them."""
    models = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            model = models.get(output.get("data", {}).get(VIEW, {}).get("model_id"), {})
            if model.get("model_module") != "anywidget":
                continue  # a small demonstration by ipywidgets: its picture stays
            state = dict(model["state"])
            for buffer in model.get("buffers", []):
                state[buffer["path"][0]] = base64.b64decode(buffer["data"])
            del output.data[VIEW]
            name = state["_anywidget_id"].rpartition(".")[2]
            fragment = page_fragment(name, state)
            beside = output.data.get("text/html")  # a question, whose choices are text as well
            output.data["text/html"] = fragment + (f"<noscript>{beside}</noscript>\n" if beside else "")
            output.metadata[LIVE] = {"name": name, "choices": len(state.get("options", ()))}
