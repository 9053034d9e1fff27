"""Build the lessons as web pages whose widgets stay alive without a kernel, a server or a network.

    python -m tools.site.build [--out site] [notebooks/NN_name.ipynb …]

nbconvert turns each executed lesson into HTML; how, is said in `export.py`, and what a page looks like, in
`tools/site`. The stored notebooks hold pictures where the site has the widgets themselves, so a lesson is executed
here, once for each state of itself and of the library. At the end every link and the size of the pages are checked.
Where nothing changed since, neither here nor in the folder, nothing is built.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from bs4 import BeautifulSoup
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from mhalib.widgets.base import with_texts_once
from tools.links import fault, html, leads_away, links
from tools.make_images import IMAGES
from tools.notebooks.lessons import Lesson, introduce
from tools.notebooks.plain import for_download
from tools.notebooks.run import EXERCISE, NOTEBOOKS, ROOT
from tools.notebooks.store import NotebookError
from tools.notebooks.terms import Term, glossary, with_links
from tools.notebooks.which import chosen_by, short
from tools.pictures import hero
from tools.site import reference, slides
from tools.site.answers import cover
from tools.site.export import TEMPLATES, PageExporter, claims_in
from tools.site.live import KEPT, LIVE, all_executed
from tools.site.places import lead_links
from tools.site.questions import heading_above, questions, said
from tools.site.unchanged import remember, unchanged
from tools.site.views import share_views

BESIDE = ("GLOSSARY",)  # pages for readers: in the list below the notebooks of the appendix, and found by the search
FOR_TEACHERS = ("TEACHING", "HANDOUT", "FRONT_ENDS")  # pages too, to which the first page leads
MAX_BYTES = 15_000_000  # all pages together
WHAT = (
    "A course that builds multi-head attention step by step, from the first reshape to what trained heads do. Every "
    "claim is an experiment of seconds, every number is checked by the cell beside it."
)


# ---------------------------------------------------------------- pages


def contents_of(name: str, title: str, short: str, page: BeautifulSoup) -> list[dict]:
    """Return what the search knows of a page: its sections, their text, and by their places the covered answers.

    Args:
        name: of the page's file, without its ending.
        title: of the page.
        short: what a row of the search calls the page.
        page: the page itself.
    """

    def entry(section: str, place: str = "") -> dict:
        where = {"page": title, "short": short, "section": section, "href": f"{name}.html{place}"}
        return {**where, "text": "", "answers": []}

    entries = [entry(title)]
    for part in page.select("main .text > *"):
        text = " ".join(part.get_text().split())
        if part.name in ("h2", "h3") and part.get("id"):
            section = part.find(string=True, recursive=False) or part.get_text()
            entries.append(entry(section, f"#{part['id']}"))
        elif "answer" in part.get("class", []):
            entries[-1]["answers"].append([f"{name}.html#{part['id']}", text])
        elif part.name != "h1":
            entries[-1]["text"] += f" {text}"
    return entries


def tips(nb: NotebookNode, terms: list[Term]) -> list[Term]:
    """Return the entries of the glossary to which the texts of a page lead."""
    texts = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    led = set(re.findall(r"\]\(GLOSSARY\.md#([^)\s]+)\)", texts))
    return [term for term in terms if term.place in led]


def with_tips(text: str, shown: list[Term]) -> str:
    """Return the page with its links to these entries described by them, for `terms.js` and for screen readers."""
    known = {term.place for term in shown}

    def described(link: re.Match) -> str:
        return f'<a class="term" aria-describedby="tip-{link[2]}" {link[1]}' if link[2] in known else link.group()

    return re.sub(r'<a (href="glossary\.html#([^"]+)")', described, text)


def counted(notebooks: Iterable[NotebookNode]) -> dict[str, int]:
    """Return how many claims held and how many exercises showed their cell, by what the executed lessons put out."""
    cells = [cell for nb in notebooks for cell in nb.cells if cell.get("outputs")]
    streams = [output for cell in cells for output in cell.outputs if output.get("name") == "stdout"]
    return {
        "claims": sum(claims_in(output.text) for output in streams),
        "exercises": sum(bool(EXERCISE.fullmatch(cell.source.rpartition("\n")[2])) for cell in cells),
    }


def first_lab(notebooks: Iterable[NotebookNode]) -> str | None:
    """Return the HTML of the first `HeadLab` that a lesson shows."""
    for output in (output for nb in notebooks for cell in nb.cells for output in cell.get("outputs", [])):
        if output.get("metadata", {}).get(LIVE, {}).get("name") == "HeadLab":
            return output.data["text/html"]
    return None


def box(notebooks: dict[str, NotebookNode]) -> list[dict]:
    """Return the questions that these notebooks answer, as the box of the first page has them."""
    rows = []
    for question in questions():
        if nb := notebooks.get(question.path.stem):
            where = f"{short(question.path)} · {heading_above(nb, question)}"
            words = f"{question.asked} {where} {said(question, nb)}".lower()
            rows.append({"asked": question.asked, "href": question.href, "where": where, "words": words})
    return rows


def refuse_other_files(out: Path) -> None:
    if out.exists() and not (out / "theme.js").is_file() and any(out.iterdir()):
        sys.exit(f"{out} holds files that are no site; they would be lost, so name an empty or a new folder with --out")


def make_room(out: Path) -> None:
    """Replace an older site in the folder by what all pages share."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for part in TEMPLATES.glob("*.*s"):
        shutil.copy(part, out)  # first: by theme.js a broken-off site is known again
    shutil.copytree(IMAGES, out / "images")


