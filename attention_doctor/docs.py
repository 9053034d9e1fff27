"""What the author of a layer says of its masks and positions in words: docstrings and comments.

A layer can break a promise; its behaviour alone cannot say which way round a mask was meant. Behaviour comes first all
the same: only a line that names the mask, and says plainly what a value means, counts, and never two that disagree.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import nn

_ON, _OFF = r"true|1(?:\.0)?s?|ones?|non-?zeros?", r"false|0(?:\.0)?s?|zeros?"
_HIDES = (
    r"not\s+(?:to\s+)?(?:be\s+)?(?:attend\w*|allowed|influence|seen|visible|valid|real|kept|used|look\w*)|mask(?:ed|s)?(?:\s+out)?\b|"
    r"(?<!\ba\s)(?<!new\s)(?<!same\s)(?<!each\s)block\w*|hid\w*|ignor\w*|pad\w*|exclu\w*|disallow\w*|forbid\w*|prevent\w*|invalid|drop\w*|cannot|skip\w*"
)
_SHOWS = (
    r"not\s+masked|not\s+pad\w*|not\s+hidden|(?:may|can|should|to|be|is|are)?\s*attend\w*|allow\w*|visible|keeps?|kept|"
    r"valid|real|unmasked|can\s+see|may\s+see|sees?|used?|participat\w*|take\w*\s+part|look\w*|present|"
    rf"(?:tokens?\b|words?|frames?)(?![^.;,\d\n]*\b(?:not\b|{_HIDES}))"  # else they are what is spoken of
)
_VALUE_THEN_WORD = re.compile(
    rf"(?<![\w.])(?P<value>{_ON}|{_OFF})(?![\w.]\w)[`'\")]*\s*(?:=|:|->|–|—|-|for|where|means?|marks?|indicates?|are|is|if|"
    rf"on|at|says|,)?\s*(?:\w+\s+){{0,4}}?(?:(?=not\s+(?:masked|pad|hidden))(?P<keeps>\w+)|(?P<hides>{_HIDES})|(?P<shows>{_SHOWS}))",
    re.IGNORECASE,
)
_SCORES = re.compile(r"inf\b|negative|-?1e\d|score|logit|softmax|fill", re.IGNORECASE)  # of what becomes of scores
_ADDED = re.compile(r"\badditive|mask is added|added to the (?:raw )?scores", re.IGNORECASE)
_SHAPE = re.compile(r"[(\[](?:\w+\s*,\s*)*(?:(\w+)\s*,\s*\1|\w*q\w*\s*,\s*\w*k\w*)[)\]]", re.IGNORECASE)
_BATCH = r"(?:b|bs|bsz|n_?batch\w*|batch(?:_size)?)"
_TIME = r"(?:t|l|s|n|seq\w*|time|length|tokens|\w*_len|num_(?!head|kv)\w+|fields|patches|frames|nodes|steps|points)"
_WORDS = re.compile(r"\"\"\"(.*?)\"\"\"|'''(.*?)'''|#([^\n]*(?:\n\s*#[^\n]*)*)", re.DOTALL)
_SIGNATURE = re.compile(r"def \w+\((.*?)\)\s*(?:->[^:]*)?:", re.DOTALL)


@dataclass(frozen=True)
class Docs:
    """What is written in the source of a layer: its docstrings and comments, its code, its name; what its parts say."""

    text: str
    code: str
    name: str
    parts: str = ""

    def _about(self, argument: str, alone: bool) -> list[str]:
        """Return the sentences that name an argument; those about "mask" where it is the only one."""
        lines = [line.strip() for line in self.text.splitlines()]
        helpers = rf"def \w*mask\w*\([^()]*\b{re.escape(argument)}\b[^)]*\)[^:]*:\s*\"\"\"(.*?)(?:->|\"\"\")"
        lines += [f"{argument} {' '.join(said.split())}" for said in re.findall(helpers, self.code, re.DOTALL)]
        for wanted in (rf"\b{re.escape(argument)}\b", r"\bmask" if alone else r"(?!)"):
            found = [i for i, line in enumerate(lines) if re.search(wanted, line, re.IGNORECASE)]
            if found:
                said = [" ".join(lines[i : i + 2]) for i in found]
                # Where a line says one argument after the other, "name: …", only what is said of this one.
                named = {*re.findall(r"\w+", " ".join(_SIGNATURE.findall(self.code))), argument}
                arguments = "|".join(sorted(named))
                parts = [re.split(rf"(?=(?<![\w.])(?:{arguments})\s*(?:\([^()]*\))?\s*:\s)", line) for line in said]
                own = [part for line in parts for part in line if re.match(rf"{re.escape(argument)}\b", part)]
                return own or said
        return []

    def polarity(self, argument: str, alone: bool) -> str | None:
        """Return "allowed", "blocked" or "additive", where the author says what a mask means; None elsewhere."""
        votes = set()
        for line in [said for lines in self._about(argument, alone) for said in re.split(r"(?<=[.;])\s+", lines)]:
            if _ADDED.search(line):
                votes.add("additive")
            elif not _SCORES.search(line):
                for match in _VALUE_THEN_WORD.finditer(line):
                    on = re.fullmatch(_ON, match["value"], re.IGNORECASE) is not None
                    votes.add("allowed" if on == (match["hides"] is None) else "blocked")
        return votes.pop() if len(votes) == 1 else None

    def ranks(self, argument: str) -> set[int]:
        """Return how many axes a mask has in the author's words, such as 2 for "(T, T)"."""
        after = [line[max(0, line.find("mask")) :] for line in self._about(argument, True)]
        return {match[0].count(",") + 1 for line in after for match in _SHAPE.finditer(line)}

    @property
    def batch_first(self) -> bool:
        """Whether its code or its words name the first two axes batch and time, and nowhere time and batch."""

        def said(one: str, two: str) -> bool:
            unpacked = rf"^\s*{one}\s*,\s*{two}\s*,\s*\w+\s*=\s*\w+\.(?:shape|size\(\))"
            written = rf"(?i)[(\[`]\s*{one}\s*(?:,| x )\s*{two}\b"
            return bool(re.search(unpacked, self.code, re.IGNORECASE | re.MULTILINE) or re.search(written, self.text))

        return said(_BATCH, _TIME) and not said(_TIME, _BATCH)

    @property
    def causal(self) -> bool:
        """Whether its name promises that it hides later tokens, and nothing in it switches that off."""
        return self._promised(self.name)

    @property
    def causal_in_words(self) -> bool:
        """Whether its words promise so, of all tokens, not of blocks."""
        blocks = r"(block|chunk|frame|group|scale)\w*[ _-]*causal|causal[ _-]*(block|chunk|frame|group|scale)"
        return self._promised(self.text) and not re.search(rf"{blocks}|no[nt][ -]causal", self.text, re.IGNORECASE)

    def _promised(self, text: str) -> bool:
        signatures = " ".join(_SIGNATURE.findall(self.code))
        switched = "causal" in signatures or re.search(r"\bif\b.*causal|self\.(is_)?causal\b", self.code)
        return bool(re.search(r"(?<!non)(?<!non_)(?<!not)(?<!un)(?<!a)causal", text.lower())) and not switched

    def reads(self, argument: str) -> bool:
        """Whether its code does anything with an argument; True where the code is not at hand."""
        body = _WORDS.sub("", _SIGNATURE.sub("", self.code))
        return not self.code or re.search(rf"(?<![\w.]){re.escape(argument)}\b(?!\s*[:=](?!=))", body) is not None

    def dropped(self) -> list[str]:
        """Return the calls of masked_fill whose results nobody takes; it does nothing in place."""
        lines = [node.value for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Expr)]
        calls = [line for line in lines if isinstance(line, ast.Call)]
        return [ast.unparse(call) for call in calls if getattr(call.func, "attr", "") == "masked_fill"]

    def says(self, pattern: str, within: bool = False) -> bool:
        """Whether its name, code or words match; perhaps also the code of its parts."""
        said = "\n".join((self.name, self.code, self.text, self.parts * within))
        return re.search(pattern, said, re.IGNORECASE) is not None


