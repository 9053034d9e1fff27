"""Build the lessons as web pages whose widgets stay alive without a kernel, a server or a network.

    python -m tools.site.build [--out site] [notebooks/NN_name.ipynb …]

nbconvert turns each executed lesson into HTML; how, is said in `export.py`, and what a page looks like, in
`tools/site`. The stored notebooks hold pictures where the site has the widgets themselves, so a lesson is executed
here, once for each state of itself and of the library. At the end every link and the size of the pages are checked.
"""

import argparse
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.notebooks.run import NOTEBOOKS
from tools.notebooks.store import NotebookError
from tools.site import slides
from tools.site.export import TEMPLATES, PageExporter
from tools.site.live import executed

ROOT = Path(__file__).resolve().parents[2]
NOTES = ("TEACHING", "HANDOUT")  # pages too, but no lessons: not in the list, and not found by the search
MAX_BYTES = 15_000_000  # all pages together
WHAT = (
    "A course that builds multi-head attention step by step, from the first reshape to what trained heads do. Every "
    "claim is an experiment of seconds, every number is checked by the cell beside it."
)


@dataclass
class Lesson:
    """What the pages say of a lesson."""

    name: str
    title: str
    question: str
    nb: NotebookNode


# ---------------------------------------------------------------- pages


def describe(path: Path) -> Lesson:
    nb = executed(path)
    first = nb.cells[0].source
    title = re.match(r"# (.+)", first).group(1)
    question = re.search(r"\*Question: (.+?)\*", first, re.S).group(1)
    return Lesson(path.stem, title, question, nb)


def contents_of(lesson: Lesson, page: BeautifulSoup) -> list[dict[str, str]]:
    """Return what the search knows of a page: its sections and their text."""
    entries = [{"lesson": lesson.title, "section": lesson.title, "href": f"{lesson.name}.html", "text": ""}]
    for part in page.select("main .text > *"):
        if part.name in ("h2", "h3") and part.get("id"):
            href = f"{lesson.name}.html#{part['id']}"
            entries.append(
                {
                    "lesson": lesson.title,
                    "section": part.find(string=True, recursive=False) or part.get_text(),
                    "href": href,
                    "text": "",
                }
            )
        elif part.name != "h1":
            entries[-1]["text"] += " " + " ".join(part.get_text().split())
    return entries


def build(paths: list[Path], out: Path) -> None:
    if out.exists() and not (out / "theme.js").is_file() and any(out.iterdir()):
        sys.exit(f"{out} holds files that are no site; they would be lost, so name an empty or a new folder with --out")
    lessons = [describe(path) for path in paths]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for part in TEMPLATES.glob("*.*s"):
        shutil.copy(part, out)  # first: by theme.js a broken-off site is known again
    exporter = PageExporter()
    contents = []
    for number, lesson in enumerate(lessons):
        before = lessons[number - 1] if number else None
        after = lessons[number + 1] if number + 1 < len(lessons) else None
        page = {"name": lesson.name, "title": lesson.title, "lessons": lessons, "previous": before, "next": after}
        page["is_lesson"] = True
        html, _ = exporter.from_notebook_node(lesson.nb, {"page": page})
        contents += contents_of(lesson, BeautifulSoup(html, "html.parser"))
        (out / f"{lesson.name}.html").write_text(html, encoding="utf-8")
        shutil.copy(NOTEBOOKS / f"{lesson.name}.ipynb", out)
    for name in NOTES:
        source = (NOTEBOOKS / f"{name}.md").read_text(encoding="utf-8")
        page = {
            "name": name.lower(),
            "title": re.match("# (.+)", source).group(1),
            "lessons": lessons,
            "is_lesson": False,
        }
        html, _ = exporter.from_notebook_node(new_notebook(cells=[new_markdown_cell(source)]), {"page": page})
        (out / f"{name.lower()}.html").write_text(html, encoding="utf-8")
    hero = re.search(r"!\[([^\]]+)\]\(images/hero.png\)", (ROOT / "README.md").read_text(encoding="utf-8")).group(1)
    home = {"name": "index", "title": "But what does a head do?", "what": WHAT, "hero": hero, "lessons": lessons}
    template = exporter.environment.get_template("home.html.j2")
    (out / "index.html").write_text(template.render(page=home), encoding="utf-8")
    (out / "contents.js").write_text(f"const CONTENTS = {json.dumps(contents)};\n", encoding="utf-8")
    shutil.copytree(ROOT / "images", out / "images")
    slides.write(paths, out / "slides")


# ---------------------------------------------------------------- what must hold of the result


def faults(out: Path) -> list[str]:
    """Return what is wrong with the built pages: links that lead nowhere, what is fetched from elsewhere, too many bytes."""
    pages = {
        path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in sorted(out.rglob("*.html"))
    }
    found = []
    for path, page in pages.items():
        where = path.relative_to(out)
        for tag, attribute in (("a", "href"), ("img", "src"), ("script", "src"), ("link", "href")):
            for target in (node[attribute] for node in page.find_all(tag, **{attribute: True})):
                parts = urlsplit(target)
                if parts.scheme in ("data", "mailto"):
                    continue
                if parts.scheme or parts.netloc:
                    if tag != "a":  # a link to elsewhere is for the reader to follow; nothing else may leave the site
                        found.append(f"{where}: fetches {target[:80]}")
                    continue
                file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                if not file.is_file():
                    found.append(f"{where}: {target[:80]} leads to no file")
                elif parts.fragment and file in pages and not pages[file].find(id=unquote(parts.fragment)):
                    found.append(f"{where}: {target[:80]} leads to no place in its page")
        found += [
            f"{where}: a picture without a description" for picture in page.find_all("img") if not picture.get("alt")
        ]
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        found.append(f"the pages together have {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f}")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the lessons as web pages with live widgets.")
    parser.add_argument("paths", nargs="*", type=Path, help="these lessons only")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "site", help="the folder for the pages; an older site in it is replaced"
    )
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    try:
        build([path.resolve() for path in options.paths] or sorted(NOTEBOOKS.glob("*.ipynb")), out)
    except NotebookError as error:
        sys.exit(f"a lesson cannot be executed: {error}")
    wrong = faults(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print("\n".join(wrong) or f"{len(list(out.glob('*.html')))} pages, {size / 1e6:.1f} MB, every link leads somewhere")
    print(f"open {(out / 'index.html').as_uri()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
