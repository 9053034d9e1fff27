"""What is said of a learner's test for a problem: the first that there is to say, see `judged`.

How a test is tried stands in `try_test`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mhacourse.advice import advice_for
from mhacourse.compare import kind_of
from mhacourse.note import Note, not_yet
from mhacourse.run import Failure
from mhacourse.stub import is_stub
from mhacourse.try_test import Call, Subject, source_of, tried

CLOSE = 1e-4  # what rounding may make of a number
OWN_WEIGHTS = re.compile(r"\.(W_\w+|weight\w*|qkv|proj|state_dict|parameters|split|fold)\b")
OWN_KIND = re.compile(r"type\(\w+\)\(|\.__class__\(|deepcopy\(")
ROUNDING = (
    "What it saw is rounding: two right ways to add the same numbers differ a little. torch.allclose(a, b, atol=1e-4) "
    "allows for that; == and torch.equal allow nothing, and allclose without atol 1e-8 near 0."
)

Change = Callable[[Tensor, Call, Sequence[Call]], Tensor]  # of the outputs of one call, given all calls


def judged(problem, test: object) -> Note:
    """Return what is to be said of a learner's test for a problem; its mood is "right" where the test is good."""
    if test is ... or test is None or is_stub(test):
        return Note("not yet written.", [("", f"When stuck: problem.{problem.name}.hint()")], code="stub")
    if isinstance(test, bool) or not callable(test) or isinstance(test, (type, nn.Module)):
        got = "the answer of your test" if isinstance(test, bool) else kind_of(test)
        words = f"expected the function my_test, got {got}; give the function itself, without calling it"
        return not_yet("type", ("", words))
    try:
        inspect.signature(test).bind("layer")
    except TypeError:
        words = f"the check calls it with one argument, a layer; yours takes {inspect.signature(test)}"
        return not_yet("arity", ("", f"{words}. Make the inputs inside of it: torch.randn(2, 5, layer.d_model)"))
    except ValueError:  # some built-in functions have no signature
        pass
    trial = tried(test, [*problem.ill, *problem.well, *problem.others, *problem.with_empty_rows])
    printed = [("You printed:", ""), ("code", trial.printed)] if trial.printed else []
    for note in (_nothing, _stopped, _no_answer, _masks_turned, _passes, _accuses):
        if said := note(problem, test, trial):
            return Note(said.title, [*said.parts, *printed], mood=said.mood, code=said.code)
    return Note("right.", [*_right(problem, trial), *printed], mood="right", code="right")


def _nothing(problem, test, trial) -> Note | None:
    if any(said is not None for said in trial.said):
        return None
    return not_yet("none", ("", "Your test returns None: print shows you a value, return hands it to the check."))


def _stopped(problem, test, trial) -> Note | None:
    """Tell an error on the layer in question, broken or mended; one of another style may be called otherwise."""
    ours = [*zip([*problem.ill, *problem.well], trial.said, strict=False)]
    failed = [(subject, said) for subject, said in ours if isinstance(said, Failure)]
    if not failed:
        return None
    (subject, failure), *_ = failed
    parts = [("It stopped:", failure.message), *([("code", failure.line)] if failure.line else [])]
    misfit = problem.misfit(subject, failure.message)
    parts += [("Your call:", misfit)] if misfit else []
    runs = {subject.size for subject, said in ours if not isinstance(said, Failure)}
    if failure.kind == "raised" and runs and not runs & {subject.size for subject, _ in failed}:
        parts.append(("", "At other sizes it runs: take them from the layer, layer.d_model and layer.num_heads."))
    elif problem.returns and "tuple" in failure.message:
        parts.append(("", problem.returns))
    elif not misfit and (advice := advice_for(failure.message)):
        parts.append(("Often:", advice))
    does = "raises" if failure.kind == "raised" else "does not end" if failure.kind == "time" else "stops"
    return not_yet(failure.kind, *parts, title=f"not yet: it {does} on {_named(problem, subject)}.")


