"""Find where a lesson first uses a word of the glossary, and lead it there.

    python -m tools.notebooks.terms [--check] [notebooks/NN_name.ipynb …]

In the stored lessons some words become links, `[saturated](GLOSSARY.md#saturation)`: at most `MOST`, as many as a
lesson of `MOST_WORDS` has room for, none that the lesson itself teaches, and the words of every page (`EVERYWHERE`)
only in the first two lessons. On the site all of them do, with the entry as a tip: there `build.py` asks for all. A
link is placed in running text and lists, not in headings, tables, code, formulas, predictions or other links, not in
the opening and not below *Try it*. What stands in backticks is led where it is a name of the glossary, such as
`head_dim`, also in a table.

The tool first takes its links out, then places them, so a second run changes nothing. Text changes no output: a lesson
that was not stale stays so. How a heading of the glossary is found in a text, says `SPELLINGS`; of those that do not
stand there, heading and plural.
"""

import argparse
import copy
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.notebooks.lessons import words
from tools.notebooks.run import NOTEBOOKS, read, write
from tools.notebooks.store import NotebookError, keep_outputs
from tools.notebooks.which import chosen_by, is_lesson

GLOSSARY = NOTEBOOKS / "GLOSSARY.md"
MOST = 12  # links in a stored lesson; more would make it hard to read
MOST_WORDS = 3000  # of a stored lesson, those of link targets among them
# Words that nearly every page says: after two lessons a reader knows them.
EVERYWHERE = {"attention map", "b", "d_model", "head", "head_dim", "key", "num_heads", "query", "score", "softmax", "t"}
EVERYWHERE |= {"token", "value", "w_q to w_o", "self-attention", "seed"}
FIRST_LESSONS = ("00", "01")
# Regular expressions for what does not follow from the heading; an everyday word only in the glossary's sense.
SPELLINGS = {
    "ablation": "ablat(?:ions?|e[sd]?|ing)",
    "arm": r"(?:(?<=the )|(?<=[Tt]wo )|(?<=each )|(?<=an )|(?<=\*\*)|(?<=five ))arms?",
    "attention map": r"(?<!road )(?<!Road )(?<!colour )(?<!linear )(?:attention )?maps?",
    "b": "`B`",
    "broadcast": "broadcast(?:s|ing|ed)?",
    "capture": "`capture`",
    "causal": "causal(?:ly)?",
    "claim": r"(?:(?<=[Aa] )|(?<=each )|(?<=every )|(?<=\*\*)|(?<=the text ))claims?",
    "contiguous": r"(?:(?<=is )|(?<=is \*)|(?<=be )|(?<=not ))contiguous",  # of a fused weight it says something else
    "cross-attention": "cross[- ]attention",
    "d_model": "`d_model`",
    "encoder and decoder": "encoders?|decoders?",
    "flops": "FLOPs?",
    "fused layer": r"fused(?: layers?| weights?|(?=\*\* layer| program| `qkv`))",
    "gate": r"(?:(?<=a )|(?<=the )|(?<=each )|(?<=\*\*))gates?",
    "grouped-query attention": "grouped-query(?: attention)?|GQA",
    "head_dim": "`head_dim`",
    "importance": r"(?:head )?importance",
    "interval": r"(?:confidence )?intervals?",
    # Not that of a notebook or of a graphics card.
    "kernel": r"(?:(?<=Keras )|(?<=Keras' )|(?<=flax )|(?<=flax's )|(?<=\*))kernels?",
    "kv cache": "KV caches?|caches?",
    "layer norm": "layer[- ]norms?",
    "logits": "logits?",
    "mask": "masks?|masked|masking",
    "merge": "merge[sd]?|merging",
    "multi-query attention": "multi-query(?: attention)?|MQA",
    "num_heads": "`num_heads`",
    "packing": "packing|packed",
    "padding": "padding|padded",
    "pruning": "prun(?:e[sd]?|ing)",
    "position": "(?<!same )positions?",
    "query": "quer(?:y|ies)",
    "rank": r"rank(?= of\b|\s+`|\s+\d)",
    "residual": "residuals?(?: connections?| streams?)?",
    "saturation": "saturat(?:ion|e[sd]?|ing)",
    "scale": r"(?:(?<=the )|(?<=[Aa] )|(?<=\*\*))scale(?! of)",
    "sink": "(?:attention )?sinks?",
    "split": r"(?:(?<=the )|(?<=[Tt]he )|(?<=is )|(?<=are )|(?<=\*\*))split",
    "t": "`T`|`Tq`|`Tk`",
    "valid_lens": "`valid_lens`",
    "value": (
        r"(?:(?<=keys and )|(?<=keys or )|(?<=and its )|(?<=the )|(?<=\*\*)|(?<= \*)|(?<=mixes ))values?"
        r"(?! (?:of|for|that|in|at)\b)"
    ),
    "w_q to w_o": "`W_[qkvo]`",
}
_TAKEN_OUT = re.compile(r"\[((?:[^\[\]`]|`[^`\n]*`)+)\]\(GLOSSARY\.md#[^)\s]+\)")
_CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
_LEFT_ALONE = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)[ \t]*$|\Z)"
    r"|^ {0,3}#{1,6} [^\n]*$|^[ \t]*\|[^\n]*$|^[^\n]*\*\*Predict\b[^\n]*$"  # a heading, a row of a table, a question
    r"|!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((?:[^()]|\([^()]*\))*\)"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)"
    r"|\$\$.+?\$\$|\$(?![\s$])[^$\n]*?(?<!\s)\$"
    r"|(?<![*\w])\*(?![* ])(?:[A-Z]|(?:[^*\s]+\s){3})[^*]*\*(?!\*)"  # in italics: a control, a title, what others said
    r"|<[a-zA-Z/!](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    name: str  # its heading
    tip: str  # its first words, as plain text
    taught: tuple[str, ...]  # the numbers of the lessons that teach it
    found: re.Pattern  # in a text

    @property
    def is_code(self) -> bool:
        return SPELLINGS.get(self.name, "").startswith("`")

    @property
    def place(self) -> str:
        return self.name.replace(" ", "-")


