"""What the author of a layer says of it in words: docstrings, comments, and the names of the axes that come in.

Words are a promise that a layer can break; its behaviour alone cannot say whether a mask is read the wrong way round.
Only what is said plainly, and never two ways, counts.
"""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from torch import nn

_BATCH = r"(?:b|bs|bsz|batch|batch_size|nbatches|n_batch|batches|num_batch|batch_sz)"
_TIME = r"(?:t|l|s|n|time|seq_len|seq|seqlen|tgt_len|q_len|length|tokens|src_len|sequence|tlen|time1|num_tokens|len)"
_SHAPE = re.compile(rf"[(\[`]\s*({_BATCH}|{_TIME})\s*(?:,| x )\s*(\w+)\b", re.IGNORECASE)
_CROSSED = re.compile(rf"\b({_BATCH}|{_TIME})\s+x\s+({_BATCH}|{_TIME})\s+x\s+\w+", re.IGNORECASE)
_UNPACKED = re.compile(r"^\s*([\w\s,*]+?)\s*=\s*\*?(\w+)\.(?:shape|size\(\))", re.MULTILINE)
_IN_QUOTES = re.compile(rf"['\"]\s*({_BATCH}|{_TIME})\s+({_BATCH}|{_TIME})\s", re.IGNORECASE)  # einops
_EINSUM = re.compile(r"einsum\(\s*['\"]\s*([btnlsi])\s*([btnlsi])\s*[a-z]\s*,")
_ONE_SIZE = re.compile(r"^\s*(\w+)\s*=\s*(\w+)\.(?:size\((-?\d)\)|shape\[(-?\d)\])", re.MULTILINE)

