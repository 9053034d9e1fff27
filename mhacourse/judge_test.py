"""What a check says of a learner's test for a problem: the first note that applies, see `judged`.

`try_test` is where a test is tried.
"""

import contextlib
import inspect
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from mhacourse.advice import advice_for
from mhacourse.compare import kind_of
from mhacourse.note import Note, not_yet
from mhacourse.run import Failure
from mhacourse.stub import is_stub
from mhacourse.try_test import Call, Otherwise, Subject, Trial, copied, made, settings_of, source_of, tried

CLOSE = 1e-4  # what rounding may make of a number
SECONDS = 10.0  # for finding out what a test that is not right does wrong
APART = "Apart from that, your test finds nothing wrong with any layer."


def judged(problem, test: object) -> Note:
    """Return the note on a learner's test for a problem; its mood is "right" if the test is good."""
    if test is ... or test is None or is_stub(test):
        return Note("not yet written.", [("", f"When stuck: problem.{problem.name}.hint()")], code="stub")
    if isinstance(test, bool) or not callable(test) or isinstance(test, (type, nn.Module)):
        got = "the result of your test" if isinstance(test, bool) else kind_of(test)
        words = f"expected the function my_test, got {got}; give the function itself, without calling it"
        return not_yet("type", ("", words))
    try:
        inspect.signature(test).bind("layer")
    except TypeError:
        words = f"the check calls your test with one argument, a layer; yours takes {inspect.signature(test)}"
        return not_yet("arity", ("", f"{words}. Make the inputs inside it: torch.randn(2, 5, layer.d_model)"))
    except ValueError:  # some built-in functions have no signature
        pass
    trial = tried(test, [*problem.ill, *problem.well, *problem.others, *problem.with_empty_rows])
    printed = [("You printed:", ""), ("code", trial.printed)] if trial.printed else []
    for note in (_own_layer, _nothing, _stopped, _no_answer, _never_calls, _wrong_way, _passes, _accuses, _looks_only):
        if said := note(problem, test, trial):
            return Note(said.title, [*said.parts, *printed], mood=said.mood, code=said.code)
    return Note("right.", [*_right(problem, trial), *printed], mood="right", code="right")


def _nothing(problem, test, trial) -> Note | None:
    if any(said is not None for said in trial.said):
        return None
    return not_yet("none", ("", "Your test returns None: print shows you a value, return hands it to the check."))


def _stopped(problem, test, trial) -> Note | None:
    """Tell an error on the layer in question, broken or mended; a layer in another style may need other calls."""
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
        parts.append(
            ("", "Your test runs at other sizes, so take the sizes from the layer: layer.d_model and layer.num_heads.")
        )
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


def _own_layer(problem, test, trial) -> Note | None:
    """Tell a test that discards the layer that it gets, and looks at one that it makes."""
    given = next(iter(inspect.signature(test).parameters))
    own = re.search(rf"^\s*({given} = (?!{given}\b).+)", source_of(test), re.MULTILINE)
    if own is None or any(subject.calls for subject in trial.subjects):
        return None
    words = "It discards the layer that it gets and looks at its own, so it says the same of every layer. "
    words += "Leave that line out: the check calls your test with one layer after another."
    return not_yet("own", ("code", own[1]), ("", words), title="not yet: it makes a layer of its own.")


def _never_calls(problem, test, trial) -> Note | None:
    """Tell a test that never calls the layer, whatever it says of it."""
    if any(subject.calls for subject in trial.subjects) or ".forward" in source_of(test):
        return None
    words = "So it judges by how the layer is made, or not at all. A healthy layer may be made differently, and its "
    words += "settings are the same in training and in evaluation mode. Compare outputs: layer(x)."
    return not_yet("no call", ("", words), title="not yet: your test never calls the layer.")


def _looks_only(problem, test, trial) -> Note | None:
    """Tell a test that would be right, if what the layer returns made any difference to it."""
    found = [subject for subject in problem.ill if subject in trial.which(False)]
    if problem.spoils or not found or not found[0].calls or ".forward" in source_of(test):
        return None
    if {*Otherwise(outputs=partial(_healed, problem)).tried(test, found).said} != {False}:
        return None
    words = "Your test calls the layer, but the outputs make no difference: with a healthy layer's outputs, it "
    words += "still says the same. So it judges by how the layer is made. Compare outputs."
    return not_yet("no output", *_shown(found[0]), ("", words), title="not yet: it does not look at the outputs.")


def _healed(problem, output: Tensor, call: Call, calls: object) -> Tensor:
    output = _healthy_twin(problem, call)(**call.given)
    return output[0] if isinstance(output, tuple) else output


