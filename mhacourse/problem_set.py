"""A problem: a broken layer, of which one says what is wrong, shows it by a test, and mends it.

The healthy layer is code; the broken one is the same code with some pieces changed, so that the two never drift apart.
How a test is tried is said in `try_test`, what is said of it in `judge_test`, of a mended layer in
`judge_mend`; the problems themselves stand in `lessons.problems`.
"""

import contextlib
import difflib
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from attention_doctor import Report, adapt, examine
from mhacourse.attempt import same_result
from mhacourse.compare import kind_of, show
from mhacourse.exercise import OUR_SECONDS, SOLVED_BEFORE, Change, Wrong, rewritten
from mhacourse.judge import letters_in
from mhacourse.judge_mend import calls_of, judged_mending, outcomes_of
from mhacourse.judge_test import judged
from mhacourse.note import ByName, Note, bar, hints_so_far, not_yet
from mhacourse.run import Outcome
from mhacourse.try_test import LARGER, Otherwise, Subject, made
from mhalib.arguments import as_torch_starts

SIZES = ((8, 2), (12, 3), (32, 4))  # d_model, num_heads: the layers that a test is tried on, the smallest first
AT_THE_DOCTOR = (16, 4)
PARTS = ("cause", "test", "mend")
STILL = "In the layer as given, that line was right, and another was wrong."
LOW = [Change("-torch.inf", "-1e9"), Change("-1e9", "-torch.inf")]  # a hidden score, as people write it
EMPTY_ROWS = {"0": 0.0, "NaN": math.nan}


def filled(fill: float, layer: nn.Module, args: tuple, named: dict, output: object) -> object:
    """Return the output with a number where the mask leaves a query nothing to see."""
    given = inspect.signature(type(layer).forward).bind(layer, *args, **named).arguments
    mask = given.get("mask")
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or not isinstance(output, Tensor):
        return output
    return output.masked_fill(~mask.any(-1, keepdim=True), fill)


def rounded(layer: nn.Module, args: tuple, output: object) -> object:
    """Return the output as if each number of tokens and samples made the sums round otherwise, as it does on a GPU."""
    first, *rest = output if isinstance(output, tuple) else (output,)
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return output
    first = first * (1 + first.numel() % 5 * torch.finfo(first.dtype).eps)
    return (first, *rest) if rest else first