_SHOWN = r"true|1(?:\.0)?s?|ones?|non-?zeros?"
_NOT_SHOWN = r"false|0(?:\.0)?s?|zeros?"
_HIDES = (
    r"not\s+(?:to\s+)?(?:be\s+)?(?:attend\w*|allowed|seen|visible|valid|real|kept|used|look\w*)|mask(?:ed|s)?(?:\s+out)?\b|"
    r"block\w*|hid\w*|ignor\w*|pad\w*|exclu\w*|disallow\w*|forbid\w*|prevent\w*|invalid|drop\w*|cannot|skip\w*"
)
_KEEPS = (
    r"(?:may|can|should|to|be|is|are)?\s*attend\w*|allow\w*|visible|keeps?|kept|valid|real|unmasked|not\s+masked|not\s+pad\w*|"
    r"not\s+hidden|can\s+see|may\s+see|sees?|used?|participat\w*|take\w*\s+part|tokens?\b|look\w*|present|words?|frames?"
)
_DISTANCES = (
    ("rotary", r"rotary|rotate|\brope\b|apply_rope|_rope\b"),
    ("alibi", r"alibi|\bslopes?\b"),
    (
        "relative",
        r"relative_attention_bias|relative_position|rel_shift|rel_pos|relative_bias|relative bias|compute_bias",
    ),
)
_TELLING_NAMES = ((r"allow|keep|visible|can_attend", "allowed"), (r"block|ignore|hide", "blocked"))
_VALUE_THEN_WORD = re.compile(
    rf"(?<![\w.])(?P<value>{_SHOWN}|{_NOT_SHOWN})(?![\w.]\w)[`'\")]*\s*(?:=|:|->|–|—|-|for|where|means?|marks?|indicates?|are|is|if|"
    rf"on|at|says|,)?\s*(?:\w+\s+){{0,4}}?(?P<word>(?P<keeps>not\s+masked|not\s+pad\w*|not\s+hidden)|(?P<hides>{_HIDES})|"
    rf"(?P<shows>{_KEEPS}))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Words:
    """What stands in the source of a layer.

    Args:
        text: docstrings and comments, line by line.
        code: the body of what is called.
        first: the name of its first argument.
        source: all of it, where it is a class.
        name: of the class or function.
    """

    text: str
    code: str
    first: str
    source: str = ""
    name: str = ""

    @cached_property
    def axes(self) -> str | None:
        """ "B T d" or "T B d", where the author says one of them and not the other."""
        found = set()
        for pattern in (_SHAPE, _CROSSED):
            found |= {_order(*match.groups()) for match in pattern.finditer(self.text)}
        if re.search(r"(time|sequence|seq|length)[- ]first", self.text, re.IGNORECASE):
            found.add("T B d")
        if re.search(r"batch[- ]first", self.text, re.IGNORECASE):
            found.add("B T d")
        for pattern in (_IN_QUOTES, _EINSUM):
            found |= {_order(*match.groups()) for match in pattern.finditer(self.code)}
        for names, of in _UNPACKED.findall(self.code):
            parts = [name.strip() for name in names.split(",")]
            if len(parts) >= 2 and of == self.first:
                found.add(_order(*parts[:2]))
        for name, of, size, index in _ONE_SIZE.findall(self.code):
            place = size or index
            if of == self.first and place in ("0", "1") and re.fullmatch(_BATCH, name, re.IGNORECASE):
                found.add("B T d" if place == "0" else "T B d")
        said = found - {None}
        return said.pop() if len(said) == 1 else None

    def polarity(self, name: str, alone: bool) -> str | None:
        """Return "allowed", "blocked" or "additive", where the author says of a mask what it means; None elsewhere.

        Args:
            name: of the argument.
            alone: whether it is the only mask; then what is said of "the mask" is said of it.
        """
        votes = {kind for pattern, kind in _TELLING_NAMES if re.search(pattern, name)}
        for line in self._about(name, alone):
            if re.search(r"1\s*/\s*0.*\bzero\s*/\s*non-?zero", line):  # OpenNMT's way to say it
                votes.add("blocked")
                continue
            if re.search(r"\badditive|mask is added|added to the (?:raw )?scores", line, re.IGNORECASE):
                votes.add("additive")
                continue
            line = re.sub(r"\b(1|true)\s*/\s*(0|false)\b", r"\1", line, flags=re.IGNORECASE)  # the first is described
            line = re.sub(r"\b(0|false)\s*/\s*(1|true)\b", "", line, flags=re.IGNORECASE)
            for match in _VALUE_THEN_WORD.finditer(line):
                on = re.fullmatch(_SHOWN, match["value"], re.IGNORECASE) is not None
                keeps = match["hides"] is None
                votes.add("allowed" if on == keeps else "blocked")
        return votes.pop() if len(votes) == 1 else None

    def _about(self, name: str, alone: bool) -> list[str]:
        lines = [line.strip() for line in self.text.splitlines()]
        wanted = re.compile(rf"\b{re.escape(name)}\b")
        # A sentence may go on in the next line.
        found = [" ".join(lines[i : i + 2]) for i, line in enumerate(lines) if wanted.search(line)]
        if not found and alone:
            found = [
                " ".join(lines[i : i + 2]) for i, line in enumerate(lines) if re.search(r"\bmask", line, re.IGNORECASE)
            ]
        return found

    @property
    def causal(self) -> bool:
        """Whether its name promises that it hides later tokens, and nothing in it switches that off."""
        signatures = " ".join(re.findall(r"def \w+\((.*?)\)\s*(?:->[^:]*)?:", self.source or self.code, re.DOTALL))
        switched = "causal" in signatures or re.search(r"\bif\b.*causal|self\.(is_)?causal\b", self.source or self.code)
        return bool(re.search(r"(?<!non)(?<!non_)causal", self.name.lower())) and not switched

    @property
    def distances(self) -> str:
        """Return how it promises to tell distances: "rotary", "alibi", "relative", or ""; with a "?" if it may not."""
        source = self.source or self.code
        optional = "?" if re.search(r"\bif\b[^:\n]*(rot|rope|freqs|cos|sin|alibi|slope|rel|bias)", source) else ""
        for kind, told in _DISTANCES:
            if re.search(told, source, re.IGNORECASE):
                return kind + optional
        return ""

    def integers(self, name: str) -> bool:
        """Whether a mask may be one of integers: by its annotation, or where 1 and 0 are spoken of, not True."""
        annotated = re.search(rf"{re.escape(name)}\s*:\s*\S*Long", self.code)
        spoken = any(
            re.search(r"\b[10]\b", line) and not re.search("True|bool", line) for line in self._about(name, True)
        )
        return bool(annotated or spoken)

    def ranks(self, name: str) -> set[int]:
        """Return how many axes a mask has in the author's words, such as 2 for "(T, T)"."""
        found = set()
        for line in self._about(name, True):
            after = line[line.index("mask") :] if "mask" in line else line
            found |= {
                shape.count(",") + 1 for shape in re.findall(r"[(\[](?:\w+(?:\s*or\s*\w+)?\s*,\s*)+\w*[)\]]", after)
            }
        return found


@lru_cache(maxsize=64)  # Python reads the whole file for each class in it, and of a model's parts many are of one class
def source_of(kind: Callable) -> str:
    """Return the source of a class or a function.

    Raises:
        OSError, TypeError: it is not at hand.
    """
    return inspect.getsource(kind)


def words_of(target: Callable) -> Words:
    """Return the words of a layer or a function; empty where its source is not at hand."""
    function = target.forward if isinstance(target, nn.Module) else target
    function = inspect.unwrap(getattr(function, "__func__", function))
    owner = getattr(target, "__self__", target)
    kinds = [function] + ([] if inspect.isfunction(owner) or inspect.ismodule(owner) else [type(owner)])
    if isinstance(owner, nn.Module) and type(owner).__module__.startswith("torch."):
        return Words("", "", "")
    texts, code, source = [], "", ""
    for kind in kinds:
        try:
            found = textwrap.dedent(source_of(kind))
        except (OSError, TypeError):
            texts.append(inspect.getdoc(kind) or "")
            continue
        texts.append(_prose(found))
        code, source = code or found, found
    try:
        first = next(
            iter(inspect.signature(target.forward if isinstance(target, nn.Module) else target).parameters), ""
        )
    except (TypeError, ValueError):
        first = ""
    name = getattr(target, "__name__", "") or type(owner).__name__
    if isinstance(owner, nn.Module):
        name = type(owner).__name__
    return Words("\n".join(texts), code, first, source, name)


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


def _order(first: str, second: str) -> str | None:
    names = first, second
    first, second = (bool(re.fullmatch(_BATCH, name, re.IGNORECASE)) for name in (first, second))
    if names[0].upper() == "N" and names[1].upper() in ("L", "S", "T"):  # as torch's documentation has it
        return "B T d"
    if names[1].upper() == "N" and names[0].upper() in ("L", "S", "T"):
        return "T B d"
    if first == second:
        return None
    return "B T d" if first else "T B d"