def _wrong_way(problem, test, trial) -> Note | None:
    """Tell a test that would be right if True meant broken, or if True in a mask meant hidden.

    To tell the two apart: an answer the wrong way round calls a layer of random numbers fine.
    """
    subject = problem.well[0]
    if subject not in trial.which(False):
        return None
    opposite = {True: False, False: True}
    if _is_right(problem, Trial(trial.subjects, [opposite.get(said, said) for said in trial.said])):
        if not problem.unheard["random"](problem, test, subject):
            return None
        title = "not yet: it passes the broken layer, and accuses each healthy one."
        title = "not yet: it says the opposite of what it should." if _is_secret(problem) else title
        words = "Your test is the wrong way round. True means: the layer is fine."
        return not_yet("passes", *_shown(subject), ("Why:", words), title=title)
    if not any(call.mask is not None for call in subject.calls):
        return None
    loosely = problem.mends["rounding"].test(test)
    if not _is_right(problem, problem.mends["masks turned"].tried(loosely, _called(trial))):
        return None
    words = "Here, True in a mask means: may attend. Pass ~mask, or change and compare what your mask really hides."
    return not_yet("mask", *_shown(subject), ("", words), title="not yet: it would be right if True meant hidden.")


def _called(trial: Trial) -> list[Subject]:
    """Return the layers whose calls are known: those that name their argument x."""
    return [subject for subject in trial.subjects if subject.calls]


def _is_right(problem, trial: Trial) -> bool:
    """Return whether a test accuses what is broken and nothing else."""
    accused = [subject in trial.which(False) for subject in problem.ill]
    return _accuses_no_healthy(problem, trial) and (any(accused) if problem.near else all(accused))


def _accuses_no_healthy(problem, trial: Trial) -> bool:
    passed = {*trial.which(True)}
    return passed >= {*problem.well} and not {*trial.which(False)} - {*problem.ill}


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
        parts.append(("Why:", _reason(problem, problem.alarm, test, trial, problem.well[0], as_broken=True)))
    elif found:
        sure = _reason(problem, problem.blind, test, trial, subject, sure=True)
        partly = problem.blind.get("partly", "") if problem.unseen["partly"](subject.calls) else ""
        words = f"Your test does see the mistake in {found[0]}: what is different there? {partly}".rstrip()
        parts.append(("Blind:", sure) if sure else ("", words))
    else:
        why = _reason(problem, problem.blind, test, trial, subject)
        parts.append(("Blind:", why or ("" if problem.near else _certain_at_least(problem, subject))))
    return not_yet("passes", *((label, text) for label, text in parts if text), title=title)


def _reason(problem, reasons, test, trial, subject: Subject, as_broken: bool = False, sure: bool = False) -> str:
    """Return why a test says what it says of a layer.

    The first choice is the one change with which the test is right on all layers; else, unless the reason must be
    sure, the first thing that is certain about the test.
    """
    fitting = dict(_certain(problem, reasons, test, subject, as_broken))
    said, until = trial.said[trial.subjects.index(subject)], time.monotonic() + SECONDS
    left_out, loosely = {}, problem.mends["rounding"].test(test)
    for name in [name for name in fitting if name in problem.mends]:
        other, words = problem.mends[name], fitting.pop(name)
        if time.monotonic() > until or other.tried(test, [subject]).said == [said]:
            continue
        again = other.tried(loosely, _called(trial))
        if _is_right(problem, again):
            return words
        if said is False and _accuses_no_healthy(problem, again):
            found = {*problem.ill} & {*again.which(False)}
            left_out[name] = not found, words if found or name == "cut" else f"{words} {APART}"
    if sure:
        return ""
    best = min(nothing for nothing, _ in left_out.values()) if left_out else False
    fitting |= {name: words for name, (nothing, words) in left_out.items() if nothing is best}
    first, *_ = [*(name for name in reasons if name in fitting), ""]
    said = fitting.get(first, "")
    if reasons is problem.blind and first not in ("", "loose", "random", "one call", "dropped") and "random" in fitting:
        return f"{fitting['random']} {said}"  # other inputs alone would not help
    return said


def _certain(problem, reasons, test, subject: Subject, as_broken: bool) -> Iterator[tuple[str, str]]:
    """Yield those reasons that are true of how a layer was called, of how a test is written, or of what it ignores."""
    for name, words in reasons.items():
        with contextlib.suppress(Exception):  # anything may have been handed over
            true = name in problem.mends or name in problem.unheard
            if name in ("as broken", "as given"):
                true = as_broken
            elif name in problem.unseen:
                true = problem.unseen[name](subject.calls)
            if true and name in problem.unheard:
                true = problem.unheard[name](problem, test, subject)
            if true and name in problem.hides and reasons is problem.blind:
                true = _hidden(problem, test, subject, problem.hides[name])
            if true:
                yield name, words.replace("{line}", str(true))


