"""Make an executed notebook fit to be stored in the repository, and know one again that is stale.

Its outputs are read where nothing runs, and compared from commit to commit: so no widgets (the pictures and texts that
they held stay), nothing that names the machine, nothing that differs from run to run although the source did not
change. Executing is the business of `run.py`.
"""

import base64
import io
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from PIL import Image

from tools.notebooks.kinds import folded
from tools.notebooks.plain import code_hash, source_hash

MAX_BYTES = 300_000
CELL_METADATA = {"slideshow", "tags"}  # what a lesson says of a cell; the rest is what tools leave behind
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
BESIDE = ("image/png", "text/html")  # what our widgets show where nothing runs

_PLACES = {
    sysconfig.get_path("purelib"): "",
    str(Path(__file__).resolve().parents[2]): "",
    sys.prefix: "",
    sys.base_prefix: "<python>/",
    os.path.realpath(tempfile.gettempdir()): "<tmp>/",
    tempfile.gettempdir(): "<tmp>/",
    str(Path.home()): "~/",
}
# The file that a warning names for code in a cell. It starts at the start of a word: a search from every letter
# of a long word would take for ever.
_CELL_FILE = re.compile(r"(?<![^\s'\"])[^\s'\"]*ipykernel_\d+[/\\]\d+\.py")
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]{6,}")  # <function f at 0x7f…>
_ABSOLUTE = re.compile(
    r"(?<![\w.~>/:-])/(?:home|Users|root|tmp|var|opt|usr|etc|private|mnt|media|srv|work|workspace|content)/[^\s'\"]*"
    r"|(?<!\w)[A-Za-z]:\\\w[^\s'\"]*"
)


class NotebookError(Exception):
    """A notebook that cannot be stored, and why."""


def stale(nb: NotebookNode) -> str | None:
    """Return why the notebook has to be executed, or None."""
    stored = nb.metadata.get("mhalib", {}).get("source_sha256")
    if stored != source_hash(nb):
        return "its source changed since it was executed" if stored else "it was never executed"
    if not _ran_in_order(nb):
        return "its cells were not executed once each, from top to bottom"
    return None


def only_its_text_changed(nb: NotebookNode) -> bool:
    """Whether its outputs are still those of its code, so that it need not be executed for a better sentence."""
    return nb.metadata.get("mhalib", {}).get("code_sha256") == code_hash(nb) and _ran_in_order(nb)


def _ran_in_order(nb: NotebookNode) -> bool:
    counts = [cell.execution_count for cell in nb.cells if cell.cell_type == "code" and cell.source.strip()]
    return counts == list(range(1, len(counts) + 1))


def make_storable(nb: NotebookNode) -> NotebookNode:
    """Clean an executed notebook in place, put the hashes of its source and its code into it, and return it.

    Raises:
        NotebookError: `clean` refuses an output, or the whole is larger than `MAX_BYTES`.
    """
    clean(nb)
    nb.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "mhalib": {
                **nb.metadata.get("mhalib", {}),
                "source_sha256": source_hash(nb),
                "code_sha256": code_hash(nb),
            },
        }
    )
    nbformat.validate(nb)
    size = len(nbformat.writes(nb).encode())
    if size > MAX_BYTES:
        raise NotebookError(
            f"expected at most {MAX_BYTES // 1000} KB, got {size // 1000} KB; draw smaller or fewer pictures, "
            "print less"
        )
    return nb


def clean(nb: NotebookNode) -> None:
    """Take out in place what differs from run to run or from machine to machine, and all widgets.

    Raises:
        NotebookError: an output is an error, or names a place on this machine that has no other name.
    """
    tidy(nb)
    _without_widgets(nb)
    for number, cell in enumerate(nb.cells, 1):
        if cell.cell_type == "code":
            cell.outputs = [_scrubbed(output, f"cell {number}") for output in cell.outputs]


def tidy(nb: NotebookNode) -> bool:
    """Take out in place what tools leave in the cells' metadata, fold what is folded; return whether anything changed.

    JupyterLab 4 writes three defaults into each cell at which its property inspector looks, and "" for its slide type
    "-".
    """
    before = [dict(cell.metadata) for cell in nb.cells]
    for cell in nb.cells:
        cell.metadata = NotebookNode(
            {key: cell.metadata[key] for key in CELL_METADATA & cell.metadata.keys() if cell.metadata[key]}
        )
        if cell.metadata.get("slideshow", {}).get("slide_type") == "":
            cell.metadata.slideshow = NotebookNode(slide_type="-")
        if folded(cell):
            cell.metadata.jupyter = NotebookNode(source_hidden=True)
    return before != [dict(cell.metadata) for cell in nb.cells]


def _without_widgets(nb: NotebookNode) -> None:
    """Put in the place of each widget what stands beside it, a picture or HTML, or what its Output widgets held.

    So the picture that `interact` drew stays.
    """
    models = nb.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})

    def held(model_id: str) -> list[NotebookNode]:
        state = models.get(model_id, {}).get("state", {})
        children = [child.removeprefix("IPY_MODEL_") for child in state.get("children", [])]
        inside = [nbformat.from_dict(output) for output in state.get("outputs", [])]
        return replaced(inside) + [output for child in children for output in held(child)]

    def replaced(outputs: list[NotebookNode]) -> list[NotebookNode]:
        result = []
        for output in outputs:
            view = output.get("data", {}).pop(VIEW, None)
            if view is None or not output.data.keys().isdisjoint(BESIDE):
                result.append(output)
            else:
                result += held(view["model_id"])
        return result

    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = replaced(cell.outputs)


def _scrubbed(output: NotebookNode, where: str) -> NotebookNode:
    """Return the output without the names of this machine; refuse it where that cannot be done."""
    if output.output_type == "error":
        raise NotebookError(f"{where} shows {output.ename}: {output.evalue}; catch the error in the cell and print it")

    def scrubbed(value, key=""):
        if isinstance(value, dict):
            return NotebookNode({name: scrubbed(inner, name) for name, inner in value.items()})
        if isinstance(value, list):
            return [scrubbed(inner, key) for inner in value]
        if not isinstance(value, str):
            return value
        if key == "image/png":
            return _plain_png(value)
        return value if key.startswith("image/") and key != "image/svg+xml" else _plain_text(value, where)

    return scrubbed(output)


def _plain_text(text: str, where: str) -> str:
    text = _CELL_FILE.sub("<cell>", text)
    # Longest first: .venv lies in the repository, which may lie in the home folder. A home of "/" names nothing.
    for place in sorted((place for place in _PLACES if len(place) > 1), key=len, reverse=True):
        name = _PLACES[place]
        text = re.sub(rf"(?<![\w.]){re.escape(place)}[/\\]", lambda match, name=name: name, text)
        text = re.sub(rf"(?<![\w.]){re.escape(place)}(?![\w.-])", name.rstrip("/") or ".", text)
    text = _ADDRESS.sub("0x…", text)
    left = _ABSOLUTE.search(text)
    if left:
        raise NotebookError(f"{where} prints the absolute path {left.group()}; print a relative one, or path.name")
    return text


def _plain_png(encoded: str) -> str:
    """Return the PNG with the same pixels and without its texts, which name the version of matplotlib."""
    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    packed = io.BytesIO()
    image.save(packed, "png", optimize=True)  # PIL writes neither a text nor a date that it is not given
    return base64.b64encode(packed.getvalue()).decode()
