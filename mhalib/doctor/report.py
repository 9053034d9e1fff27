"""What the doctor says: findings, remarks, what was not examined; as text, as a table, as an error for a test suite.

What a code means stands in `catalogue`. Nothing is examined here.
"""

from dataclasses import dataclass, field
from html import escape

from mhalib.doctor.catalogue import CATALOGUE, REMARKS, Entry


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
    """Raised by `Report.raise_for_findings`; its message is the report."""


@dataclass
class Report:
    """What `examine` found.

    Args:
        subject: the name of what was examined.
        findings: what is wrong, each with `.code`, `.title`, `.evidence`, `.lesson`.
        remarks: matters of taste, each with `.code`, `.title`, `.text`, `.lesson`.
        not_examined: what could not be examined, and why.
    """

    subject: str = "the layer"
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    not_examined: list[str] = field(default_factory=list)

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

    @property
    def _verdict(self) -> str:
        if self.ok:
            return f"{self.subject}: no finding"
        return f"{self.subject}: {len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"

    def __str__(self) -> str:
        lines = [self._verdict]
        lines += [f"  {finding}" for finding in self.findings]
        for head, entries in (("remarks", self.remarks), ("not examined", self.not_examined)):
            lines += [f"  {head}:", *(f"    {entry}" for entry in entries)] if entries else []
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(f.code, f.title, f.evidence, f.lesson) for f in self.findings]
        rows += [(r.code, f"remark: {r.title}", r.text, r.lesson) for r in self.remarks]
        rows += [("", "not examined", entry, "") for entry in self.not_examined]
        style = ' style="text-align: left; vertical-align: top"'
        head = "".join(f"<th{style}>{name}</th>" for name in ("code", "what", "seen", "know"))
        body = "".join("<tr>" + "".join(f"<td{style}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<div><b>{escape(self._verdict)}</b></div>{table}"


def _entry(code: str, entries: dict[str, Entry]) -> Entry:
    if code not in entries:
        raise KeyError(f"{code!r} is not among the codes of this kind; give it an entry in mhalib/doctor/catalogue.py")
    return entries[code]
