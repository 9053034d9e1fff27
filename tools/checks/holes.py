"""Say where the cases of an exercise are too few: which wrong answers they do not tell from right ones.

    python -m tools.checks.holes [--tries N] [EXERCISE …]

All single changes of the right answers are tried, see `mhacourse.slips`. Of each exercise it says:

- holes: changes after which it does as the right answer on every case, and something else on a variation of them, see
  `variations`. What the task allows all the same stands with its reason in `reviewed`.
- equal: how many more do as the right answer on every case, and on every variation as well. For lack of variations,
  where the inputs are functions or modules, that may mean little.
"""

import argparse
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from mhacourse import check
from mhacourse.compare import show
from mhacourse.exercise import OUR_SECONDS, Exercise
from mhacourse.one_change import OneChange, changes_of, is_right
from mhacourse.run import call, limits
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES, Variation, variations


@dataclass(frozen=True)
class Hole:
    """A change that no case tells from right, and the smallest variation that does."""

    change: OneChange
    shown_by: Variation


@dataclass(frozen=True)
class Found:
    """What became of the changes that do as the right answer on every case: holes, and those that are equal everywhere.

    Args:
        changes: how many changes there were.
        tried: how many variations there were.
    """

    holes: list[Hole]
    equal: list[OneChange]
    changes: int
    tried: int


def search(exercise: Exercise, tries: int = TRIES) -> Found:
    """Try on variations of the cases each single change that no case tells from right."""
    cases, holes, equal, count = [*zip(exercise.inputs, exercise.right, strict=True)], [], [], 0
    with limits(OUR_SECONDS), warnings.catch_warnings(action="ignore"):
        further = variations(exercise, tries)
        for answer in map(inspect.unwrap, exercise.plain or (exercise.answer,)):
            for changed, change in changes_of(inspect.getsource(answer), answer.__globals__):
                count += 1
                if not all(is_right(call(changed, inputs), right) for inputs, right in cases):
                    continue
                if variation := next((variation for variation in further if _differs(changed, variation)), None):
                    holes.append(Hole(change, variation))
                else:
                    equal.append(change)
    return Found(holes, equal, count, len(further))


def _differs(changed: Callable, variation: Variation) -> bool:
    """Return whether a function is wrong on a variation; in float64 as well, so that rounding is not taken for it."""
    if is_right(call(changed, variation.inputs), variation.right):
        return False
    return variation.exact is None or not is_right(call(changed, variation.exact[0]), variation.exact[1])


def unreviewed(exercise: Exercise, found: Found) -> list[Hole]:
    """Return the holes that are not on the list of what the task allows."""
    return [hole for hole in found.holes if hole.change.says not in REVIEWED.get(exercise.name, {})]


def report(exercise: Exercise, found: Found) -> str:
    """Return in plain text what there is to say of an exercise."""
    holes = unreviewed(exercise, found)
    lines = [f"{exercise.lesson} {exercise.name}: {found.changes} changes, {found.tried} variations"]
    lines.append(f"  holes: {len(holes)}, and {len(found.holes) - len(holes)} reviewed")
    for hole in holes:
        inputs = zip(exercise.parameters, hole.shown_by.inputs, strict=True)
        lines += [f"    {hole.change.says}", "      on " + ", ".join(f"{name}={show(x)}" for name, x in inputs)]
    return "\n".join([*lines, f"  equal: {len(found.equal)}"])


def main(arguments: list[str] | None = None) -> int:
    """Print a report for each exercise that is named, or for all; return 1 where there is a hole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE", help="such as attend; all where none is named")
    parser.add_argument("--tries", type=int, default=TRIES, help="variations of each exercise (%(default)s)")
    options = parser.parse_args(arguments)
    functions = {exercise.name: exercise for exercise in check if exercise.cases}
    if unknown := set(options.exercises) - set(functions):
        parser.error(f"no exercise with cases: {', '.join(sorted(unknown))}; choose from {', '.join(functions)}")
    holes = 0
    for name in options.exercises or functions:
        found = search(functions[name], options.tries)
        print(report(functions[name], found), flush=True)
        holes += len(unreviewed(functions[name], found))
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
