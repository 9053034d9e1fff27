"""The page with the real model: its weights in 8 bits as scripts, made once for each state of them and of the view."""

import hashlib
import shutil
from importlib.metadata import distribution, version
from pathlib import Path

from nbformat.v4 import new_markdown_cell

from headview.live_model.pack import as_script, packed
from headview.live_model.widget import LiveModel
from mhalib.pretrained import WeightsMissing, load_minilm
from mhalib.pretrained.minilm import MINILM
from tools.notebooks.run import ROOT
from tools.site import live

FOLDER = "live"  # beside the pages
MAX_BYTES = 24_000_000
PLACE = "<!-- the view -->"  # in the text of the page
MISSING = (
    '<p class="output"><b>Not on this site.</b> The weights were not on the machine that built it: <code>make weights'
    "</code> fetches them, <code>make site</code> builds the pages again.</p>\n"
)
NOTICE = f"""{MINILM.name}, {MINILM.repository}, revision {MINILM.revision} of the hub of Hugging Face.
Licensed under the Apache License, Version 2.0; see LICENSE.txt.
Changed: the weights are rounded to 8 bits, and written as scripts with the words of the tokenizer.
"""


def bring(out: Path) -> str | None:
    """Put the pieces of the model into the site; return the view of it as HTML, or None where there are no weights."""
    kept = live.KEPT / f"{FOLDER}.{_state()}"
    if not (kept / "view.html").exists():  # written last
        try:
            model = load_minilm()
        except WeightsMissing as error:
            print(f"the site has no page with the real model: {error}")
            return None
        for old in live.KEPT.glob(f"{FOLDER}.*"):
            shutil.rmtree(old)
        _make(model, kept)
    shutil.copytree(kept, out / FOLDER, ignore=shutil.ignore_patterns("view.html"))
    return (kept / "view.html").read_text(encoding="utf-8")


def around(view: str | None, source: str) -> list:
    """Return a text as cells of a page, with the view where the text leaves room for it."""
    first, *rest = [new_markdown_cell(part) for part in source.split(PLACE)]
    return [first, new_markdown_cell("", metadata={"site": {"html": view or MISSING}}), *rest] if rest else [first]


def _make(model, folder: Path) -> None:
    folder.mkdir(parents=True)
    pieces = packed(model)
    for number in range(len(pieces)):
        (folder / f"{number:02}.js").write_bytes(as_script(pieces, number))
    carried = distribution("sphinx-revealjs").files or ()  # under the same licence, whose text it brings along
    shutil.copy(next(path for path in carried if path.name == "LICENSE").locate(), folder / "LICENSE.txt")
    (folder / "NOTICE.txt").write_text(NOTICE, encoding="utf-8")
    (folder / "view.html").write_text(LiveModel(model).to_html(), encoding="utf-8")


def _state() -> str:
    """Return a hash of all that the pieces and the view depend on."""
    state = hashlib.sha256("".join([*MINILM.sha256.values(), version("tokenizers")]).encode())
    for files in ("base.py", "static_host.js", "static/live_model.*", "live_model/*.py"):
        for path in sorted((ROOT / "headview").glob(files)):
            state.update(path.read_bytes())
    return state.hexdigest()[:16]
