"""How a lesson becomes a page or a set of slides: nbconvert with links, maths and templates of our own.

Maths becomes MathML here, which every browser of today draws without a script. What a page looks like is said in
`tools/site`; which pages there are, in `build.py`; which parts of it answer a prediction, in `answers.py`.
"""

import re
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote

from bs4 import BeautifulSoup
from jinja2 import pass_context
from latex2mathml.converter import convert as to_mathml
from nbconvert import TemplateExporter
from nbconvert.filters import Highlight2HTML, ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from traitlets.config import Config

import mhalib
from tools.notebooks.kinds import folded, title

TEMPLATES = Path(__file__).resolve().parent
HOLDS = "✓ "  # begins a line in which `mhalib.claims` says that a claim holds
SHOWN = ["text/html", "text/markdown", "image/png", "text/plain"]  # of an output, the first of these that it has


def as_mathml(latex: str, **options) -> str:
    """Return the formula as MathML; refuse what would come out as one line full of ampersands."""
    mathml = to_mathml(latex, **options)
    if "<mi>&</mi>" in mathml:
        raise ValueError(f"the pages cannot set this formula; write each of its lines as one of its own: {latex[:80]}")
    mathml = mathml.replace(r"\_", "_")  # of \text{head\_dim}, which comes out with its backslash
    return mathml.replace("<math ", f'<math alttext="{escape(latex)}" ', 1)


def place_of(words: str) -> str:
    """Return what the pages call a heading, by its text or by the address that JupyterLab or GitHub gives it."""
    return "-".join(re.findall(r"\w+", unquote(words).lower()))


class _Renderer(IPythonRenderer):
    """Markdown to HTML, with maths as MathML and links that hold on the site; the pages lie in `notes`, "" or "../"."""

    def __init__(self, notes: str):
        super().__init__(escape=False)
        self.notes = notes

    def inline_math(self, body):
        return as_mathml(body)

    def block_math(self, body):
        return as_mathml(body, display="block")

    def latex_environment(self, name, body):
        return as_mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", display="block")

    def heading(self, text, level, **attributes):
        # With a way to copy its address. Of a formula this has the LaTeX, as in JupyterLab.
        words = BeautifulSoup(text, "html.parser")
        for formula in words.find_all("math"):
            formula.replace_with(formula["alttext"])
        place = place_of(words.get_text())
        link = f'<a class="anchor-link" href="#{place}" aria-label="Link to this section">#</a>'
        return f'<h{level} id="{place}">{text}{link}</h{level}>\n'

    def link(self, text, url, title=None):
        if url.startswith("../"):  # the notes name files that lie in the repository only
            return text
        led = re.fullmatch(r"(?:(\w+)\.(md|ipynb))?(?:#(.*))?", url)
        if not led:
            return super().link(text, url, title)
        name, kind, place = led[1] or "", led[2], place_of(led[3] or "")
        page = f"{self.notes}{name.lower()}.html" if kind == "md" else f"{name}.html" if kind else ""
        tip = f'class="term" aria-describedby="tip-{place}" ' if page == "glossary.html" and place else ""
        return super().link(text, page + (f"#{place}" if place else ""), title).replace("<a ", f"<a {tip}", 1)

    def image(self, text, url, title=None):
        return super().image(text, url.replace("../images/", f"{self.notes}images/"), title)


def text_html(markdown: str, notes: str = "") -> str:
    """Return a text of a lesson as HTML; what `notes` is, `_Renderer` says."""
    html = MarkdownWithMath(renderer=_Renderer(notes)).render(markdown)
    # A wide table scrolls by itself instead of widening the page of a phone.
    return re.sub(r"<table>.*?</table>", lambda table: f'<div class="wide">{table.group()}</div>', html, flags=re.S)


def inline_code(text: str) -> str:
    """Return a line of plain text as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


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


class Exporter(TemplateExporter):
    """Turns notebooks into HTML by the template "page" or "deck"."""

    def __init__(self, template: str):
        config = Config(NbConvertBase={"display_data_priority": SHOWN})
        places = {"template_name": template, "extra_template_basedirs": [str(TEMPLATES)]}
        super().__init__(config=config, file_extension=".html", **places)
        filters = {"printed": printed, "inline_code": inline_code, "highlight_code": Highlight2HTML("ipython3")}
        filters["folded_title"] = lambda cell: title(cell) if folded(cell) else ""
        for name, made in (filters | {"markdown2html": self.markdown2html}).items():
            self.register_filter(name, made)
        self.environment.globals["version"] = mhalib.__version__

    @pass_context
    def markdown2html(self, context, source):
        return text_html(source, context["resources"]["page"].get("notes", ""))

    def render(self, nb, **page) -> str:
        """Return the page of a notebook of which the template is told this."""
        return self.from_notebook_node(nb, {"page": page})[0]