def _no_answer(problem, test, trial) -> Note | None:
    for subject, said in zip(trial.subjects, trial.said, strict=False):
        if isinstance(said, str):
            return not_yet("answer", ("", f"For {_named(problem, subject)} your test returns {said}."))
    return None


def _masks_turned(problem, test, trial) -> Note | None:
    """Tell a test that would be right if True meant hidden."""
    subject = problem.well[0]
    if subject not in trial.which(False) or all(call.mask is None for call in subject.calls):
        return None
    *ill, well = tried(test, problem.turned).said
    if well is not True or False not in ill:
        return None
    words = "Your masks are True for what is to be hidden. Here True means: may attend. Hand over ~mask."
    return not_yet("mask", *_shown(subject), ("", words), title="not yet: it reads the mask the other way round.")


def _passes(problem, test, trial) -> Note | None:
    missed = [s for s in trial.which(True) if s in problem.ill]
    if problem.near and len(missed) < len(problem.ill):  # of several near variants, one is enough
        return None
    found, accused = [s for s in problem.ill if s not in missed], {*problem.well} <= {*trial.which(False)}
    if not missed or found and accused:
        return None
    subject = missed[0]
    title = f"not yet: your test passes {'every layer' if problem.near else 'the broken layer'}."
    parts = [("For example:", str(subject)), *_shown(subject)]
    if _is_secret(problem):
        title, parts = "not yet: your test says the same of every layer.", _shown(subject)
    if accused and not problem.near:
        title = "not yet: it passes the broken layer, and accuses each healthy one."
        why = "It is the wrong way round. True means: the layer is fine."
        if OWN_WEIGHTS.search(source_of(test)) or not _says_true(test, problem.well[0], problem.mends["random"]):
            why = _fitting(problem, problem.alarm, test, problem.well[0], as_broken=True)
        parts.append(("Why:", why))
    elif found:
        parts.append(("", f"It does see it in {found[0]}: what is different there? {problem.blind.get('partly', '')}"))
    elif why := _fitting(problem, problem.blind, test, subject):
        parts.append(("Blind:", why))
    return not_yet("passes", *parts, title=title)


def _fitting(problem, reasons: Mapping[str, str], test, subject: Subject, as_broken: bool = False) -> str:
    """Return the first of some reasons that fits how a layer was called, how a test is written, or what mends it."""
    source, calls = source_of(test), subject.calls
    own = OWN_WEIGHTS.search(source)
    written = {
        "as broken": as_broken,
        "no call": not calls and ".forward" not in source,
        "own order": own and (problem.near or subject in problem.others),
        "own numbers": own,
        "own kind": calls and OWN_KIND.search(source),
        "second name": (line := _second_name(source)),
    }

    def fits(name: str) -> bool:
        unseen, change = problem.unseen.get(name), problem.mends.get(name)
        if name in written or not calls or not (unseen or change):
            return bool(written.get(name))
        return (not unseen or unseen(calls)) and (not change or _says_true(test, subject, change))

    return next((words.replace("{line}", line) for name, words in reasons.items() if fits(name)), "")


def _second_name(source: str) -> str:
    """Return the line that gives a tensor a second name, where both names are used together; else nothing."""
    lines = [line.strip() for line in re.split(r"[;\n]", source)]
    for line in lines:
        names = re.fullmatch(r"(\w+) = (\w+)(?:\.(?:detach|view)\([^()]*\)|\.data|\[:\])?", line)
        if names and any({*names.groups()} <= {*re.findall(r"\w+", other)} for other in lines if other != line):
            return line
    return ""


