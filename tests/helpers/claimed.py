"""What the lessons claim, read from their code, and held against what their text says."""

import ast
import re
from dataclasses import dataclass

from nbformat import NotebookNode

# A number as prose writes it: 85 %, 85 points, .85, 0.85, 4,096, 1e-6. Not the 00 of a lesson's name, nor the 2 of W_2.
NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d*\.?\d+(?:e-?\d+)?)(?:\s?%|\spoints?\b)?(?![\w]|\.\d)")
BOUND = re.compile(
    r"\b(?:over|under|above|below|at (?:most|least)|more than|less than|fewer than|within|up to|between)\s+"
    rf"(?:a factor of )?({NUMBER.pattern})(?:(?: and| to|–)\s*({NUMBER.pattern}))?",
)
WORD = re.compile(r"[a-z_]{3,}")
EMPTY = frozenset(
    "the and for with that this its are was has have each every all from into than then them they not but one two "
    "of in on to at by as is it be or so if a an which what where when only more most least over under also do".split()
)
NEAR = 4  # cells of text before and after a claim in which its sentence is looked for
ALIKE = 0.75  # share of a claim's words that a sentence holds which says the same


@dataclass(frozen=True)
class Claim:
    """One call of `claim`: its text, with "…" where a value stands, and the numbers that its cell knows."""

    text: str
    cell: int
    literals: frozenset[float]


def claims(nb: NotebookNode) -> list[Claim]:
    """Return every claim of a lesson; the names of a cell's own numbers are followed through the whole lesson."""
    found, known = [], set()
    for number, cell in enumerate(nb.cells):
        if cell.cell_type != "code":
            continue
        tree = ast.parse(re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE))
        known |= {float(node.value) for node in ast.walk(tree) if _is_number(node)}
        found += [
            Claim(_text(node.args[1]), number, frozenset(known))
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim"
        ]
    return found


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def values(text: str) -> set[float]:
    """Return the numbers of a text; 85 % is .85."""
    return {_value(found) for found in NUMBER.findall(text)}


def _value(written: str) -> float:
    number = float(re.sub(r"[^\d.e-]|points?", "", written))
    return round(number / 100, 9) if re.search(r"%|point", written) else number


def bounds(text: str) -> set[float]:
    """Return the numbers that a text gives as bounds."""
    return {_value(number) for pair in BOUND.findall(text) for number in pair if number}


def sentences(nb: NotebookNode, cell: int) -> list[str]:
    """Return the sentences of the text around a cell."""
    near = [c.source for c in nb.cells[max(0, cell - NEAR) : cell + NEAR + 1] if c.cell_type == "markdown"]
    return [s for text in near for s in re.split(r"(?<=[.?!:;])\s+(?=[A-Z*`])|\n\n|\n- |\n\|", text) if s.strip()]


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower())) - EMPTY


def alike(claim: str, sentence: str) -> float:
    """Return which share of a claim's words a sentence holds."""
    ours = words(claim)
    return len(ours & words(sentence)) / len(ours) if len(ours) >= 3 else 0.0


def contradictions(nb: NotebookNode) -> list[str]:
    """Return where a claim gives a number that neither its cell nor the text that says the same knows."""
    found = []
    for claim in claims(nb):
        known = {value for number in claim.literals for value in (number, 1 - number, -number)}
        unknown = {b for b in bounds(claim.text) if not any(abs(b - value) < 1e-9 * max(1, abs(b)) for value in known)}
        if unknown:
            found.append(f"cell {claim.cell + 1}: {claim.text!r} names {unknown}, and no code so far holds it")
        for sentence in sentences(nb, claim.cell):
            if alike(claim.text, sentence) >= ALIKE and not _agree(values(claim.text), values(sentence)):
                found.append(f"cell {claim.cell + 1}: the claim {claim.text!r} against the text {sentence!r}")
    return found


def _agree(ours: set[float], theirs: set[float]) -> bool:
    """Of two sentences that say the same, one may give more numbers of a kind than the other, not other ones.

    The kinds: shares and tolerances, and counts from 10 on. Smaller counts are sizes and names of things.
    """

    def kinds(numbers: set[float]) -> tuple[set[float], set[float]]:
        return {n for n in numbers if abs(n) < 1 and n}, {n for n in numbers if abs(n) >= 10}

    both = zip(kinds(ours), kinds(theirs), strict=True)
    return all(not one or not other or one <= other or other <= one for one, other in both)
