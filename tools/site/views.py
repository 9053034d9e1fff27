"""Let all pages of a site load the modules of their views from one file, in place of carrying them each.

A page that stands alone carries what its views need. A site shows the same few kinds of views on every page, and in the
slides once more; there the modules and styles lie in `views.js`, which fills the place in which `static_host.js` looks
for them.
"""

import json
import os
import re
from pathlib import Path

from mhalib.widgets.base import as_script

PARTS = re.compile(r'^const parts = (\{"kind": .*\});$', re.MULTILINE)
NAME = "views.js"


def share_views(out: Path) -> None:
    """Move modules and styles of all views out of the pages in the folder, into one file that these load first."""
    texts = {}
    for path in sorted(out.rglob("*.html")):
        page = path.read_text(encoding="utf-8")

        def lighter(found: re.Match) -> str:
            parts = json.loads(found[1])
            texts.setdefault(parts["kind"], {}).update({n: parts.pop(n) for n in ("source", "style") if n in parts})
            return f"const parts = {as_script(parts)};"

        lightened, views = PARTS.subn(lighter, page)
        if views:
            beside = os.path.relpath(out / NAME, path.parent).replace(os.sep, "/")
            head = f'<head>\n<script src="{beside}"></script>'
            path.write_text(lightened.replace("<head>", head, 1), encoding="utf-8")
    (out / NAME).write_text(f"window.mhalibTexts = {as_script(texts)};\n", encoding="utf-8")
