"""What the doctor says: findings, remarks, what was not examined; as text, a table, a page, an error for a test suite.

A record: nothing is examined here, and no layer is held. What a code means is written in `catalogue`. What comes from
outside, names and messages of errors, is escaped so that it cannot be taken for Markdown or HTML.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

import torch

from attention_doctor.catalogue import CATALOGUE, REMARKS

ENTRIES = CATALOGUE | REMARKS


@dataclass(frozen=True)
class Remark:
    """A matter of taste, or of design: worth knowing, no fault.

    Args:
        code: stable, for programs; `catalogue` has its `.title` and its `.lesson`.
        text: what was seen in this layer, in numbers.
    """

    code: str
    text: str

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return ENTRIES[self.code].title

    @property
    def lesson(self) -> str:
        """What to know, and the notebook that teaches it, where one does."""
        return ENTRIES[self.code].lesson

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


@dataclass(frozen=True)
class Finding(Remark):
    """One thing that is wrong; `example` is code that fails on the layer, and what its assertion said."""

    example: tuple[str, str] | None = None

    @property
    def evidence(self) -> str:
        """What was done and what came out."""
        return self.text

    def __str__(self) -> str:
        return f"{self.code}: {self.title}\n    seen: {self.text}\n    know: {self.lesson}"


class FindingsError(AssertionError):
    """Raised by `Report.raise_for_findings`, for tests of your own layer; see notebook 16."""


@dataclass
class Report:
    """What `examine` found.

    Args:
        subject: the name of what was examined.
        findings: what is wrong, each with `.code`, `.title`, `.evidence`, `.lesson`.
        remarks: matters of taste, each with `.code`, `.title`, `.text`, `.lesson`.
        not_examined: what could not be examined, and why.
        called_as: how the layer was called; "" where nobody says.
        heads: how many heads were stated and counted: `.stated`, `.counted`.
    """

    subject: str = "the layer"
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    not_examined: list[str] = field(default_factory=list)
    called_as: str = ""
    heads: object | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, as far as it was examined."""
        return not self.findings

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, in the order found."""
        return [finding.code for finding in self.findings]

    def say(self, what: str, text: str) -> None:
        """Add what was seen: a finding or a remark by its code, else what could not be examined, and why.

        Each is said once, a code with what was seen first.
        """
        said = {one.code for one in (*self.findings, *self.remarks)}
        if what in CATALOGUE and what not in said:
            self.findings.append(Finding(what, text))
        elif what in REMARKS and what not in said:
            self.remarks.append(Remark(what, text))
        elif what not in ENTRIES and f"{what}: {text}" not in self.not_examined:
            self.not_examined.append(f"{what}: {text}")

    def raise_for_findings(self) -> None:
        """Raise when there are findings, and return None otherwise; for a test suite.

        Raises:
            FindingsError: an AssertionError that holds the whole report.
        """
        if self.findings:
            raise FindingsError(str(self))

    def to_markdown(self) -> str:
        """Return the report as a page of Markdown, for an issue or a pull request where the layer comes from.

        Each finding comes with the smallest failing example, which needs torch alone: fill in the line that makes the
        layer. It has failed on this layer before it is shown. The same text on every call.
        """
        return "\n\n".join(_page(self)) + "\n"

    @property
    def verdict(self) -> str:
        many = len(self.findings)
        return f"{self.subject}: {f'{many} finding' if many else 'no finding'}{'s' * (many > 1)}"

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {finding}" for finding in self.findings)]
        for head, entries in (("remarks", self.remarks), ("not examined", self.not_examined)):
            lines += [f"  {head}:", *(f"    {entry}" for entry in entries)] if entries else []
        for name, text in (("called as", self.called_as), ("heads", self.heads)):
            lines += [f"  {name}: {text}".replace("\n", "\n    ")] if text else []
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(f"`{f.code}`", f.title, f.text, f.lesson) for f in self.findings]
        rows += [(f"`{r.code}`", f"remark: {r.title}", r.text, r.lesson) for r in self.remarks]
        rows += [("", "not examined", entry, "") for entry in self.not_examined]
        look = "text-align: left; vertical-align: top; white-space: normal; overflow-wrap: anywhere; min-width: 8em"

        def row(kind: str, cells: tuple) -> str:
            inner = [f'<{kind} style="{look}">{_to_html(cell)}</{kind}>' for cell in cells]
            return f"<tr>{''.join(inner)}</tr>"

        body = "".join(row("td", cells) for cells in rows)
        table = f"<table>{row('th', ('code', 'what', 'seen', 'know'))}{body}</table>" if rows else ""
        called = f"<div>called as: <code>{escape(self.called_as)}</code></div>".replace("\n", "<br>")
        heads = f"<div>heads: {escape(str(self.heads))}</div>" if self.heads else ""
        return f"<div><b>{escape(self.verdict)}</b></div>{table}{called if self.called_as else ''}{heads}"


def _to_html(text: str) -> str:
    """Return text escaped, with what stands in backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


# ------------------------------------------------------------------------------------------------------------- markdown


def _page(report: Report) -> Iterator[str]:
    """Yield the blocks of a page; whoever reads it there has neither the course nor its lessons."""
    yield f"## {code(report.subject)}{report.verdict.removeprefix(report.subject)}"
    for number, finding in enumerate(report.findings, 1):
        yield f"### {number}. {finding.title} ({code(finding.code)})"
        yield f"**Seen:** {plain(finding.evidence)}"
        yield f"**To know:** {finding.lesson}"
        if finding.example is None:
            yield "No example of a few lines fails here; to see it, do what stands under *Seen*."
            continue
        yield "The smallest example that fails, with torch alone; make the layer as you do, and run it:"
        yield fenced(finding.example[0], "python")
        yield f"Of the layer that was examined it says: {plain(finding.example[1])}"
    if report.remarks:
        yield "### Remarks: matters of taste or of design, no faults"
        yield "\n".join(f"- {code(remark.code)}: {plain(remark.text)} {remark.lesson}" for remark in report.remarks)
    if report.not_examined:
        yield "### Not examined"
        yield "\n".join(f"- {plain(entry)}" for entry in report.not_examined)
    yield "### How it was examined"
    yield f"called as:\n\n{fenced(report.called_as)}"
    yield f"- heads: {plain(report.heads or 'not counted')}"
    yield f"- torch {code(torch.__version__)}; the numbers of the examples are drawn with seed 0"
    yield "- the notebooks are lessons of mhalib, a course on multi-head attention"


def plain(text: object) -> str:
    """Return text in which nothing is Markdown or HTML any more, in one line; names and numbers call nobody."""
    text = " ".join(str(text).split())
    text = re.sub(r"([\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    text = re.sub(r"^(\d*|#*)([#+.)-])(?=\s|$)", r"\1\\\2", text)  # a heading, a list
    return re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\N{WORD JOINER}", text)  # on GitHub @name and #1 would be linked


def code(text: str) -> str:
    """Return text as code within a line, whatever backticks it holds."""
    text = " ".join(str(text).split()) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of code, in a fence that is longer than any within it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"
