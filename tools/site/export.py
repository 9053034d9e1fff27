"""How a lesson becomes a page or a set of slides: nbconvert's exporters, with links, maths and templates of our own.

Maths becomes MathML here, which every browser of today draws without a script. What a page looks like is said in
`tools/site`; which pages there are, in `build.py`.
"""

import re
from pathlib import Path

from bs4 import BeautifulSoup
from jinja2 import pass_context
from latex2mathml.converter import convert as to_mathml
from nbconvert import HTMLExporter, SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

TEMPLATES = Path(__file__).resolve().parent
PICTURES = "../images/"  # as the lessons say it


def as_mathml(latex: str, **options) -> str:
    """Return the formula as MathML; refuse what would come out as one line full of ampersands."""
    mathml = to_mathml(latex, **options)
    if "<mi>&</mi>" in mathml:
        raise ValueError(f"the pages cannot set this formula; write each of its lines as one of its own: {latex[:80]}")
    return mathml


class _Renderer(IPythonRenderer):
    """Markdown to HTML, with maths as MathML and links that hold on the site."""

    def inline_math(self, body):
        return as_mathml(body)

    def block_math(self, body):
        return as_mathml(body, display="block")

    def latex_environment(self, name, body):
        return as_mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", display="block")

    def heading(self, text, level, **attributes):
        # With an id that every address can hold, and a way to copy it.
        place = "-".join(re.findall(r"\w+", BeautifulSoup(text, "html.parser").get_text().lower()))
        link = f'<a class="anchor-link" href="#{place}" aria-label="Link to this section">#</a>'
        return f'<h{level} id="{place}">{text}{link}</h{level}>\n'

    def link(self, text, url, title=None):
        if url.startswith("../"):  # the notes name files that lie in the repository only
            return text
        url = re.sub(r"^(TEACHING|HANDOUT)\.md", lambda page: f"{page[1].lower()}.html", url)
        return super().link(text, re.sub(r"^(\d\d_\w+)\.ipynb", r"\1.html", url), title)

    def image(self, text, url, title=None):
        return super().image(text, url.replace(PICTURES, "images/"), title)


class _OwnMarkdown:
    """What both exporters share."""

    @pass_context
    def markdown2html(self, context, source):
        html = MarkdownWithMath(renderer=_Renderer(escape=False)).render(source)
        # A wide table scrolls by itself instead of widening the page of a phone.
        return re.sub(r"<table>.*?</table>", lambda table: f'<div class="wide">{table.group()}</div>', html, flags=re.S)


class PageExporter(_OwnMarkdown, HTMLExporter):
    """A lesson as a page to read."""

    def __init__(self, **options):
        super().__init__(template_name="page", extra_template_basedirs=[str(TEMPLATES)], **options)


class DeckExporter(_OwnMarkdown, SlidesExporter):
    """A lesson as slides."""

    def __init__(self, **options):
        super().__init__(template_name="deck", extra_template_basedirs=[str(TEMPLATES)], **options)
