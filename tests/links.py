"""Find links in Markdown that lead nowhere. Only links within the repository: the tests run offline."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|<(?:img|a)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)")


def targets(text: str) -> list[str]:
    """Return where the links and pictures of a Markdown text lead, without those that leave the repository."""
    found = [first or second for first, second in LINK.findall(CODE.sub("", text))]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def broken(text: str, folder: Path) -> list[str]:
    """Return the links that do not lead to a file of the repository, seen from `folder`."""

    def resolves(target: str) -> bool:
        path = (folder / target.split("#")[0]).resolve()
        return path.exists() and path.is_relative_to(ROOT)

    return [target for target in targets(text) if not target.startswith("#") and not resolves(target)]
