"""How a lesson becomes a page or a set of slides: nbconvert's exporters, with links, maths and templates of our own.

Maths becomes MathML here, which every browser of today draws without a script. What a page looks like is said in
`tools/site`; which pages there are, in `build.py`; which parts of it answer a prediction, in `answers.py`.
"""

import re
from html import escape
from itertools import groupby
from pathlib import Path

from bs4 import BeautifulSoup
from jinja2 import pass_context
from latex2mathml.converter import convert as to_mathml
from nbconvert import HTMLExporter, SlidesExporter
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

import mhalib

TEMPLATES = Path(__file__).resolve().parent
PICTURES = "../images/"  # as the lessons say it
HOLDS = "✓ "  # begins a line in which `mhalib.claims` says that a claim holds


# ---------------------------------------------------------------- texts


def as_mathml(latex: str, **options) -> str:
    """Return the formula as MathML; refuse what would come out as one line full of ampersands."""
    mathml = to_mathml(latex, **options)
    if "<mi>&</mi>" in mathml:
        raise ValueError(f"the pages cannot set this formula; write each of its lines as one of its own: {latex[:80]}")
    return mathml.replace("<math ", f'<math alttext="{escape(latex)}" ', 1)


class _Renderer(IPythonRenderer):
    """Markdown to HTML, with maths as MathML and links that hold on the site.

    Args:
        notes: where the pages beside the lessons lie (`GLOSSARY.md` and its like), "" or "../"; None: nowhere.
    """

    def __init__(self, notes: str | None):
        super().__init__(escape=False)
        self.notes = notes

    def inline_math(self, body):
        return as_mathml(body)

    def block_math(self, body):
        return as_mathml(body, display="block")

    def latex_environment(self, name, body):
        return as_mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", display="block")

    def heading(self, text, level, **attributes):
        # With an id that every address can hold, and a way to copy it. Of a formula the id has the LaTeX, as the
        # address has it that JupyterLab gives.
        words = BeautifulSoup(text, "html.parser")
        for formula in words.find_all("math"):
            formula.replace_with(formula["alttext"])
        place = "-".join(re.findall(r"\w+", words.get_text().lower()))
        link = f'<a class="anchor-link" href="#{place}" aria-label="Link to this section">#</a>'
        return f'<h{level} id="{place}">{text}{link}</h{level}>\n'

    def link(self, text, url, title=None):
        if url.startswith("../"):  # the notes name files that lie in the repository only
            return text
        if note := re.match(r"([A-Z_]+)\.md", url):
            if self.notes is None:
                return text
            url = f"{self.notes}{note[1].lower()}.html{url[note.end() :]}"
        return super().link(text, re.sub(r"^(\w+)\.ipynb", r"\1.html", url), title)

    def image(self, text, url, title=None):
        return super().image(text, url.replace(PICTURES, f"{self.notes or ''}images/"), title)


def text_html(markdown: str, notes: str | None = "") -> str:
    """Return a text of a lesson as HTML; what `notes` is, `_Renderer` says."""
    html = MarkdownWithMath(renderer=_Renderer(notes)).render(markdown)
    # A wide table scrolls by itself instead of widening the page of a phone.
    return re.sub(r"<table>.*?</table>", lambda table: f'<div class="wide">{table.group()}</div>', html, flags=re.S)


def inline_code(text: str) -> str:
    """Return a line of plain text as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


# ---------------------------------------------------------------- what a cell printed


def printed(text: str) -> str:
    """Return what a cell printed as HTML: lines that say that a claim holds as a list, others as they are."""
    parts = []
    for holds, lines in groupby(text.split("\n"), lambda line: line.startswith(HOLDS)):
        if holds:
            parts.append(f'<ul class="claims" role="list">{"".join(map(_claim, lines))}</ul>')
        elif (said := "\n".join(lines)).strip():
            parts.append(f'<pre tabindex="0">{ansi2html(said)}</pre>')
    return "\n".join(parts)


def _claim(line: str) -> str:
    text, _, measured = line.removeprefix(HOLDS).rpartition(" · ")
    said = inline_code(text or measured) + (f' <span class="came">· {inline_code(measured)}</span>' if text else "")
    return f'<li><span class="tick" role="img" aria-label="claim holds">✓</span><span>{said}</span></li>'


def claims_in(text: str) -> int:
    """Count the lines that say that a claim holds."""
    return sum(line.startswith(HOLDS) for line in text.split("\n"))


# ---------------------------------------------------------------- exporters


class _OwnExporter:
    """What both exporters share."""

    def __init__(self, template: str):
        super().__init__(template_name=template, extra_template_basedirs=[str(TEMPLATES)])
        for made in (printed, inline_code):
            self.register_filter(made.__name__, made)
        self.environment.globals["version"] = mhalib.__version__

    @pass_context
    def markdown2html(self, context, source):
        return text_html(source, context["resources"].get("page", {}).get("notes", ""))


class PageExporter(_OwnExporter, HTMLExporter):
    """A lesson as a page to read."""

    def __init__(self):
        super().__init__("page")


class DeckExporter(_OwnExporter, SlidesExporter):
    """A lesson as slides."""

    def __init__(self):
        super().__init__("deck")
