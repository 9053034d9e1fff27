"""How a mended layer is compared with the healthy one, with the same weights, case by case, and the note on it."""

import ast
import inspect
from collections.abc import Mapping, Sequence
from unittest import mock

import torch
from torch import Tensor, nn

from mhacourse.advice import advice_for
from mhacourse.attempt import recognise, same_results
from mhacourse.compare import Difference, difference, kind_of
from mhacourse.note import Note, not_yet
from mhacourse.run import Failure, Outcome, run
from mhacourse.slips import dropped, tree_of
from mhacourse.try_test import made, source_of

AXES, MASK_AXES = ("sample", "token", "feature"), ("sample", "query", "key")


class OtherParameters(Exception):
    """A mended layer whose parameters are not those of the given layer."""


class ChangesInputs(Exception):
    """A mended layer that writes into its inputs."""


def calls_of(problem) -> list[tuple[str, tuple[int, int]]]:
    """Return how a mended layer is driven: in each case, at two sizes each."""
    return [(name, size) for name in problem.cases for size in problem.sizes[1:]]


def outcomes_of(
    problem, kind: type[nn.Module], seconds: float | None = None, calls: Sequence[tuple] = ()
) -> tuple[list[Outcome], str]:
    """Return what a class does in all calls of a problem, or in some, with the weights of the healthy layer."""

    def drive(name, size):
        layer = made(kind, size, 0)
        _copy_parameters(made(problem.healthy, size, sum(size)), layer)
        if not problem.spoils:
            _guard_inputs(layer)
        sow = torch.manual_seed
        with mock.patch.object(torch, "manual_seed", lambda _: sow(0)):  # whichever its number
            return problem.cases[name](layer, size[0])

    return run(drive, calls or calls_of(problem), seconds)


def judged_mending(problem, layer: object) -> Note:
    """Return the note on a learner's mended class."""
    name = problem.healthy.__name__
    if layer is ... or layer is None:
        return Note("not yet mended.", [("", f"When stuck: problem.{problem.name}.hint()")], code="stub")
    if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        got = f"a layer that is already made, {name}(…)" if isinstance(layer, nn.Module) else kind_of(layer)
        return not_yet("type", ("", f"expected the class {name} itself, got {got}"))
    outcomes, printed = outcomes_of(problem, layer)
    printed = [("You printed:", ""), ("code", printed)] if printed else []
    wrong = _wrong(problem, outcomes)
    if not any(wrong.values()) and (problem.changes or "cause" in problem.done):
        same = "With the same weights, your layer does what the healthy layer does."
        said = same if problem.changes else "There was nothing to mend."
        return Note("right.", [("", said), *printed], mood="right", code="right")
    if same_results(outcomes, problem.given_outcomes, problem.right_outcomes):
        written = [*map(source_of, filter(inspect.isfunction, vars(layer).values()))]
        if _methods(*written) <= _methods(problem.source):
            words = f"Edit the class {name} in its own cell, run that cell, then this one."
            return Note("still the code that was given.", [("", words), *printed], code="as given")
        if not problem.changes:
            said = "Your layer does what it should, and so did the given layer. There was nothing to mend."
            return Note("right.", [("", said), *printed], mood="right", code="right")
        what = "your layer is written differently, but in each case it does what the given layer does."
        parts = [("What:", what), ("Why:", problem.same(written)), ("", f"When stuck: problem.{problem.name}.hint()")]
        return Note("not yet. The same as before", [*parts, *printed], mood="wrong", code="wrong: the same as before")
    was_right = [] if problem.changes else [("", "As given, the layer was right with these weights.")]
    in_cases = ("Wrong in:", "; ".join(case for case in wrong if wrong[case]))
    if line := next(filter(None, (dropped(source_of(f)) for f in vars(layer).values() if inspect.isfunction(f))), ""):
        what = f"`{line}` makes a new tensor, but nothing keeps it."
        parts = [*_error(wrong), ("What:", what), in_cases]
        return Note("not yet. A result is dropped", [*was_right, *parts, *printed], mood="wrong", code="wrong: dropped")
    found = recognise(problem.catalogue(outcomes), outcomes, problem.right_outcomes)
    if found:
        mistake, known, _ = found
        parts = [*_error(wrong), ("What:", known.what), ("Why:", known.why), in_cases]
        code = f"wrong: {mistake}"
        return Note(f"not yet. {mistake}", [*was_right, *parts, *printed], mood="wrong", code=code)
    first = next(filter(None, wrong.values()))
    if isinstance(first, Failure):
        advice = advice_for(first.message)
        often = [("Often:", advice)] if advice else []
        return not_yet(first.kind, *_rows(wrong), *often, *printed)
    missing = [("", "Is a return missing?")] if outcomes[0].value is None else []
    return not_yet(first.kind, *was_right, *_rows(wrong), *missing, *printed)


