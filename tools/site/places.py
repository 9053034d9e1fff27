"""Lead links to the headings that they mean, whatever these are called where the link was written.

JupyterLab and GitHub make the address of a heading in ways of their own, which differ in case and signs only:
`#Why-divide-by-√head_dim?` and `#why-divide-by-head_dim` are one place. Links that lead nowhere are left as they are,
for `build.faults` to find.
"""

import os
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

HEADING = re.compile(r'<h[1-6] id="([^"]+)"')
LINK = re.compile(r'href="([^"#:]*)#([^"]+)"')  # to a place, and on no other host


def lead_links(folder: Path) -> None:
    """Let the links of all pages in the folder name headings as the pages do."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    places = {}
    for path, html in pages.items():
        ids = HEADING.findall(html)
        places[path] = {_letters(place): place for place in reversed(ids)}  # of two that are alike, the first
    for path, html in pages.items():

        def led(link: re.Match, path: Path = path) -> str:
            page = Path(os.path.normpath(path.parent / link[1])) if link[1] else path
            if page not in pages or f' id="{link[2]}"' in pages[page]:
                return link.group()
            return f'href="{link[1]}#{places[page].get(_letters(unescape(unquote(link[2]))), link[2])}"'

        changed = LINK.sub(led, html)
        if changed != html:
            path.write_text(changed, encoding="utf-8")


def _letters(place: str) -> str:
    return re.sub(r"[\W_]+", "", place).lower()
