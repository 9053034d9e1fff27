"""What the doctor says: findings, remarks, what was not examined; as text, as a table, as an error for a test suite.

The catalogue below holds one entry per code: what is wrong and where it is taught. Nothing is examined here.
"""

from dataclasses import dataclass, field
from html import escape

CATALOGUE = {
    "shape": (
        "the output has the wrong shape",
        "One output per query: (B, T, d_model) in, (B, T, d_out) out. If the output is not the first that it returns: adapt(layer, output=1). Notebook 00.",
    ),
    "crash": (
        "it raises an error on legal input",
        "Every batch size and length is legal. Is d_model what the layer takes? If it is called in another way, say so: adapt(layer, ...). If it fails only with a mask: that may be (T, T) or (B, T, T), and one per sample needs an axis for the heads, mask[:, None]. Notebooks 00 and 04.",
    ),
    "not-finite": (
        "the output holds NaN or infinity",
        "As long as each query may see one key, every number is finite; look for 0/0 and inf - inf in the softmax. Notebook 02.",
    ),
    "not-deterministic": (
        "two calls with the same input differ",
        "Dropout belongs to training: switch it off in eval(), and use self.training or nn.Dropout. Or does it keep something from call to call, such as a cache? Notebook 06.",
    ),
    "mutates-input": (
        "it changes the tensors that it was given",
        "An in-place operation such as `scores += mask` or `mask *= ...` reaches the caller's tensor; work on a copy. Notebook 04.",
    ),
    "mixes-samples": (
        "one sample changes the output of another",
        "Samples of a batch know nothing of each other; check which axis is the batch, and how heads are folded into it and out again. If it takes (T, B, d_model): adapt(layer, batch_first=False). Notebooks 03 and 06.",
    ),
    "no-mixing": (
        "no token sees any other token",
        "Attention goes over the axis of the tokens: the heads must stand before it, (B, num_heads, T, head_dim), when q meets k. Notebook 03.",
    ),
    "mixes-tokens": (
        "the split into heads mixes the tokens",
        "Cut the features first, then swap: (B, T, h, hd), then transpose(1, 2); a single reshape to (B, h, T, hd) gives the right shape and the wrong numbers. Notebook 03.",
    ),
    "mixes-tokens-on-merge": (
        "the merge of the heads mixes the tokens",
        "transpose(1, 2) before the reshape to (B, T, d_model), or a token gets what other tokens' heads have found. Notebook 05.",
    ),
    "softmax-axis": (
        "the softmax goes over the wrong axis",
        "Each query spreads a weight of 1 over its keys: softmax(-1) on scores (B, h, Tq, Tk). Notebook 02.",
    ),
    "future-leak": (
        "an output depends on a later token",
        "A causal query t sees the keys 0 to t: torch.tril keeps the diagonal and what is below. Notebook 04.",
    ),
    "mask-ignored": (
        "the mask changes nothing",
        "Hide keys before the softmax: scores.masked_fill(~mask, -inf). Notebook 04.",
    ),
    "mask-leaks": (
        "hidden tokens still have an effect",
        "A hidden key must have a score of -inf (or very negative) before the softmax; zeros after it, 0/1 numbers added to the scores, or 1e-9 for -1e9 do not hide it. If it adds its mask to the scores on purpose: adapt(layer, mask='additive'). Notebook 04.",
    ),
    "mask-inverted": (
        "the mask is read the wrong way round",
        "Here True means may attend; nn.MultiheadAttention's True means blocked. Convert with ~mask, or, if that is its way, adapt(layer, mask='blocked'). Notebook 04.",
    ),
    "mask-transposed": (
        "the mask is read with queries and keys swapped",
        "Rows are queries, columns are keys: mask[t, j] says whether query t may see key j. Notebook 04.",
    ),
    "mask-order": (
        "a sample is given the mask of another sample",
        "For heads folded into the batch a mask is repeated as a, a, ..., b, b, ... (repeat_interleave); otherwise it needs a head axis, mask[:, None]. Notebook 04.",
    ),
    "nan-on-empty-row": (
        "a query with no key gives NaN",
        "A softmax over nothing but -inf is 0/0; give such a row zeros, in the gradient too. Notebook 04.",
    ),
    "dead-parameters": (
        "parameters that have no part in the output",
        "A parameter that no gradient reaches is never trained: is the projection called, and is its result used? Notebook 06.",
    ),
    "wrong-scale": (
        "the scores have another scale than 1/sqrt(head_dim)",
        "A dot product of head_dim numbers grows like sqrt(head_dim); that is what the scale takes back. Notebook 02.",
    ),
    "heads-unused": (
        "it has another number of heads than stated",
        "Split into num_heads before the scores are computed; one softmax over all features is one head. Notebook 03.",
    ),
}


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
    """A matter of taste, or of design: worth knowing, no fault."""

    code: str
    text: str

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
        remarks: matters of taste, each with `.code`, `.text`.
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
            title, lesson = CATALOGUE[code]
            self.findings.append(Finding(code, title, evidence, lesson))

    def remark(self, code: str, text: str) -> None:
        """Add a remark, once per code."""
        if code not in [remark.code for remark in self.remarks]:
            self.remarks.append(Remark(code, text))

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
        rows += [(r.code, "remark", r.text, "") for r in self.remarks]
        rows += [("", "not examined", entry, "") for entry in self.not_examined]
        style = ' style="text-align: left; vertical-align: top"'
        head = "".join(f"<th{style}>{name}</th>" for name in ("code", "what", "seen", "know"))
        body = "".join("<tr>" + "".join(f"<td{style}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<div><b>{escape(self._verdict)}</b></div>{table}"