def _methods(*sources: str) -> set[str]:
    """Return the methods in some pieces of source, without their comments and spaces."""
    found = set()
    for source in sources:
        try:
            found |= {ast.dump(node) for node in ast.walk(tree_of(source)) if isinstance(node, ast.FunctionDef)}
        except SyntaxError:  # a piece that Python cut out of a longer line
            found.add(source)
    return found


def _error(wrong: Mapping[str, Difference | Failure | None]) -> list[tuple[str, str]]:
    """Return the first error of torch with its line, where there is one."""
    failed = [found for found in wrong.values() if isinstance(found, Failure)]
    return [("It stopped:", failed[0].message), ("code", failed[0].line)] if failed else []


def _rows(wrong: Mapping[str, Difference | Failure | None]) -> list[tuple[str, str]]:
    """Return a row for each case; a single row if all stopped alike."""
    said = {case: _in_words(found) for case, found in wrong.items()}
    if len(set(said.values())) == 1 and all(isinstance(found, Failure) for found in wrong.values()):
        return [("", said.popitem()[1])]
    rows, before = [], ""
    for case, words in said.items():
        rows.append((f"{case[0].upper()}{case[1:]}:", "the same" if words == before else words))
        before = words if isinstance(wrong[case], Failure) else ""
    return rows


def _wrong(problem, outcomes: Sequence[Outcome]) -> dict[str, Difference | Failure | None]:
    """Return for each case the first thing that is wrong; a case that was not reached is late."""
    late = Failure("time", "not reached in time", "")
    names = [name for name, _ in calls_of(problem)]
    found = {name: [] for name in names}
    for i, (name, right) in enumerate(zip(names, problem.right_outcomes, strict=True)):
        got = outcomes[i] if i < len(outcomes) else Outcome(failure=late)
        masks = isinstance(right.value, Tensor) and right.value.dtype == torch.bool
        found[name].append(got.failure or difference(right.value, got.value, MASK_AXES if masks else AXES))
    return {name: next(filter(None, some), None) for name, some in found.items()}


def _in_words(wrong: Difference | Failure | None) -> str:
    if wrong is None:
        return "right"
    if isinstance(wrong, Difference):
        return f"wrong, {wrong.sentence()}"
    message = wrong.message.removeprefix("OtherParameters: ").removeprefix("ChangesInputs: ")
    return f"it stopped: {message}" + (f" ({wrong.line})" if wrong.line else "")


def _guard_inputs(layer: nn.Module) -> None:
    """Make a layer raise as soon as a call has changed a tensor that it was given."""
    before: list[tuple[Tensor, Tensor]] = []

    def remember(module, args, named):
        before[:] = [(x, x.clone()) for x in (*args, *named.values()) if isinstance(x, Tensor)]

    def compare(module, args, named, output):
        if not all(torch.equal(x, kept) for x, kept in before):
            raise ChangesInputs("the layer changes its caller's tensors; work on a .clone(), or out of place")

    layer.register_forward_pre_hook(remember, with_kwargs=True)
    layer.register_forward_hook(compare, with_kwargs=True)


def _copy_parameters(twin: nn.Module, layer: nn.Module) -> None:
    ours, theirs = dict(twin.named_parameters()), dict(layer.named_parameters())
    if {name: p.shape for name, p in ours.items()} != {name: p.shape for name, p in theirs.items()}:
        wanted = ", ".join(f"{name} {tuple(p.shape)}" for name, p in ours.items())
        raise OtherParameters(f"the check copies weights, so keep the parameters as they were given: {wanted}")
    with torch.no_grad():
        for name, parameter in theirs.items():
            parameter.copy_(ours[name])
