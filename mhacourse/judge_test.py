"""What is said of a learner's test for a problem: the first that there is to say, see `judged`.

How a test is tried stands in `try_test`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from unittest.mock import patch

import torch
from torch import Tensor, nn

from mhacourse.advice import advice_for
from mhacourse.compare import kind_of
from mhacourse.note import Note, not_yet
from mhacourse.run import Failure
from mhacourse.stub import is_stub
from mhacourse.try_test import Subject, source_of, tried

OWN_WEIGHTS = re.compile(r"\.(W_\w+|weight\w*|qkv|proj|state_dict|parameters|split|fold)\b")


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
    ill, well, fellows = problem.ill, problem.well, problem.others
    empty = problem.with_empty_rows
    trial = tried(test, [*ill, *well, *fellows, *empty])
    printed = [("You printed:", ""), ("code", trial.printed)] if trial.printed else []
    for note in (_nothing, _stopped, _no_answer, _masks_turned, _passes, _accuses):
        if said := note(problem, test, trial):
            return Note(said.title, [*said.parts, *printed], mood=said.mood, code=said.code)
    return Note("right.", [*_right(problem, test, trial), *printed], mood="right", code="right")


def _nothing(problem, test, trial) -> Note | None:
    if any(said is not None for said in trial.said):
        return None
    return not_yet("none", ("", "Your test returns None: print shows you a value, return hands it to the check."))


def _stopped(problem, test, trial) -> Note | None:
    """Tell an error on the layer in question, broken or mended; on a layer of another style it is only a remark."""
    ours = len(problem.ill) + len(problem.well)
    failed = [(i, said) for i, said in enumerate(trial.said[:ours]) if isinstance(said, Failure)]
    if not failed:
        return None
    (number, failure), *_ = failed
    subject = trial.subjects[number]
    parts = [("It stopped:", failure.message), *([("code", failure.line)] if failure.line else [])]
    if failure.kind == "raised" and len({trial.subjects[i].size for i, _ in failed}) < len(
        {s.size for s in trial.subjects[:ours]}
    ):
        parts.append(("", "At other sizes it runs: take them from the layer, layer.d_model and layer.num_heads."))
    elif problem.returns and "tuple" in failure.message:
        parts.append(("", problem.returns))
    elif advice := advice_for(failure.message):
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
    if not missed:
        return None
    subject = missed[0]
    title = f"not yet: your test passes {'every layer' if problem.near else 'the broken layer'}."
    parts = [("For example:", str(subject)), *_shown(subject)]
    if _is_secret(problem):
        title, parts = "not yet: your test says the same of every layer.", _shown(subject)
    found = [s for s in problem.ill if s not in missed]
    if {*problem.well} <= {*trial.which(False)} and not problem.near:
        title = "not yet: it passes the broken layer, and accuses each healthy one."
        parts.append(("Why:", problem.alarm["as broken"]))
        if not OWN_WEIGHTS.search(source_of(test)):
            parts.append(("", "Or is it the wrong way round? True means: the layer is fine."))
    elif found and not problem.near:
        parts.append(("", f"It does see it in {found[0]}: what is different there? {problem.blind.get('partly', '')}"))
    elif why := _blind(problem, test, subject):
        parts.append(("Blind:", why))
    elif not subject.calls and ".forward" not in source_of(test):
        parts.append(("Blind:", "It never calls the layer: layer(x)."))
    return not_yet("passes", *parts, title=title)


def _blind(problem, test, subject: Subject) -> str:
    """Return why a test passes a broken layer: a tensor has two names, or it never looked at something."""
    lines = re.split(r"[;\n]", source_of(test))
    for line in lines:
        names = re.fullmatch(r"\s*(\w+) = (\w+)(?:\.(?:detach|view)\(.*\)|\.data|\[:\])?\s*", line)
        if names and any({*names.groups()} <= {*re.findall(r"\w+", other)} for other in lines if other is not line):
            return problem.blind["second name"].format(line=line.strip())
    why, otherwise = _fitting(problem, problem.blind, subject), problem.blind.get("otherwise", "")
    if why != otherwise or problem.spoils or problem.near:  # where the outputs are right, it may leave them alone
        return why
    rows = max((call.x.shape[1] for call in subject.calls), default=0)
    for name, first in (("random", 0), ("row 0", 1)):
        if rows > first and _says_true(test, subject, _drawn_from(first)):
            return f"{problem.blind[name]} {otherwise}".rstrip()
    return why


def _fitting(problem, reasons: Mapping[str, str], subject: Subject) -> str:
    """Return the first of some reasons that fits how a layer was called, or nothing."""
    seen = {name: unseen(subject.calls) for name, unseen in problem.unseen.items() if subject.calls}
    return next((words for name, words in reasons.items() if seen.get(name)), "")


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
    why = "" if secret else _fitting(problem, problem.alarm, subject)
    if not subject.calls and ".forward" not in source_of(test) and trial.which(True):
        why = problem.alarm["no call"]
    if OWN_WEIGHTS.search(source_of(test)):
        why = problem.alarm["own order" if problem.near or subject in problem.others else "own numbers"]
    empty = any(call.mask is not None and not call.mask.bool().any(-1).all() for call in subject.calls)
    hidden = _hidden(subject)
    if hidden and _says_true(test, subject, lambda y: y.index_fill(1, torch.tensor(hidden), 0.0)):
        why = "A hidden token still asks: its own output changes with it. Compare the outputs of the others."
    if empty:
        why = "A query with nothing to see may give anything: leave such rows of a mask out of what you compare."
    if _sees_rounding_alone(test, subject):
        why = "What it saw is rounding: two right ways to add the same numbers differ a little. torch.allclose(a, b, "
        why += "atol=1e-4) allows for that; torch.equal allows nothing, and allclose without atol 1e-8 near 0."
    elif "==" in source_of(test) and subject.calls:
        parts.append(("", "If it compares numbers with ==: rounding differs; torch.allclose(a, b, atol=1e-4)."))
    parts += [("Why:", why)] if why else []
    return not_yet("accuses", *parts, title=title)


def _is_secret(problem) -> bool:
    """Return whether a layer is healthy and its reader has not found that yet."""
    return bool(problem.near) and "cause" not in problem.done


def _named(problem, subject: Subject) -> str:
    return f"a layer, d_model={subject.size[0]}, num_heads={subject.size[1]}" if _is_secret(problem) else str(subject)


def _says_true(test, subject: Subject, change: Callable[[Tensor], Tensor]) -> bool:
    """Return whether a test says True of a layer whose outputs are changed."""

    def changed(layer, given, output):
        first, *rest = output if isinstance(output, tuple) else (output,)
        if not isinstance(first, Tensor) or first.ndim != 3:
            return output
        return (change(first), *rest) if rest else change(first)

    hook = subject.layer.register_forward_hook(changed)
    try:
        return tried(test, [subject]).said == [True]
    finally:
        hook.remove()


def _drawn_from(row: int) -> Callable[[Tensor], Tensor]:
    """Return what makes all rows from one on random, others in each call, whatever a test sows."""
    chance = torch.Generator().manual_seed(row)
    return lambda y: torch.cat([y[:, :row], torch.randn(y[:, row:].shape, generator=chance)], dim=1)


def _hidden(subject: Subject) -> list[int]:
    """Return the tokens that the mask of a call hides from all others, where all calls have as many tokens."""
    masks = [call.mask.bool() for call in subject.calls if isinstance(call.mask, Tensor)]
    if len({call.x.shape[1] for call in subject.calls}) != 1 or len({mask.shape[-2:] for mask in masks}) != 1:
        return []
    T = subject.calls[0].x.shape[1]
    if masks[0].shape[-2:] != (T, T) or any(call.given.get("memory") is not None for call in subject.calls):
        return []
    others = ~torch.eye(T, dtype=torch.bool)
    seen = torch.stack([(mask & others).any(-2).reshape(-1, T).all(0) for mask in masks]).all(0)
    return (~seen).nonzero()[:, 0].tolist()


def _sees_rounding_alone(test, subject: Subject) -> bool:
    """Return whether a test stops accusing a layer once torch's comparisons allow for rounding."""
    close = torch.allclose

    def loosely(a, b, rtol=1e-4, atol=1e-4, **options):
        return a.shape == b.shape and close(a, b, rtol=max(rtol, 1e-4), atol=max(atol, 1e-4), **options)

    def equal(a, b):
        return loosely(a, b) if a.is_floating_point() else a.shape == b.shape and bool((a == b).all())

    with patch.object(torch, "allclose", loosely), patch.object(torch, "equal", equal):
        return tried(test, [subject]).said == [True]


def _right(problem, test, trial) -> list[tuple[str, str]]:
    parts = []
    if problem.near:
        near = dict(zip(problem.near, trial.said, strict=False))
        seen, missed = ([name for name in near if near[name] is said] for said in (False, True))
        parts.append(("", f"The layer passes. Your test would have seen {_listed(seen)}."))
        parts += [("", f"It would have missed {_listed(missed)}.")] if missed else []
    for subject, said in zip(trial.subjects, trial.said, strict=False):
        if isinstance(said, Failure) and subject in problem.others:
            words = f"On {subject.name} it stops ({said.message}), so it is made for layers that are built as this one."
            parts.append(("Note:", words))
            break
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
