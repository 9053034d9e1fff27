"""What the author of a layer says of its masks and positions in words: docstrings and comments.

A layer can break a promise; its behaviour alone cannot say which way round a mask was meant. Behaviour comes first all
the same: only a line that names the mask, and says plainly what a value means, counts, and never two that disagree.
"""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import nn

_ON, _OFF = r"true|1(?:\.0)?s?|ones?|non-?zeros?", r"false|0(?:\.0)?s?|zeros?"
_HIDES = (
    r"not\s+(?:to\s+)?(?:be\s+)?(?:attend\w*|allowed|seen|visible|valid|real|kept|used|look\w*)|mask(?:ed|s)?(?:\s+out)?\b|"
    r"block\w*|hid\w*|ignor\w*|pad\w*|exclu\w*|disallow\w*|forbid\w*|prevent\w*|invalid|drop\w*|cannot|skip\w*"
)
_SHOWS = (
    r"not\s+masked|not\s+pad\w*|not\s+hidden|(?:may|can|should|to|be|is|are)?\s*attend\w*|allow\w*|visible|keeps?|kept|"
    r"valid|real|unmasked|can\s+see|may\s+see|sees?|used?|participat\w*|take\w*\s+part|tokens?\b|look\w*|present|words?|frames?"
)
_VALUE_THEN_WORD = re.compile(
    rf"(?<![\w.])(?P<value>{_ON}|{_OFF})(?![\w.]\w)[`'\")]*\s*(?:=|:|->|–|—|-|for|where|means?|marks?|indicates?|are|is|if|"
    rf"on|at|says|,)?\s*(?:\w+\s+){{0,4}}?(?:(?=not\s+(?:masked|pad|hidden))(?P<keeps>\w+)|(?P<hides>{_HIDES})|(?P<shows>{_SHOWS}))",
    re.IGNORECASE,
)
_SCORES = re.compile(
    r"inf\b|negative|-?1e\d|score|logit|softmax|fill", re.IGNORECASE
)  # speaks of what becomes of scores