def _accuses(problem, test, trial) -> Note | None:
    accused = [s for s in trial.which(False) if s not in problem.ill]
    if not accused:
        return None
    subject = accused[0]
    secret = _is_secret(problem) and subject in problem.well
    title = "not yet: it also accuses a healthy layer."
    if problem.near and subject in problem.well:
        title = "not yet: it accuses this layer, which does what it should."
    if secret:
        title = f"not yet: look at problem.{problem.name}.cause first."
    parts = [*([] if secret else [("For example:", str(subject))]), *_shown(subject)]
    if not subject.calls and not trial.which(True):
        title = "not yet: your test says the same of every layer." if secret else title
        parts.append(("", "It says False of every layer, and so it says nothing."))
    why = ROUNDING if _sees_rounding_alone(test, subject) else _fitting(problem, problem.alarm, test, subject)
    return not_yet("accuses", *parts, *([("Why:", why)] if why else []), title=title)


def _is_secret(problem) -> bool:
    """Return whether a layer is healthy and its reader has not found that yet."""
    return bool(problem.near) and "cause" not in problem.done


def _named(problem, subject: Subject) -> str:
    return f"a layer, d_model={subject.size[0]}, num_heads={subject.size[1]}" if _is_secret(problem) else str(subject)


def _says_true(test, subject: Subject, change: Change) -> bool:
    """Return whether a test says True of a layer whose outputs are changed."""
    calls = [*subject.calls]

    def changed(layer, given, output):
        first, *rest = output if isinstance(output, tuple) else (output,)
        if not isinstance(first, Tensor) or first.ndim != 3 or not subject.calls:
            return output
        first = change(first, subject.calls[-1], calls)
        return (first, *rest) if rest else first

    hook = subject.layer.register_forward_hook(changed)
    try:
        return tried(test, [subject]).said == [True]
    finally:
        hook.remove()
        subject.calls[:] = calls


class _Loosely(TorchFunctionMode):
    """Lets comparisons of torch allow for rounding, however they are written."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "").strip("_")
        a, b = args[:2] if len(args) > 1 else (None, None)
        numbers = isinstance(a, Tensor) and a.is_floating_point()
        if numbers and name in ("allclose", "isclose", "equal", "eq", "ne"):
            b = torch.as_tensor(b, dtype=a.dtype)
            if name in ("allclose", "equal") and a.shape != b.shape:
                return False
            close = torch.isclose(a, b, rtol=CLOSE, atol=CLOSE)
            return bool(close.all()) if name in ("allclose", "equal") else ~close if name == "ne" else close
        if numbers and name in ("lt", "le", "gt", "ge") and isinstance(b, (int, float)) and 0 <= b < CLOSE:
            args = (a, CLOSE)
        return function(*args, **kwargs)


def _sees_rounding_alone(test, subject: Subject) -> bool:
    """Return whether a test stops accusing a layer once comparisons allow for rounding."""
    with _Loosely():
        return tried(test, [subject]).said == [True]


def _right(problem, trial) -> list[tuple[str, str]]:
    """Return which near variants of a healthy layer a test sees or misses, and on which other style it stops."""
    near = dict(zip(problem.near, trial.said, strict=False))
    seen, missed = ([name for name in near if near[name] is said] for said in (False, True))
    parts = [("", f"The layer passes. Your test would have seen {_listed(seen)}.")] if near else []
    parts += [("", f"It would have missed {_listed(missed)}.")] if missed else []
    for subject, said in zip(trial.subjects, trial.said, strict=False):
        if isinstance(said, Failure) and subject in problem.others:
            words = f"On {subject.name} it stops ({said.message}), so it is made for layers that are built as this one."
            return [*parts, ("Note:", words)]
    return parts


def _shown(subject: Subject) -> list[tuple[str, str]]:
    lines = [f"layer({call})" for call in subject.calls[:4]]
    more = len(subject.calls) - len(lines)
    if more > 0:
        lines.append(f"… and {more} more calls" if more > 1 else "… and one more call")
    return [("Your calls:", ""), ("code", "\n".join(lines))] if lines else []


def _listed(names: Sequence[str]) -> str:
    *most, last = names or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else last
