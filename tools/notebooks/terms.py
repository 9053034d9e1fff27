"""Lead the first use of each word of the glossary in a lesson to its entry, on the site.

A link is placed in running text and lists, not in headings, tables, code, formulas, predictions or other links, not in
the opening and not below *Try it*. What stands in backticks is led where it is a name of the glossary, such as
`head_dim`, also in a table. What a lesson itself leads to the glossary, it leads there everywhere, and not again here.
How a heading of the glossary is found in a text, say the tables below; of those that do not stand there, heading and
plural.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

NAMES = {"b": "B", "t": "T|Tq|Tk", "w_q to w_o": "W_[qkvo]"}  # of code, in backticks
NAMES |= {name: name for name in ("capture", "d_model", "head_dim", "num_heads", "survey", "valid_lens")}
# Everyday words, of which only some uses mean the entry: behind these words, or in bold print.
EVERYDAY = {"arm", "claim", "gate", "scale", "split"}
MEANT = r"(?:(?<=[Tt]he )|(?<=\b[Aa] )|(?<=\ban )|(?<=each )|(?<=every )|(?<=text )|(?<=five )|(?<=wo )|(?<=\*\*))"
# Regular expressions for what does not follow from the heading.
SPELLINGS = {
    "ablation": "ablat(?:ions?|e[sd]?|ing)",
    "attention map": r"(?<!road )(?<!Road )(?<!colour )(?<!linear )(?:attention )?maps?",
    "broadcast": "broadcast(?:s|ing|ed)?",
    "causal": "causal(?:ly)?",
    "class token": "class tokens?|registers?",
    "contiguous": r"(?:(?<=is )|(?<=is \*)|(?<=be )|(?<=not ))contiguous",  # of a fused weight it says something else
    "cross-attention": "cross[- ]attention",
    "encoder and decoder": "encoders?|decoders?",
    "flexattention": "FlexAttention",
    "flops": "FLOPs?",
    "fused layer": r"fused(?: layers?| weights?|(?=\*\* layer| program| `qkv`))",
    "grouped-query attention": "grouped-query(?: attention)?|GQA",
    "importance": r"(?:head )?importance",
    "interval": r"(?:confidence )?intervals?",
    # Not that of a notebook or of a graphics card.
    "kernel": r"(?:(?<=Keras )|(?<=Keras' )|(?<=flax )|(?<=flax's )|(?<=\*))kernels?",
    "kv cache": "KV caches?|caches?",
    "layer norm": "layer[- ]norms?",
    "lead": r"(?<=\*\*)lead(?=\*\*)",  # elsewhere it says something else
    "logits": "logits?",
    "mask": "masks?|masked|masking",
    "merge": "merge[sd]?|merging",
    "multi-query attention": "multi-query(?: attention)?|MQA",
    "packing": "packing|packed",
    "padding": "padding|padded",
    "pruning": "prun(?:e[sd]?|ing)",
    "position": "(?<!same )positions?",
    "query": "quer(?:y|ies)",
    "rank": r"rank(?= of\b|\s+`|\s+\d)",
    "residual": "residuals?(?: connections?| streams?)?",
    "saturation": "saturat(?:ion|e[sd]?|ing)",
    "scale": MEANT + "scale(?! of)",
    "sink": "(?:attention )?sinks?",
    "value": r"(?:(?<=keys and )|(?<=keys or )|(?<=its )|(?<=the )|(?<=\*\*)|(?<= \*)|(?<=mixes ))values?"
    r"(?! (?:of|for|that|in|at)\b)",
}
SPELLINGS |= {name: f"`(?:{way})`" for name, way in NAMES.items()}
LINK = re.compile(r"\]\(GLOSSARY\.md#([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
LEFT_ALONE = re.compile(
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
    """An entry of the glossary: its heading, its first words as plain text, and how it is found in a text."""

    name: str
    tip: str
    found: re.Pattern

    @property
    def place(self) -> str:
        return self.name.replace(" ", "-").lower()


def glossary(text: str) -> list[Term]:
    """Return the entries of the glossary."""
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return [_term(name, said) for name, said in zip(parts[::2], parts[1::2], strict=True)]


def _term(name: str, said: str) -> Term:
    means = re.split(r"Taught in|\*Also called:\*", said)[0]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", lambda found: found[1] or "", means)
    sentences = re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(plain.split()))
    tip = sentences[0] if len(sentences[0].split()) >= 12 else " ".join(sentences[:2])
    plural = f"{re.escape(name[:-1])}(?:y|ies)" if re.search("[^aeiou]y$", name) else f"{re.escape(name)}(?:e?s)?"
    ways = SPELLINGS.get(name, MEANT * (name in EVERYDAY) + plural)
    found = re.compile(rf"(?<![\w/.-])(?:{ways})(?![\w`]|-\w|\.\w)", 0 if name in NAMES else re.IGNORECASE)
    return Term(name, tip, found)


def _uses(source: str, terms: list[Term]) -> Iterator[tuple[int, int, Term]]:
    """Go through the words of a text that are in the glossary; of two in one place, the longer one."""
    free, codes, last = [], [], 0
    for part in LEFT_ALONE.finditer(source):
        free.append((last, part.start()))
        last = part.end()
        if part["ticks"] == "`" or part[0].lstrip().startswith("|"):  # names of shapes stand in tables, too
            codes += [code.span() for code in CODE.finditer(source, *part.span())]
    free.append((last, len(source)))
    found = []
    for term in terms:
        if term.name in NAMES:
            found += [(*code, term) for code in codes if term.found.fullmatch(source, *code)]
        else:
            spans = (use.span() for use in term.found.finditer(source))
            found += [(a, b, term) for a, b in spans if any(x <= a and b <= y for x, y in free)]
    end = -1
    for start, stop, term in sorted(found, key=lambda use: (use[0], -use[1])):
        if start >= end:
            yield start, stop, term
            end = stop


def with_links(nb: NotebookNode, terms: list[Term]) -> NotebookNode:
    """Return a lesson of which the first use of each word is a link."""
    nb = copy.deepcopy(nb)
    texts = [cell for cell in nb.cells[1:] if cell.cell_type == "markdown"]  # the opening is its author's business
    met = {place for cell in texts for place in LINK.findall(cell.source)}
    for cell in texts:
        if re.match(r"## Try it\b", cell.source):
            break
        text, last = "", 0
        for start, stop, term in _uses(cell.source, terms):
            if term.place not in met:
                met.add(term.place)
                text += f"{cell.source[last:start]}[{cell.source[start:stop]}](GLOSSARY.md#{term.place})"
                last = stop
        cell.source = text + cell.source[last:]
    return nb
