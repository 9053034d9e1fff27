"""A report as Markdown, to be pasted into an issue or a pull request of the code base in which the layer is.

Whoever reads it there has neither mhalib nor its lessons: the examples run without it, lessons are named, not linked.
What comes from outside, names and messages of errors, is escaped so that it cannot be taken for Markdown.
"""

import re
from collections.abc import Iterator

import torch

# What the numbers of the lessons in the catalogue stand for, in the words of their titles.
LESSONS = {
    "00": "Start here",
    "01": "Shapes and projections",
    "02": "Scaled dot-product attention",
    "03": "Splitting into heads",
    "04": "Masking",
    "05": "Concat and output projection",
    "06": "The whole layer",
    "07": "Do heads change anything?",
    "08": "One head against many",
    "09": "Narrow or wide? Rules for a fair comparison",
    "10": "Seeing what heads learned",
    "11": "Which heads matter?",
    "12": "Heads today: sharing, caching, cost",
    "13": "Positions and padding",
    "14": "When attention misbehaves",
    "15": "The sealed box",
}


def to_markdown(report: "Report") -> str:
    """Return a report as a page of Markdown; see `Report.to_markdown`."""
    found = len(report.findings)
    verdict = f"{found} finding{'s' * (found > 1)}" if found else "no finding"
    blocks = [f"## {code(report.subject)}: {verdict}"]
    for number, finding in enumerate(report.findings, 1):
        blocks += _of_finding(number, finding, report)
    blocks += list(_sections(report))
    return "\n\n".join(blocks) + "\n"


def _of_finding(number: int, finding: "Finding", report: "Report") -> Iterator[str]:
    yield f"### {number}. {plain(finding.title)} ({code(finding.code)})"
    yield f"**Seen:** {plain(finding.evidence)}"
    yield f"**To know:** {_lesson(finding.lesson)}"
    example = report.example(finding.code)
    if example is None:
        yield "No example of a few lines fails here; to see it, do what stands under *Seen*."
        return
    yield "The smallest example that fails, with torch alone; make the layer as you do, and run it:"
    yield fenced(example.code, "python")
    yield f"Of the layer that was examined it says: {plain(example.message)}"


def _sections(report: "Report") -> Iterator[str]:
    if report.remarks:
        yield "### Remarks: matters of taste or of design, no faults"
        yield _list(f"{code(remark.code)}: {plain(remark.text)} {_lesson(remark.lesson)}" for remark in report.remarks)
    if report.not_examined:
        yield "### Not examined"
        yield _list(plain(entry) for entry in report.not_examined)
    yield "### How it was examined"
    rows = report.called_as.strip().splitlines()
    if len(rows) > 1:
        yield f"Called as:\n\n{fenced(report.called_as)}"
    lines = [f"called as {code(rows[0])}"] if len(rows) == 1 else []
    lines += [f"heads: {plain(str(report.heads))}"] if report.heads is not None else []
    lines += [f"torch {code(torch.__version__)}; the numbers of the examples are drawn with seed 0"]
    lines += list(_lessons_named(report))
    yield _list(lines)


def _lessons_named(report: "Report") -> Iterator[str]:
    texts = " ".join(entry.lesson for entry in (*report.findings, *report.remarks))
    named = sorted({number for words in re.findall(r"Notebooks? ([\d, and]+)", texts) for number in words.split()
                    if number in LESSONS})  # fmt: skip
    if named:
        titles = ", ".join(f"{number} *{LESSONS[number]}*" for number in named)
        yield f"the notebooks are lessons of mhalib, a course on multi-head attention: {titles}"


def _list(entries) -> str:
    return "\n".join(f"- {entry}" for entry in entries)


def plain(text: str) -> str:
    """Return text in which nothing is Markdown or HTML any more, in one line; names and numbers call nobody."""
    text = " ".join(str(text).split())
    text = re.sub(r"([\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    text = re.sub(r"^(\d*|#*)([#+.)-])(?=\s|$)", r"\1\\\2", text)  # a heading, a list
    return re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\N{WORD JOINER}", text)  # on GitHub @name and #1 would be linked


def _lesson(text: str) -> str:
    """Return a text of the catalogue: what stands in backticks is code already."""
    return "".join(part if part[:1] == "`" else _but_emphasis(part) for part in re.split(r"(`[^`]+`)", text))


def _but_emphasis(text: str) -> str:
    space = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return (
        space[0] + re.sub(r"([\[\]<>|~]|(?<!\w)_|_(?!\w))", r"\\\1", text.strip()) + (space[1] if text.strip() else "")
    )


def code(text: str) -> str:
    """Return text as code within a line, whatever backticks it holds."""
    text = " ".join(str(text).split()) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of code, in a fence that is longer than any within it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"
