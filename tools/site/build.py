"""Build the lessons as web pages whose widgets stay alive without a kernel, a server or a network.

    python -m tools.site.build [--out site] [notebooks/NN_name.ipynb …]

nbconvert turns each executed lesson into a page and into slides; how, is said in `export.py`. The stored notebooks hold
pictures where the site has the widgets themselves, so a lesson is executed here, once for each state of itself and of
the library. Where all lessons are built, every link and the size of the pages are checked at the end.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from headview.base import as_script
from tools.links import fault, html, leads_away, links
from tools.make_images import IMAGES
from tools.notebooks.lessons import describe
from tools.notebooks.plain import for_download
from tools.notebooks.run import EXERCISE, NOTEBOOKS, ROOT
from tools.notebooks.store import NotebookError
from tools.notebooks.terms import glossary, with_links
from tools.notebooks.which import chosen_by
from tools.pictures import hero
from tools.site import real_model, reference, slides
from tools.site.answers import cover
from tools.site.export import HOLDS, TEMPLATES, Exporter, place_of
from tools.site.live import LIVE, executed
from tools.site.questions import box

BESIDE = ("GLOSSARY",)  # pages for readers: in the list below the notebooks of the appendix, and found by the search
FURTHER = ("TEACHING", "HANDOUT", "FRONT_ENDS", "YOUR_MODEL", "INSTALL", "LIVE")  # the first page leads to them
MAX_BYTES = 16_000_000  # all pages together, without the real model
PARTS = re.compile(r'^const parts = (\{"kind": .*\});$', re.MULTILINE)  # of a view, in a fragment of `page_fragment`
WHAT = (
    "A course that builds multi-head attention step by step, from the first reshape to what trained heads do. You "
    "guess, run an experiment of seconds, and see; cells beside the text check nearly every number in it."
)


class Site:
    """The folder of the pages, and what its pages share: modules and styles of their views, and what is searched.

    Raises:
        SystemExit: the folder holds files that are no site; nothing is lost.
    """

    def __init__(self, out: Path):
        if out.exists() and not (out / "theme.js").is_file() and any(out.iterdir()):
            sys.exit(f"{out} holds files that are no site; they would be lost, so name an empty folder with --out")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        for part in TEMPLATES.glob("*.*s"):
            shutil.copy(part, out)  # first: by theme.js a broken-off site is known again
        shutil.copytree(IMAGES, out / "images")
        slides.share(out / "slides")
        self.out, self.views, self.contents = out, {}, []

    def write(self, name: str, text: str) -> None:
        """Write a page; what its views need, which a page that stands alone carries, all pages find in `views.js`."""

        def lighter(found: re.Match) -> str:
            parts = json.loads(found[1])
            self.views[parts["kind"]] = {name: parts.pop(name) for name in ("source", "style")}
            return f"const parts = {as_script(parts)};"

        text, count = PARTS.subn(lighter, text)
        if count:
            script = f'<head>\n<script src="{"../" * name.count("/")}views.js"></script>'
            text = text.replace("<head>", script, 1)
        (self.out / f"{name}.html").write_text(text, encoding="utf-8")

    def find(self, name: str, title: str, short: str, text: str) -> None:
        """Let the search know a page: its sections, their text, and by their places the covered answers."""

        def begin(section: str, place: str = "") -> None:
            where = {"page": title, "short": short, "section": section, "href": f"{name}.html{place}"}
            self.contents.append({**where, "text": "", "answers": []})

        begin(title)
        for part in html(text).select("main .text > *"):
            said = " ".join(part.get_text().split())
            if part.name in ("h2", "h3"):
                begin(part.find(string=True, recursive=False) or part.get_text(), f"#{part['id']}")
            elif "answer" in part.get("class", []):
                self.contents[-1]["answers"].append([f"{name}.html#{part['id']}", said])
            elif part.name != "h1":
                self.contents[-1]["text"] += f" {said}"

    def close(self) -> None:
        (self.out / "views.js").write_text(f"window.mhalibTexts = {as_script(self.views)};\n", encoding="utf-8")
        (self.out / "contents.js").write_text(f"const CONTENTS = {json.dumps(self.contents)};\n", encoding="utf-8")


def build(paths: list[Path], out: Path) -> None:
    """Write the pages and slides of these lessons into the folder."""
    notebooks = executed(paths)
    site = Site(out)  # only now: a lesson that fails leaves the older site
    live = real_model.bring(out)
    about = {name: describe(nb, name) for name, nb in notebooks.items()}
    lessons = [notebook for notebook in about.values() if notebook.number]
    others = [notebook for notebook in about.values() if not notebook.number]
    beside = {name: (NOTEBOOKS / f"{name}.md").read_text(encoding="utf-8") for name in (*BESIDE, *FURTHER)}
    titles = {name: re.match("# (.+)", source)[1] for name, source in beside.items()}
    terms = glossary(beside["GLOSSARY"])
    listed = {name.lower(): titles[name] for name in BESIDE} | {reference.HOME: reference.TITLE}
    shared = {"lessons": lessons, "others": others, "beside": listed}
    exporter, deck = Exporter("page"), Exporter("deck")

    def page(nb: NotebookNode, name: str, title: str, **more) -> str:
        text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
        led = {place_of(place) for place in re.findall(r"\]\(GLOSSARY\.md#([^)\s]+)\)", text)}
        tips = [term for term in terms if term.place in led]
        text = exporter.render(nb, name=name, title=title, tips=tips, **shared, **more)
        site.write(name, text)
        return text

    predictions = 0
    for name, nb in notebooks.items():
        notebook = about[name]
        around = [None, *lessons, None]
        at = around.index(notebook) if notebook in lessons else 0
        linked = with_links(nb, terms)
        asked = cover(linked)
        predictions += len(asked)
        neighbours = {"previous": around[at - 1], "next": around[at + 1]} if at else {}
        text = page(linked, name, notebook.heading, is_notebook=True, questions=asked, **neighbours)
        site.find(name, notebook.heading, notebook.number or notebook.heading, text)
        (out / f"{name}.ipynb").write_text(for_download(NOTEBOOKS / f"{name}.ipynb"), encoding="utf-8")
        cover(nb)
        show = deck.render(slides.as_slides(nb), name=name, title=notebook.heading, notes="../")
        site.write(f"slides/{name}", show)
    for name, source in beside.items():
        text = page(new_notebook(cells=real_model.around(live, source)), name.lower(), titles[name])
        if name in BESIDE:
            site.find(name.lower(), titles[name], titles[name], text)
    headings = {name: notebook.heading for name, notebook in about.items()}
    site.contents += reference.write(out, exporter.environment, notebooks, headings, shared)
    home = {
        "name": "index",
        "title": "But what does a head do?",
        "what": WHAT,
        "hero": hero.ALT,
        "asked": box(notebooks),
        "live": live is not None,
    }
    home |= {"predictions": predictions, **shown_by(notebooks.values())}
    site.write("index", exporter.environment.get_template("home.html.j2").render(page=home | shared))
    site.close()


def shown_by(notebooks: Iterable[NotebookNode]) -> dict:
    """Return what the first page takes from executed lessons: the first `HeadLab`, how many claims and exercises."""
    cells = [cell for nb in notebooks for cell in nb.cells if cell.get("outputs")]
    outputs = [output for cell in cells for output in cell.outputs]
    labs = [output for output in outputs if output.get("metadata", {}).get(LIVE, {}).get("name") == "HeadLab"]
    lines = [line for output in outputs if output.get("name") == "stdout" for line in output.text.split("\n")]
    return {
        "lab": labs[0].data["text/html"] if labs else None,
        "claims": sum(line.startswith(HOLDS) for line in lines),
        "exercises": sum(bool(EXERCISE.fullmatch(cell.source.rpartition("\n")[2])) for cell in cells),
    }


def faults(out: Path) -> list[str]:
    """Return what is wrong with the built pages.

    Links that lead nowhere, what is fetched from elsewhere, pictures without a description, too many bytes.
    """
    pages = {path: html(path.read_text(encoding="utf-8")) for path in sorted(out.rglob("*.html"))}
    places = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    found = []
    for path, page in pages.items():
        for tag, target in links(page):
            if tag != "a" and leads_away(target) and not target.startswith("data:"):
                wrong = "is fetched from elsewhere"  # a link to elsewhere is for the reader to follow
            else:
                wrong = fault(target, path, out, places.get)
            found += [f"{path.relative_to(out)}: {target[:80]} {wrong}"] if wrong else []
        bare = [picture for picture in page.find_all("img") if not picture.get("alt")]
        found += [f"{path.relative_to(out)}: a picture without a description" for _ in bare]
    heavy = bytes_of(out / real_model.FOLDER)
    for what, size, most in (
        ("pages together have", bytes_of(out) - heavy, MAX_BYTES),
        ("pieces of the model have", heavy, real_model.MAX_BYTES),
    ):
        found += [f"the {what} {size / 1e6:.1f} MB, more than they may"] if size > most else []
    return found


def bytes_of(out: Path) -> int:
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the lessons as web pages with live widgets.")
    parser.add_argument("paths", nargs="*", help="these lessons only: files, or 05, or torch")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder; an older site in it is replaced")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    try:
        build(chosen_by(parser, options.paths, NOTEBOOKS), out)
    except NotebookError as error:
        sys.exit(f"a lesson cannot be executed: {error}")
    wrong = [] if options.paths else faults(out)  # of some, links to the others lead nowhere
    print("\n".join(wrong) or f"{len(list(out.glob('*.html')))} pages, {bytes_of(out) / 1e6:.1f} MB")
    print(f"open {(out / 'index.html').as_uri()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
