"""What the doctor says: findings, remarks, what was not examined; as text, a table, a page, an error for a test suite.

What a code means stands in `catalogue`, how a page of Markdown is written in `markdown`. Nothing is examined here:
whoever examines hands over how an example of a finding is found.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from attention_doctor.catalogue import CATALOGUE, REMARKS, Entry
from attention_doctor.markdown import to_markdown


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Args:
        code: stable, for programs.
        title: what is wrong, in a few words.
        evidence: what was done and what came out, in numbers.
        lesson: what to know, and the notebook that teaches it.
    """

    code: str
    title: str
    evidence: str
    lesson: str

    def __str__(self) -> str:
        return f"{self.code}: {self.title}\n    seen: {self.evidence}\n    know: {self.lesson}"


@dataclass(frozen=True)
class Remark:
    """A matter of taste, or of design: worth knowing, no fault.

    Args:
        code: stable, for programs.
        title: what it is, in a few words.
        text: what was seen in this layer.
        lesson: what to know, and the notebook that teaches it, where one does.
    """

    code: str
    title: str
    text: str
    lesson: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class FindingsError(AssertionError):
    """Raised by `Report.raise_for_findings`; its message is the report.

    Raised by `Report.raise_for_findings`, for tests of your own layer; notebook 06 teaches `examine`.
    """


@dataclass
class Report:
    """What `examine` found.

    Args:
        subject: the name of what was examined.
        findings: what is wrong, each with `.code`, `.title`, `.evidence`, `.lesson`.
        remarks: matters of taste, each with `.code`, `.title`, `.text`, `.lesson`.
        not_examined: what could not be examined, and why.
        called_as: how the layer was called; "" where nobody says.
        heads: how many heads were stated and counted, as `counting` has it; only its text is needed here.
        find_example: takes code, evidence and all codes, and returns an `Example` for `to_markdown`, or None.
    """

    subject: str = "the layer"
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    not_examined: list[str] = field(default_factory=list)
    called_as: str = ""
    heads: object | None = None
    find_example: Callable | None = field(default=None, repr=False, compare=False)
    examples: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, as far as it was examined."""
        return not self.findings

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, in the order found."""
        return [finding.code for finding in self.findings]

    def find(self, code: str, evidence: str) -> None:
        """Add a finding; a code is reported once, with its first evidence."""
        if code not in self.codes:
            entry = _entry(code, CATALOGUE)
            self.findings.append(Finding(code, entry.title, evidence, entry.lesson))

    def remark(self, code: str, text: str) -> None:
        """Add a remark, once per code."""
        if code not in [remark.code for remark in self.remarks]:
            entry = _entry(code, REMARKS)
            self.remarks.append(Remark(code, entry.title, text, entry.lesson))

    def skip(self, what: str, why: str) -> None:
        """Note what could not be examined."""
        line = f"{what}: {why}"
        if line not in self.not_examined:
            self.not_examined.append(line)

    def raise_for_findings(self) -> None:
        """Raise when there are findings, and return None otherwise; for a test suite.

        Raises:
            FindingsError: an AssertionError that holds the whole report.
        """
        if self.findings:
            raise FindingsError(str(self))

    def example(self, code: str) -> object | None:
        """Return the smallest failing `Example` of a finding, or None where none of a few lines fails.

        It is looked for once, when it is first asked for, on the layer as it is then; the layer comes back as it was.

        Raises:
            KeyError: the report has no finding of this code.
        """
        if code not in self.codes:
            raise KeyError(f"no finding {code!r}; there are: {', '.join(self.codes) or 'none'}")
        if code not in self.examples:
            evidence = next(finding.evidence for finding in self.findings if finding.code == code)
            self.examples[code] = self.find_example(code, evidence, self.codes) if self.find_example else None
        return self.examples[code]

    def to_markdown(self) -> str:
        """Return the report as a page of Markdown, for an issue or a pull request where the layer comes from.

        For each finding it holds what was seen, what to know, and the smallest failing example as code that needs
        torch alone: only the line that makes the layer has to be filled in. Each example has failed on this layer
        before it is shown. The same text on every call.
        """
        return to_markdown(self)

    def __getstate__(self) -> dict:
        """Return what is copied and stored: the examples, not the layer of which they were made."""
        for code in self.codes:
            self.example(code)
        return {**vars(self), "find_example": None}

    @property
    def _verdict(self) -> str:
        if self.ok:
            return f"{self.subject}: no finding"
        return f"{self.subject}: {len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"

    @property
    def _asides(self) -> list[tuple[str, str]]:
        """What was said and counted beside the findings, each with its name."""
        heads = "" if self.heads is None else str(self.heads)
        return [(name, text) for name, text in (("called as", self.called_as), ("heads", heads)) if text]

    def __str__(self) -> str:
        lines = [self._verdict]
        lines += [f"  {finding}" for finding in self.findings]
        for head, entries in (("remarks", self.remarks), ("not examined", self.not_examined)):
            lines += [f"  {head}:", *(f"    {entry}" for entry in entries)] if entries else []
        for name, text in self._asides:
            first, *more = text.splitlines()
            lines += [f"  {name}: {first}", *(f"    {line}" for line in more)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(f.code, f.title, f.evidence, f.lesson) for f in self.findings]
        rows += [(r.code, f"remark: {r.title}", r.text, r.lesson) for r in self.remarks]
        rows += [("", "not examined", entry, "") for entry in self.not_examined]
        style = ' style="text-align: left; vertical-align: top; white-space: normal; overflow-wrap: anywhere'
        widths = ("min-width: 7em", "min-width: 9em", "min-width: 16em", "min-width: 16em")
        head = "".join(f'<th{style}">{name}</th>' for name in ("code", "what", "seen", "know"))
        body = "".join(
            "<tr>"
            + "".join(
                f'<td{style}; {width}">{_to_html(f"`{cell}`" if column == 0 and cell else cell)}</td>'
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            + "</tr>"
            for row in rows
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        asides = "".join(
            f"<div>{name}: {f'<code>{escape(text)}</code>' if name == 'called as' else escape(text)}</div>".replace(
                "\n", "<br>"
            )
            for name, text in self._asides
        )
        return f"<div><b>{escape(self._verdict)}</b></div>{table}{asides}"


def _to_html(text: str) -> str:
    """Return text escaped, with what stands in backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _entry(code: str, entries: dict[str, Entry]) -> Entry:
    if code not in entries:
        raise KeyError(f"{code!r} is no code of this kind; give it an entry in attention_doctor/catalogue.py")
    return entries[code]