def glossary(text: str | None = None) -> list[Term]:
    """Return the entries of the glossary, or of a text that is written as it is."""
    _, *parts = re.split(r"^## (.+)$", text or GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [_term(name, said) for name, said in zip(parts[::2], parts[1::2], strict=True)]


def _term(name: str, said: str) -> Term:
    means, _, taught = said.partition("Taught in")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", lambda found: found[1] or "", means.partition("*Also called:*")[0])
    sentences = re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(plain.split()))
    tip = sentences[0] if len(sentences[0].split()) >= 12 else " ".join(sentences[:2])
    numbers = tuple(sorted(set(re.findall(r"\]\((\d\d)_", taught))))
    return Term(name, tip, numbers, _pattern(name))


def _pattern(name: str) -> re.Pattern:
    plural = f"{re.escape(name[:-1])}(?:y|ies)" if re.search("[^aeiou]y$", name) else f"{re.escape(name)}(?:e?s)?"
    ways = SPELLINGS.get(name, plural)
    return re.compile(rf"(?<![\w/.-])(?:{ways})(?![\w`]|-\w|\.\w)", 0 if ways.startswith("`") else re.IGNORECASE)


def without_links(source: str) -> str:
    """Return a text of a lesson without the links that this tool places."""
    return _TAKEN_OUT.sub(r"\1", source)


def _uses(source: str, terms: list[Term]) -> Iterator[tuple[int, int, Term]]:
    """Go through the words of a text that are in the glossary; of two in one place, the longer one."""
    free, codes, last = [], [], 0
    for part in _LEFT_ALONE.finditer(source):
        free.append((last, part.start()))
        last = part.end()
        if part["ticks"] == "`":
            codes.append(part.span())
        elif part[0].lstrip().startswith("|"):  # names of shapes stand in tables, too
            codes += [code.span() for code in _CODE.finditer(source, *part.span())]
    free.append((last, len(source)))
    found = []
    for term in terms:
        if term.is_code:
            found += [(*code, term) for code in codes if term.found.fullmatch(source, *code)]
        else:
            spans = (use.span() for use in term.found.finditer(source))
            found += [(a, b, term) for a, b in spans if any(x <= a and b <= y for x, y in free)]
    end = -1
    for start, stop, term in sorted(found, key=lambda use: (use[0], -use[1])):
        if start >= end:
            yield start, stop, term
            end = stop


def first_uses(nb: NotebookNode, terms: list[Term]) -> list[tuple[int, int, int, Term]]:
    """Return where a lesson first uses each word, in the order of the text: cell, start, end, and the entry."""
    met, places = set(), []
    for number, cell in enumerate(nb.cells):
        if cell.cell_type != "markdown" or number == 0:
            continue
        if re.match(r"## Try it\b", cell.source):
            break
        for start, stop, term in _uses(cell.source, terms):
            if term.name not in met:
                met.add(term.name)
                places.append((number, start, stop, term))
    return places


def for_notebooks(name: str, places: list[tuple[int, int, int, Term]]) -> list[tuple[int, int, int, Term]]:
    """Return which of the first uses a stored lesson shows as links."""
    number = name[:2]
    kept = [place for place in places if number not in place[3].taught]
    if number not in FIRST_LESSONS:
        kept = [place for place in kept if place[3].name not in EVERYWHERE]
    return kept[:MOST]


def with_links(nb: NotebookNode, name: str, terms: list[Term], *, everywhere: bool = False) -> NotebookNode:
    """Return a lesson whose first uses are links, some of them, or for a page of the site all."""
    nb = copy.deepcopy(nb)
    for cell in nb.cells[1:]:  # the opening is nobody's business but its author's
        if cell.cell_type == "markdown":
            cell.source = without_links(cell.source)
    places = first_uses(nb, terms)
    if everywhere:
        return _linked(nb, places)
    kept = for_notebooks(name, places)
    while words(linked := _linked(nb, kept)) > MOST_WORDS and kept:
        kept.pop()
    return linked


def _linked(nb: NotebookNode, places: list[tuple[int, int, int, Term]]) -> NotebookNode:
    nb = copy.deepcopy(nb)
    for number, start, stop, term in reversed(places):
        source = nb.cells[number].source
        link = f"[{source[start:stop]}](GLOSSARY.md#{term.place})"
        nb.cells[number].source = source[:start] + link + source[stop:]
    return nb


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lead the first uses of words of the glossary there.")
    parser.add_argument("paths", nargs="*", help="these lessons only: files, or 05")
    parser.add_argument("--check", action="store_true", help="change nothing; name the lessons that would change")
    options = parser.parse_args(arguments)
    paths = chosen_by(parser, options.paths, NOTEBOOKS)
    terms, failures = glossary(), 0
    for path in (path for path in paths if is_lesson(path.name)):
        before = read(path)
        nb = with_links(before, path.stem, terms)
        if nb == before:
            continue
        if options.check:
            failures += 1
            print(f"{path.name}: words of the glossary are not led there; run python -m tools.notebooks.terms")
            continue
        try:
            write(keep_outputs(nb, before), path)
            count = sum(len(_TAKEN_OUT.findall(cell.source)) for cell in nb.cells if cell.cell_type == "markdown")
            print(f"{path.name}: {count} links")
        except NotebookError as error:
            failures += 1
            print(f"{path.name}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
