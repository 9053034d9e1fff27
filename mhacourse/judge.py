"""How an answer is judged: a list of steps, of which the first that has something to say is heard.

A step takes an `Attempt` and returns a note, or None. To name mistakes in another way, add a step after
`known_mistake`. `attempt` finds out what an answer does; the exercise adds its name, where to read on, and the
progress.
"""

import contextlib
import inspect
import re
from collections.abc import Callable

from mhacourse.advice import advice_for
from mhacourse.attempt import Attempt, changes, recognise, same_results
from mhacourse.compare import kind_of, show
from mhacourse.note import Note, not_yet
from mhacourse.observe import holds_the_numbers, observe, other_axes, transposed
from mhacourse.one_change import one_change
from mhacourse.remarks import remarks_on
from mhacourse.slips import dropped
from mhacourse.stub import is_stub
from mhacourse.try_test import source_of
from mhacourse.values import explain

Step = Callable[[Attempt], Note | None]


def _still_open(attempt: Attempt, state: str = "not yet written.") -> Note:
    return Note(state, [("", f"When stuck: check.{attempt.exercise.name}.hint()")], mood="open", code="stub")


def _mistake(attempt: Attempt, name: str, what: str = "", why: str = "", code: str = "", line: str = "") -> Note:
    """Return the note on a mistake that has a name: the error or the change of an input first, the example last."""
    told = [(label, text) for label, text in (("What:", what), ("code", line), ("Why:", why)) if text]
    example = [(label, text.removesuffix(f": {name[0].lower()}{name[1:]}")) for label, text in attempt.example]
    parts = [*attempt.before_all, *told, *example, *attempt.printed]
    return Note(f"not yet. {name}", parts, mood="wrong", code=f"wrong: {code or name}")


def untouched(attempt: Attempt) -> Note | None:
    """Report the stub's dots, and the None of a cell that was not run, as not yet written."""
    return _still_open(attempt) if attempt.answer is None or attempt.answer is ... else None


def no_function(attempt: Attempt) -> Note | None:
    """Ask for a function if the answer is something else."""
    if callable(attempt.answer):
        return None
    words = f"expected a function, got {kind_of(attempt.answer)}; give the function itself, without calling it"
    return not_yet("type", ("", words))


def wrong_arity(attempt: Attempt) -> Note | None:
    """Refuse a function that cannot be called with the arguments of this exercise."""
    names = attempt.exercise.parameters
    try:
        signature = inspect.signature(attempt.answer)
    except (TypeError, ValueError):  # some built-in functions have none
        return None
    try:
        signature.bind(*names)
    except TypeError:
        words = f"the check passes {', '.join(names)} ({len(names)} in all); your function takes {signature}"
        return not_yet("arity", ("", words))
    return None


def returns_nothing(attempt: Attempt) -> Note | None:
    """Tell a stub from a function whose return is missing."""
    if any(outcome.failure or outcome.value is not None for outcome in attempt.outcomes):
        return None
    if is_stub(attempt.answer):
        return _still_open(attempt)
    return not_yet("none", ("", "Your function returns None. Is a return missing?"), *attempt.printed)


def as_given(attempt: Attempt) -> Note | None:
    """Report the code that a learner starts from as such, wherever it was copied."""
    given = attempt.exercise.given_outcomes
    same = given is not None and same_results(given, attempt.outcomes, attempt.exercise.right)
    if not same or changes(given) != changes(attempt.outcomes):
        return None
    return _still_open(attempt, "still the code that was given.")


def right(attempt: Attempt) -> Note | None:
    """Accept an answer that gives the right result on every input, and leaves the inputs alone."""
    return accept(attempt) if all(case.is_right for case in attempt.cases) else None


def accept(attempt: Attempt) -> Note:
    """Accept the answer, with what it printed, the explanation and any remarks."""
    explanation = attempt.exercise.explanation
    parts = [*attempt.printed, *([("", explanation)] if explanation else [])]
    parts += remarks_on(attempt.exercise, attempt.answer)
    return Note("right.", parts, mood="right", code="right")


def dropped_result(attempt: Attempt) -> Note | None:
    """Name a line whose result is dropped, where keeping it makes the answer right."""
    return one_change_away(attempt, "dropped") if dropped(source_of(attempt.answer)) else None


def known_mistake(attempt: Attempt) -> Note | None:
    """Name the catalogued wrong answer that does the same."""
    found = recognise(attempt.exercise.catalogue, attempt.outcomes, attempt.exercise.right)
    return _mistake(attempt, found[0], found[1].what, found[1].why) if found else None


def one_change_away(attempt: Attempt, of_kind: str = "") -> Note | None:
    """Say at which place of the learner's own code a single change makes it right; perhaps only if it is of a kind."""
    exercise, source, change = attempt.exercise, source_of(attempt.answer), None
    with contextlib.suppress(Exception):  # whatever a learner writes, what is known without this is still said
        names = inspect.unwrap(attempt.answer).__globals__
        change = one_change(source, names, exercise.inputs, exercise.right, attempt.outcomes)
    if change is None or of_kind not in change.says:
        return None
    where = f"all {len(exercise.inputs)} inputs" if len(exercise.inputs) > 1 else "the input"
    what = f"{change.says[0].upper()}{change.says[1:]}, your function is right for {where} of this check."
    line = f"line {change.line}:  {change.code}"
    return _mistake(attempt, "One change makes it right", what, change.why, change.says, line)