def build(paths: list[Path], out: Path) -> None:
    """Write the pages and slides of these lessons into the folder."""
    refuse_other_files(out)
    notebooks = all_executed(paths)
    make_room(out)  # only now: a lesson that fails leaves the older site
    about = [introduce(nb, name) for name, nb in notebooks.items()]
    lessons = [notebook for notebook in about if isinstance(notebook, Lesson)]
    others = [notebook for notebook in about if not isinstance(notebook, Lesson)]
    beside = {name: (NOTEBOOKS / f"{name}.md").read_text(encoding="utf-8") for name in (*BESIDE, *FOR_TEACHERS)}
    titles = {name: re.match("# (.+)", source).group(1) for name, source in beside.items()}
    terms = glossary(beside["GLOSSARY"])
    pages = {name: with_links(nb, name, terms, everywhere=True) for name, nb in notebooks.items()}
    asked = {name: cover(nb) for name, nb in pages.items()}
    shared = {"lessons": lessons, "others": others, "beside": {name.lower(): titles[name] for name in BESIDE}}
    shared["beside"][reference.HOME] = reference.TITLE
    exporter = PageExporter()

    def write(nb: NotebookNode, name: str, title: str, **page) -> BeautifulSoup:
        page = {"name": name, "title": title, "is_notebook": False, "tips": tips(nb, terms), **shared, **page}
        text, _ = exporter.from_notebook_node(nb, {"page": page})
        text = with_tips(text, page["tips"])
        (out / f"{name}.html").write_text(with_texts_once(text), encoding="utf-8")
        return html(text)

    contents = []
    for (name, nb), notebook in zip(pages.items(), about, strict=True):
        around = {}
        if notebook in lessons:
            place = lessons.index(notebook)
            around["previous"], _, around["next"] = [None, *lessons, None][place : place + 3]
        page = write(nb, name, notebook.heading, is_notebook=True, questions=asked[name], **around)
        contents += contents_of(name, notebook.heading, getattr(notebook, "number", notebook.heading), page)
        (out / f"{name}.ipynb").write_text(for_download(NOTEBOOKS / f"{name}.ipynb"), encoding="utf-8")
    for name, source in beside.items():
        page = write(new_notebook(cells=[new_markdown_cell(source)]), name.lower(), titles[name])
        if name in BESIDE:
            contents += contents_of(name.lower(), titles[name], titles[name], page)
    headings = {name: notebook.heading for name, notebook in zip(notebooks, about, strict=True)}
    contents += reference.write(out, exporter.environment, notebooks, headings, shared)
    (out / "contents.js").write_text(f"const CONTENTS = {json.dumps(contents)};\n", encoding="utf-8")
    home = {"name": "index", "title": "But what does a head do?", "what": WHAT, "hero": hero.ALT, **shared}
    home |= {"lab": first_lab(notebooks.values()), "predictions": sum(map(len, asked.values()))}
    home["asked"] = box(notebooks)
    home |= counted(notebooks.values())
    template = exporter.environment.get_template("home.html.j2")
    (out / "index.html").write_text(template.render(page=home), encoding="utf-8")
    for nb in notebooks.values():
        cover(nb)
    slides.write(notebooks, out / "slides", notes="../")
    share_views(out)
    lead_links(out)


# ---------------------------------------------------------------- what must hold of the result


def faults(out: Path) -> list[str]:
    """Return what is wrong with the built pages.

    Links that lead nowhere, what is fetched from elsewhere, pictures without a description, too many bytes.
    """
    pages = {path: html(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("*.html"))}
    places = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}

    def has_place(file: Path, place: str) -> bool:
        return file not in pages or place in places[file]

    found = []
    for path, page in pages.items():
        for tag, target in links(page):
            if tag != "a" and leads_away(target) and not target.startswith("data:"):
                wrong = "is fetched from elsewhere"  # a link to elsewhere is for the reader to follow
            else:
                wrong = fault(target, path, out, has_place)
            if wrong:
                found.append(f"{path.relative_to(out)}: {target[:80]} {wrong}")
        for picture in page.find_all("img"):
            if not picture.get("alt"):
                found.append(f"{path.relative_to(out)}: a picture without a description")
    size = bytes_of(out)
    if size > MAX_BYTES:
        found.append(f"the pages together have {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f}")
    return found


def bytes_of(out: Path) -> int:
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the lessons as web pages with live widgets.")
    parser.add_argument("paths", nargs="*", help="these lessons only: files, or 05, or torch")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "site", help="the folder for the pages; an older site in it is replaced"
    )
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    paths = chosen_by(parser, options.paths, NOTEBOOKS)
    wrong = []
    if unchanged(paths, out, KEPT):
        print("nothing changed since it was built")
    else:
        try:
            build(paths, out)
        except NotebookError as error:
            sys.exit(f"a lesson cannot be executed: {error}")
        wrong = faults(out)
        if not wrong:
            remember(paths, out, KEPT)
    count, size = len(list(out.glob("*.html"))), bytes_of(out) / 1e6
    print("\n".join(wrong) or f"{count} pages, {size:.1f} MB, every link leads somewhere")
    print(f"open {(out / 'index.html').as_uri()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