@dataclass(repr=False, eq=False)
class Problem:
    """One layer of the set.

    Args:
        saw: what its owner saw, in a phrase.
        healthy: the layer as it should be, a class made by `healthy(d_model, num_heads)`.
        changes: what breaks it; none where the layer is healthy.
        right: the letter of the cause.
        options: for each letter why it is the cause or is not, by evidence.
        hints: from the first to the last.
        shown_by: a test that shows it, True for a healthy layer.
        cases: by name, a function of a layer and its d_model whose results must be those of the healthy layer.
        blind: why a test sees nothing that never looked at this, by names; see `judge_test` for which is said.
        alarm: the same for a test that accuses a healthy layer.
        unseen: of the calls of a test, by name, whether they never looked at something.
        hides: by name, what is drawn anew to see whether that one thing about the inputs hides what is wrong.
        unheard: by name, what is true of a test and a layer, such as that any outputs make it say True.
        mends: by name, the one thing done otherwise with which a test is right if that was the mistake.
        misfit: says which argument of a call that raised is not as the layer takes it.
        fellows: healthy layers in other styles that are called in the same way, each by a phrase.
        near: for a healthy layer, changes that would break it, each by a phrase: a test must see one of them.
        wrong: mended layers that are not right, by a short name that becomes the headline; each answer, and each in
            `also`, is a list of `Change`s of the healthy layer, tried with the given mistake still there as well.
        same: by a pattern in its source, why a layer that was rewritten does as before; the first that fits is said.
        returns: said to who takes what the layer returns for a tensor, where it is a tuple.
        sizes: the `(d_model, num_heads)` at which a test is tried.
        adapted: how the doctor is told to call it, and the code that says so.
        word: what the doctor's word means here, or why he has none.
        spoils: does the given layer change what it is handed? Else no mended one may.

    Its name comes from the variable that holds it, see `Problems`.
    """

    saw: str
    healthy: type[nn.Module]
    right: str
    options: Mapping[str, str]
    hints: Sequence[str]
    shown_by: Callable
    cases: Mapping[str, Callable]
    changes: Sequence[Change] = ()
    blind: Mapping[str, str] = field(default_factory=dict)
    alarm: Mapping[str, str] = field(default_factory=dict)
    fellows: Mapping[str, Callable] = field(default_factory=dict)
    near: Mapping[str, Change] = field(default_factory=dict)
    unseen: Mapping[str, Callable] = field(default_factory=dict)
    hides: Mapping[str, Otherwise] = field(default_factory=dict)
    unheard: Mapping[str, Callable] = field(default_factory=dict)
    mends: Mapping[str, Otherwise] = field(default_factory=dict)
    misfit: Callable | None = None
    wrong: Mapping[str, Wrong] = field(default_factory=dict)
    same: Mapping[str, str] | Callable = field(default_factory=dict)
    returns: str = ""
    sizes: Sequence[tuple[int, int]] = SIZES
    adapted: tuple[Callable, str] = (adapt, "adapt(layer)")
    word: str = ""
    spoils: bool = False

    name: str = field(default="", init=False)
    siblings: list = field(default_factory=list, init=False, repr=False)
    done: set = field(default_factory=set, init=False)
    hints_shown: int = field(default=0, init=False)
    _known: dict[tuple[type[nn.Module], int], Outcome] = field(default_factory=dict, init=False, repr=False)

    # ------------------------------------------------------------------------------------------- what a reader calls

    def cause(self, letter: object = ...) -> Note:
        """Say whether this is the cause; the letter of one of the choices."""
        return self._told("cause", self._cause(letter))

    @as_torch_starts()
    def test(self, my_test: object = ...) -> Note:
        """Try a test `my_test(layer)`, which returns True where the layer is fine, on broken and on healthy layers."""
        return self._told("test", judged(self, my_test))

    @as_torch_starts()
    def mend(self, layer: object = ...) -> Note:
        """Compare a mended class with the healthy one, at the same weights."""
        return self._told("mend", judged_mending(self, layer))

    def __call__(self, *given: object) -> Note:
        name = f"problem.{self.name}"
        asked = f'{name}.cause("A"), {name}.test(my_test), {name}.mend({self.healthy.__name__})'
        raise TypeError(f"each problem asks three questions: write {asked}")

    def hint(self) -> Note:
        """Return the hints so far and one more."""
        self.hints_shown = min(self.hints_shown + 1, len(self.hints))
        return hints_so_far(f"problem.{self.name}", self.hints, self.hints_shown)

    def solution(self) -> Note:
        """Return the cause, a test that shows it, and the lines that mend it."""
        lines = [line for line in difflib.ndiff(self.source.splitlines(), self.healed.splitlines()) if line[0] in "+-"]
        mended = [("Mend it:", ""), ("code", "\n".join(lines) or "there is nothing to mend")]
        shown_by = inspect.getsource(self.shown_by).replace(f"def {self.shown_by.__name__}", "def my_test")
        parts = [(f"{self.right}.", self.options[self.right]), ("Show it:", ""), ("code", shown_by), *mended]
        return Note(f"problem.{self.name} · one solution", parts)

    def code(self) -> Note:
        """Return the layer as it was given."""
        return Note(f"problem.{self.name} · the layer as it was given", [("code", self.source.rstrip())])

    def doctor(self) -> Note:
        """Return what the doctor says of the layer."""
        report = self.report()
        asked = "examine({}, d_model={}, num_heads={})".format(self.adapted[1], *AT_THE_DOCTOR)
        parts = [("You ask:", ""), ("code", asked)]
        for finding in report.findings:
            parts += [("Finding:", f"{finding.title} ({finding.code})"), ("Seen:", finding.evidence)]
        parts += [("Remark:", remark.text) for remark in report.remarks if not report.findings]
        parts += [("", "No finding.")] if report.ok else []
        return Note(f"problem.{self.name} · the doctor", [*parts, ("So:", self.word)])

    def __repr__(self) -> str:
        return f"problem.{self.name} · {bar(len(self.done), len(PARTS))}\n{self.saw}"

    def _told(self, part: str, note: Note) -> Note:
        if note.passed:
            self.done |= {part} if self.changes or part != "cause" else {part, "mend"}  # healthy: it is left as it is
        solved = sum(problem.is_solved for problem in self.siblings)
        footer = f"{self.name} {bar(len(self.done), len(PARTS))} · all {bar(solved, len(self.siblings))}"
        footer = SOLVED_BEFORE if part in self.done and not note.passed else footer
        return replace(note, title=f"{self.name}, {part}: {note.title}", footer=footer)

    # ------------------------------------------------------------------------------------------- what it is made of

    @property
    def is_solved(self) -> bool:
        """Whether all of it was done."""
        return self.done >= set(PARTS)

    @cached_property
    def healed(self) -> str:
        """The source of the healthy layer."""
        return inspect.getsource(self.healthy)

    @cached_property
    def source(self) -> str:
        """The source of the layer that is given."""
        return rewritten(self.healed, self.changes)

    @cached_property
    def given(self) -> type[nn.Module]:
        """The layer that is given."""
        return self._changed(self.changes)

    def _changed(self, changes: Sequence[Change]) -> type[nn.Module]:
        names = dict(vars(sys.modules[self.healthy.__module__]))
        exec(rewritten(self.healed, changes), names)
        return names[self.healthy.__name__]

    @cached_property
    def ill(self) -> list[Subject]:
        """The layers that a test must accuse; of a healthy layer, its near variants, of which one is enough."""
        if self.near:
            near = {f"the layer with {name}": self._changed([change]) for name, change in self.near.items()}
            return [Subject(made(kind, self.sizes[0], 0), name, self.sizes[0]) for name, kind in near.items()]
        return [Subject(made(self.given, size, seed), "the broken layer", size) for seed, size in enumerate(self.sizes)]

    @cached_property
    def well(self) -> list[Subject]:
        """The same layers mended, with other weights and with larger ones."""
        name = "the layer as it is" if self.near else "the mended layer"
        seeds = [(seed, size, 1.0) for seed, size in enumerate((*self.sizes, *self.sizes))]
        seeds += [(10 + seed, size, LARGER) for seed, size in enumerate(self.sizes[:2])]
        named = {1.0: name, LARGER: f"{name} with weights six times as large"}
        return [Subject(made(self.healthy, size, seed, factor), named[factor], size) for seed, size, factor in seeds]

    @cached_property
    def others(self) -> list[Subject]:
        """Healthy layers in other styles."""
        size, kinds = self.sizes[1], enumerate(self.fellows.items())
        name = "a healthy layer in another style"
        found = [Subject(made(kind, size, 20 + seed), f"{name} ({style})", size) for seed, (style, kind) in kinds]
        layer = made(self.healthy, size, 41)
        layer.register_forward_hook(rounded)
        return [*found, Subject(layer, "a healthy layer that rounds differently at other sizes", size)]

    @cached_property
    def with_empty_rows(self) -> list[Subject]:
        """Healthy layers that differ in what a row with nothing to see gives: that is nobody's mistake."""
        subjects = []
        for name, fill in EMPTY_ROWS.items():
            layer = made(self.healthy, self.sizes[1], 40)
            layer.register_forward_hook(partial(filled, fill), with_kwargs=True)
            name = f"a healthy layer that returns {name} where a query sees nothing"
            subjects.append(Subject(layer, name, self.sizes[1]))
        return subjects

    @cached_property
    def right_outcomes(self) -> list[Outcome]:
        """What the healthy layer does in each case."""
        return outcomes_of(self, self.healthy, OUR_SECONDS)[0]

    @cached_property
    def given_outcomes(self) -> list[Outcome]:
        """What the given layer does in each case."""
        return outcomes_of(self, self.given, OUR_SECONDS)[0]

    @cached_property
    def mended_wrongly(self) -> list[tuple[str, Wrong, type[nn.Module]]]:
        """Of each wrong mending its name, its text and the class: first alone, then beside the given mistake."""
        entries = [
            (name, *((c, c.answer) if isinstance(c, Wrong) else (wrong, c)))
            for name, wrong in self.wrong.items()
            for c in (wrong.answer, *wrong.also)
        ]
        if self.changes:
            still = [(name, replace(wrong, why=f"{wrong.why} {STILL}"), c) for name, wrong, c in entries]
            entries += [(name, wrong, [*self.changes, *changes]) for name, wrong, changes in still]
        lower = [(name, wrong, [*changes, low]) for low in LOW for name, wrong, changes in entries]
        made = []
        for name, wrong, changes in [*entries, *lower]:
            with contextlib.suppress(ValueError, SyntaxError):  # it changes a line that is gone, or breaks it
                made.append((name, wrong, self._changed(changes)))
        return made

    def catalogue(self, outcomes: Sequence[Outcome]) -> list[tuple[str, Wrong, list[Outcome]]]:
        """Return the wrong mendings, with what they do, that do as `outcomes` in the first call that is wrong."""
        pairs = zip(self.right_outcomes, outcomes, strict=False)
        at = next((i for i, pair in enumerate(pairs) if not same_result(*pair)), 0)
        alike = [one for one in self.mended_wrongly if same_result(self._outcome(one[2], at), outcomes[at])]
        return [(name, wrong, outcomes_of(self, kind, OUR_SECONDS)[0]) for name, wrong, kind in alike]

    def _outcome(self, kind: type[nn.Module], at: int) -> Outcome:
        if (kind, at) not in self._known:
            self._known[kind, at] = outcomes_of(self, kind, OUR_SECONDS, [calls_of(self)[at]])[0][0]
        return self._known[kind, at]

    def report(self, kind: type[nn.Module] | None = None) -> Report:
        """Return what the doctor finds in the layer that is given, or in another one."""
        layer = made(kind or self.given, AT_THE_DOCTOR, 0)
        return examine(self.adapted[0](layer), *AT_THE_DOCTOR, module=layer)

    # ------------------------------------------------------------------------------------------- what is wrong?

    def _cause(self, letter: object) -> Note:
        if letter is ... or letter is None:
            return Note("not yet chosen.", [("", f"When stuck: problem.{self.name}.hint()")], code="stub")
        text = letter.upper() if isinstance(letter, str) else ""
        letters = letters_in(letter) or set()
        if len(letters) > 1 and letters <= set(self.options):
            words = f"One letter, please: which of them explains everything that was seen? You gave {show(letter)}."
            return not_yet("type", ("", words))
        found = re.match(r"\W*([A-Z])\b", text)  # as in "B: the split"
        if found is None or found[1] not in self.options:
            got = show(letter) if isinstance(letter, str) else kind_of(letter)
            words = f'expected one letter out of {", ".join(self.options)}, such as "A", got {got}'
            return not_yet("type", ("", words))
        chosen = found[1]
        said = ("", self.options[chosen])
        if chosen != self.right:
            return not_yet(f"not {chosen}", said, title=f"not {chosen}.")
        return Note(f"right, {chosen}.", [said], mood="right", code="right")


class Problems(ByName):
    """All problems by name, in the order of the notebook; the names complete with Tab."""

    def __init__(self, problems: Mapping[str, Problem]):
        super().__init__("problem", "problem", dict(problems))
        for name, problem in problems.items():
            problem.name, problem.siblings = name, list(problems.values())

    def __repr__(self) -> str:
        width = max(map(len, dir(self)))
        return "\n".join(f"{p.name:{width}}  {bar(len(p.done), len(PARTS)):10}  {p.saw}" for p in self)