@lru_cache(maxsize=64)  # Python reads the whole file for each class in it
def _source_of(kind: Callable) -> str:
    try:
        return textwrap.dedent(inspect.getsource(kind)).strip()
    except (OSError, TypeError):
        return ""


def _is_code(comment: str) -> bool:
    """Whether a comment is a line of code that somebody has put out of use."""
    try:
        lines = ast.parse(comment).body
    except SyntaxError:
        return False
    calls = (part for line in lines if isinstance(line, ast.Assign | ast.Expr) for part in ast.walk(line.value))
    return any(isinstance(part, ast.Call) for part in calls)


def docs_of(target: Callable) -> Docs:
    """Return the words of a layer or a function; empty where its source is not at hand, or is torch's own."""
    function = target.forward if isinstance(target, nn.Module) else target
    function = inspect.unwrap(getattr(function, "__func__", function))
    owner = getattr(target, "__self__", target)
    kinds, name = [function], getattr(target, "__name__", type(owner).__name__)
    if not (inspect.isfunction(owner) or inspect.ismodule(owner)):
        kinds.append(type(owner))
    if isinstance(owner, nn.Module):
        name = type(owner).__name__
        if type(owner).__module__.startswith("torch."):
            return Docs("", "", name)
    code = "\n".join(_source_of(kind) for kind in kinds[::-1] if _source_of(kind))
    # What is said in one block goes on in its next line, and not in that of another block.
    blocks = (re.split(r"\n\s*#", "".join(found)) for found in _WORDS.findall(code))
    words = ["\n".join(said for line in lines if not _is_code(said := line.strip())) for lines in blocks]
    words += [inspect.getdoc(kind) or "" for kind in kinds if not _source_of(kind)]
    parts = {type(part) for part in owner.modules()} - {type(owner)} if isinstance(owner, nn.Module) else set()
    parts |= {type(held) for held in vars(owner).values() if callable(held)} if parts else set()  # such as a processor
    inside = [_source_of(kind) for kind in parts if not kind.__module__.startswith(("torch.", "builtins"))]
    return Docs("\n\n".join(dict.fromkeys(words)), code, name, "\n".join(sorted(inside)))