def _certain_at_least(problem, subject: Subject) -> str:
    """Return whether a broken layer did anything wrong in the calls of a test, and where."""
    wrong = {i: call for i, call in enumerate(subject.calls, 1) if not _agrees(problem, call, call.given)}
    if not wrong:
        return "This layer does nothing wrong in any of your calls: each time it does what a healthy layer does."
    for (i, one), (j, other) in itertools.combinations(wrong.items(), 2):
        # Up to the order of the tokens, as a test may put that back.
        a, b = (call.gave[0][0].sort(1).values for call in (one, other))
        if a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=CLOSE):
            words = f"In calls {i} and {j} the layer makes the same mistake, so their outputs still agree. "
            return words + "Let the calls differ in something that also changes the mistake."
    where = f"call {min(wrong)}" if len(subject.calls) > 1 else "your call"
    return f"In {where} the layer does something wrong, but your test does not see it. What does your test compare?"


def _hidden(problem, test, subject: Subject, anew: Otherwise) -> bool:
    """Return whether a layer acts like a healthy one on other numbers, too, or a test that looks says so."""
    for ill in problem.ill if problem.near else [subject]:
        handed = [(call, given) for call in ill.calls for given in ({}, anew.inputs(call))]
        if all(_agrees(problem, call, {**call.given, **given}) for call, given in handed):
            return True
    looks = not problem.unheard["random"](problem, test, subject)
    return looks and anew.tried(test, [subject]).said == [True]


def _agrees(problem, call: Call, given: Mapping[str, object]) -> bool:
    """Return whether a layer does with some arguments what the healthy layer does with the same weights."""
    did = []
    with contextlib.suppress(Exception), torch.no_grad(), torch.random.fork_rng(devices=[]):
        for forward in (partial(type(call.layer).forward, call.layer), _healthy_twin(problem, call)):
            torch.manual_seed(0)
            handed = {name: copied(value) for name, value in given.items()}
            output, mask = forward(**handed), handed.get("mask")
            output = output[0] if isinstance(output, tuple) else output
            empty = False if mask is None else ~mask.any(-1, keepdim=True)  # there, anything may come out
            did.append((torch.where(torch.as_tensor(empty), 0.0, output), mask))
    if len(did) < 2 or problem.spoils and did[0][1] is not None and not did[0][1].equal(did[1][1]):
        return False
    return torch.allclose(did[0][0], did[1][0], rtol=1e-3, atol=CLOSE, equal_nan=True)


def _healthy_twin(problem, call: Call) -> nn.Module:
    """Return the healthy layer with the weights, the mode and the settings of a layer that was called."""
    layer = call.layer
    twin = made(problem.healthy, (layer.d_model, layer.num_heads), 0).to(next(layer.parameters()).dtype)
    twin.load_state_dict(layer.state_dict())
    vars(twin).update(settings_of(layer))
    return twin.train(call.training)


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
    why = _reason(problem, problem.alarm, test, trial, subject)
    if not why and not secret:
        why = (
            "This layer's outputs are right in each of your calls, so your test asks for something that need not hold. "
            "What did you pass in each call, and which rows of the outputs must then be equal?"
        )
    return not_yet("accuses", *parts, *([("Why:", why)] if why else []), title=title)


def _is_secret(problem) -> bool:
    """Return whether a layer is healthy and its reader has not found that yet."""
    return bool(problem.near) and "cause" not in problem.done


def _named(problem, subject: Subject) -> str:
    return f"a layer, d_model={subject.size[0]}, num_heads={subject.size[1]}" if _is_secret(problem) else str(subject)


def _right(problem, trial) -> list[tuple[str, str]]:
    """Return which near variants of a healthy layer a test sees or misses, and on which other style it fails."""
    near = dict(zip(problem.near, trial.said, strict=False))
    seen, missed = ([name for name in near if near[name] is said] for said in (False, True))
    parts = [("", f"The layer passes. Your test would have seen {_listed(seen)}.")] if near else []
    parts += [("", f"It would have missed {_listed(missed)}.")] if missed else []
    for subject, said in zip(trial.subjects, trial.said, strict=False):
        if isinstance(said, Failure) and subject in problem.others:
            words = f"On {subject.name} your test stops ({said.message}), so it fits only layers built like this one."
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
