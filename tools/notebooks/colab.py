"""Put the cell that sets up Google Colab into each notebook, behind its first cell; elsewhere that cell is silent.

    python -m tools.notebooks.colab

A notebook that Colab opens comes alone: the cell fetches the repository at the tag of this edition and lets
`tools/colab.py` do the rest there. Where the repository lies is said in one place, `[project.urls]` of pyproject.toml,
`Repository`; where nothing stands there, the cell asks its reader for that one line. Nothing is executed here: outside
Colab the cell puts out nothing, so all outputs stay, counted on by one.
"""

import sys
import tomllib
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

import mhalib
from tools.notebooks.kinds import HELPER
from tools.notebooks.plain import COLAB
from tools.notebooks.run import NOTEBOOKS, ROOT, read, write
from tools.notebooks.store import NotebookError, source_hash, stale
from tools.notebooks.which import notebook_files

METADATA = {"slideshow": {"slide_type": "skip"}, "tags": [HELPER], "jupyter": {"source_hidden": True}}
SOURCE = """\
# Helper: set up Google Colab; anywhere else this does nothing
import sys

if "google.colab" in sys.modules and "tools.colab" not in sys.modules:
    from subprocess import getstatusoutput

    COURSE, EDITION = {course}, "{tag}"  # the address of the course's repository, such as "https://…", and its tag
    clone = f"test -d mhalib-course || git clone -q --depth=1 -b {{EDITION}} -- '{{COURSE}}' mhalib-course"
    if (done := getstatusoutput(clone))[0]:
        raise RuntimeError(f"COURSE must be the address of the course, which has the tag {{EDITION}}: {{done[1]}}")
    sys.path.insert(0, "mhalib-course")
    __import__("tools.colab").colab.set_up()"""


def cell_source(version: str, course: str) -> str:
    """Return what the cell of an edition says."""
    return SOURCE.format(course=f'"{course}"', tag=f"v{version}")


def put(nb: NotebookNode, source: str) -> bool:
    """Put the cell into an executed notebook in place, or mend it; return whether anything changed.

    Raises:
        NotebookError: the outputs are not those of the source; then the cell must not make it look so.
    """
    here = [number for number, cell in enumerate(nb.cells) if cell.id == COLAB]
    if here == [1] and nb.cells[1].source == source and nb.cells[1].metadata == METADATA:
        return False
    if reason := stale(nb):
        raise NotebookError(f"{reason}; run `make notebooks` first")
    nb.cells = [cell for cell in nb.cells if cell.id != COLAB]
    nb.cells.insert(1, new_code_cell(source, id=COLAB, metadata=deepcopy(METADATA)))
    code = [cell for cell in nb.cells if cell.cell_type == "code" and cell.source.strip()]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    nb.metadata.mhalib.source_sha256 = source_hash(nb)
    return True


def lacks_cell(nb: NotebookNode, version: str) -> str | None:
    """Return what is wrong with the cell in a notebook of this edition, or None."""
    if len(nb.cells) < 2 or nb.cells[1].id != COLAB:
        return "its second cell is not the one for Colab"
    ours = f', "v{version}"  # the address' in nb.cells[1].source
    return None if ours else f"its cell for Colab fetches another than v{version}"


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source, failures = cell_source(mhalib.__version__, project.get("urls", {}).get("Repository", "")), 0
    for path in notebook_files(NOTEBOOKS):
        nb = read(path)
        try:
            if put(nb, source):
                write(nb, path)
                print(f"{path.name}: the cell for Colab is in")
        except NotebookError as error:
            print(f"{path.name}: {error}")
            failures = 1
    return failures


if __name__ == "__main__":
    sys.exit(main())