def stopped(attempt: Attempt) -> Note | None:
    """Show the error, the time-out or the lack of memory, with what it often means."""
    failure = attempt.worst.theirs.failure
    if failure is None:
        return None
    advice = advice_for(failure.message)
    often = [("Often:", advice)] if advice else []
    return not_yet(failure.kind, *attempt.before_all, *often, *attempt.example, *attempt.printed)


def changes_its_input(attempt: Attempt) -> Note | None:
    """Tell a function that is right, except for what it does to the tensors of its caller."""
    if not attempt.worst.result_is_right:
        return None
    names = " and ".join(attempt.exercise.parameters[i] for i in attempt.worst.theirs.changed)
    words = (
        f"The result is right, but your function changes its caller's {names}. "
        "Make a new tensor: no +=, no method whose name ends in an underscore."
    )
    return not_yet("changes its input", ("", words), *attempt.printed)


def first_difference(attempt: Attempt) -> Note:
    """Say what is true of the result, any wrong axes first, and show the first difference.

    Lost or joined axes name a mistake only if the numbers are right otherwise: those of `x * 0` are not.
    """
    difference = attempt.worst.difference
    seen = [("", words) for words in observe(attempt.cases)]
    words = other_axes(attempt.cases) if difference.kind == "shape" else ""
    if turned := transposed(attempt.cases):
        return _mistake(attempt, turned, " ".join(text for _, text in seen))
    if words and holds_the_numbers(attempt.cases):
        return _mistake(attempt, f"{words[0].upper()}{words[1:]}", " ".join(text for _, text in seen))
    if words and not difference.sentence().endswith(words):
        seen.insert(0, ("", f"{words[0].upper()}{words[1:]}."))
    return not_yet(difference.kind, *attempt.before_all, *seen, *attempt.example, *attempt.printed)


def in_numbers(attempt: Attempt) -> Note | None:
    """Say what is wrong with the given numbers, if it can be known: exchanged, too large by a size, another unit."""
    exercise = attempt.exercise
    where, cause = explain(exercise.answer, attempt.answer, exercise.sizes)
    if not where and not cause:
        return None
    parts = [*attempt.example, *[("", words) for words in where + cause]]
    return Note("not yet.", parts, mood="wrong", code=f"wrong: {cause[0]}" if cause else "value")


def first_difference_untold(attempt: Attempt) -> Note:
    """Say where a value differs, but not from what: a value is its own solution."""
    found = attempt.worst.difference
    return not_yet(found.kind, ("", found.sentence(tell_expected=found.kind != "value")))


def no_option(attempt: Attempt) -> Note | None:
    """Ask for letters from the options if the answer is something else."""
    options, chosen = attempt.exercise.options, None if isinstance(attempt.answer, dict) else letters_in(attempt.answer)
    if chosen is None:
        return not_yet("type", ("", f'expected letters such as "AB", got {kind_of(attempt.answer)}'))
    if not chosen <= set(options):
        return not_yet("type", ("", f"expected letters from {', '.join(options)}, got {show(attempt.answer)}"))
    return None


def wrong_option(attempt: Attempt) -> Note | None:
    """Name the first letter that does not belong to the answer, then the first that is missing."""
    options, chosen, wanted = attempt.exercise.options, letters_in(attempt.answer), {*attempt.exercise.answer}
    if chosen == {*options} - wanted and len(chosen) > 1:
        words = "These letters are exactly the ones to leave out. Read the question again: what does it ask for?"
        return not_yet("wrong: the opposite", ("", words))
    more = len(chosen ^ wanted) - 1
    also = [("", f"{'One more letter is' if more == 1 else f'{more} more letters are'} not right yet.")] if more else []
    for letter in (x for x in options if x in chosen - wanted):
        return not_yet(f"wrong: not {letter}", ("", f"{letter} cannot be in the answer: {options[letter]}"), *also)
    for letter in (x for x in options if x in wanted - chosen):
        return not_yet(f"wrong: {letter} as well", ("", f"You left out {letter}: {options[letter]}"), *also)
    return None


def letters_in(answer: object) -> set[str] | None:
    """Return the letters of "BD", "B and D", ["B", "D"]; None for what holds no letters."""
    try:
        text = answer if isinstance(answer, str) else " ".join(map(str, answer))
    except TypeError:
        return None
    return set("".join(word for word in re.findall(r"\w+", text.upper()) if word != "AND"))


FUNCTION: tuple[Step, ...] = (
    untouched,
    no_function,
    wrong_arity,
    returns_nothing,
    as_given,
    right,
    dropped_result,
    known_mistake,
    changes_its_input,
    one_change_away,
    stopped,
    first_difference,
)
VALUE: tuple[Step, ...] = (untouched, right, known_mistake, in_numbers, first_difference_untold)
CHOICE: tuple[Step, ...] = (untouched, no_option, wrong_option, accept)


def judge(steps: tuple[Step, ...], attempt: Attempt) -> Note:
    """Return the note of the first step that has one; the last step always does."""
    return next(note for step in steps if (note := step(attempt)) is not None)