@dataclass(frozen=True)
class Docs:
    """What stands in the source of a layer: its docstrings and comments, its code, its name."""

    text: str
    code: str
    name: str

    def _about(self, argument: str, alone: bool) -> list[str]:
        """Return the sentences that name an argument; those about "mask" where it is the only one."""
        lines = [line.strip() for line in self.text.splitlines()]
        for wanted in (rf"\b{re.escape(argument)}\b", r"\bmask" if alone else r"(?!)"):
            if found := [
                " ".join(lines[i : i + 2]) for i, x in enumerate(lines) if re.search(wanted, x, re.IGNORECASE)
            ]:
                return found
        return []

    def polarity(self, argument: str, alone: bool) -> str | None:
        """Return "allowed", "blocked" or "additive", where the author says what a mask means; None elsewhere."""
        votes = set()
        for line in self._about(argument, alone):
            if re.search(r"\badditive|mask is added|added to the (?:raw )?scores", line, re.IGNORECASE):
                votes.add("additive")
                continue
            if _SCORES.search(line):
                continue
            line = re.sub(r"\b(1|true)\s*/\s*(0|false)\b", r"\1", line, flags=re.IGNORECASE)  # the first is described
            line = re.sub(r"\b(0|false)\s*/\s*(1|true)\b", "", line, flags=re.IGNORECASE)
            for match in _VALUE_THEN_WORD.finditer(line):
                on = re.fullmatch(_ON, match["value"], re.IGNORECASE) is not None
                votes.add("allowed" if on == (match["hides"] is None) else "blocked")
        return votes.pop() if len(votes) == 1 else None

    def ranks(self, argument: str) -> set[int]:
        """Return how many axes a mask has in the author's words, such as 2 for "(T, T)"."""
        shapes = re.compile(r"[(\[](?:\w+\s*,\s*)*(?:(\w+)\s*,\s*\1|\w*q\w*\s*,\s*\w*k\w*)[)\]]", re.IGNORECASE)
        after = [line[max(0, line.find("mask")) :] for line in self._about(argument, True)]
        return {match[0].count(",") + 1 for line in after for match in shapes.finditer(line)}

    @property
    def first(self) -> str:
        """Return "batch" or "time" where its code or its words name the first two axes of the tokens; "" elsewhere."""
        batch, time = (
            r"(?:b|bs|bsz|n_?batch\w*|batch(?:_size)?)",
            r"(?:t|l|s|n|seq\w*|time|length|tokens|\w*_len|num_tokens)",
        )
        found = set()
        for text, one, two in ((self.code, batch, time), (self.code, time, batch)):
            unpacked = rf"^\s*{one}\s*,\s*{two}\s*,\s*\w+\s*=\s*\w+\.(?:shape|size\(\))"
            written = rf"[(\[`]\s*{one}\s*(?:,| x )\s*{two}\b"
            if re.search(unpacked, text, re.IGNORECASE | re.MULTILINE) or re.search(written, self.text, re.IGNORECASE):
                found.add("batch" if one == batch else "time")
        return found.pop() if len(found) == 1 else ""

    @property
    def causal(self) -> bool:
        """Whether its name promises that it hides later tokens, and nothing in it switches that off."""
        signatures = " ".join(re.findall(r"def \w+\((.*?)\)\s*(?:->[^:]*)?:", self.code, re.DOTALL))
        switched = "causal" in signatures or re.search(r"\bif\b.*causal|self\.(is_)?causal\b", self.code)
        return bool(re.search(r"(?<!non)(?<!non_)(?<!not)(?<!un)(?<!a)causal", self.name.lower())) and not switched

    def reads(self, argument: str) -> bool:
        """Whether its code does anything with an argument; True where the code is not at hand."""
        return (
            not self.code
            or len(re.findall(rf"(?<![\w.]){re.escape(argument)}\b(?!\s*[:=](?!=))", _code(self.code))) > 0
        )

    def says(self, pattern: str) -> bool:
        """Whether its name, code or words match."""
        return re.search(pattern, f"{self.name}\n{self.code}\n{self.text}", re.IGNORECASE) is not None


@lru_cache(maxsize=64)  # Python reads the whole file for each class in it
def _source_of(kind: Callable) -> str:
    return textwrap.dedent(inspect.getsource(kind))


def docs_of(target: Callable) -> Docs:
    """Return the words of a layer or a function; empty where its source is not at hand, or is torch's own."""
    function = target.forward if isinstance(target, nn.Module) else target
    function = inspect.unwrap(getattr(function, "__func__", function))
    owner = getattr(target, "__self__", target)
    name = type(owner).__name__ if isinstance(owner, nn.Module) else getattr(target, "__name__", type(owner).__name__)
    if isinstance(owner, nn.Module) and type(owner).__module__.startswith("torch."):
        return Docs("", "", name)
    plain = inspect.isfunction(owner) or inspect.ismodule(owner)
    texts, code = [], ""
    for kind in [function] if plain else [function, type(owner)]:
        try:
            source = _source_of(kind)
        except (OSError, TypeError):
            texts.append(inspect.getdoc(kind) or "")
            continue
        texts, code = [*texts, _prose(source)], f"{code}\n{source}" if source not in code else code
    return Docs("\n".join(texts), code, name)


def _code(source: str) -> str:
    """Return a piece of source without its signatures and its words."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    bodies = [ast.unparse(b) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for b in n.body]
    return "\n".join(body for body in bodies if not body.startswith(("'", '"')))


def _prose(source: str) -> str:
    """Return the docstrings and comments of a piece of source."""
    parts = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                parts.append(token.string.lstrip("# "))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (said := ast.get_docstring(node)):
                parts.append(said)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return ""
    return "\n".join(parts)
