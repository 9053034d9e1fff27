"""Say where the cases of an exercise are too few: which wrong answers they do not tell from right ones.

    python -m tools.checks.holes [--tries N] [EXERCISE …]

All single edits of the right answers are tried, see `mhacourse.edits`. Of each exercise it says:

- holes: edits that do as the right answer on every case, and something else on a variation of them, see `variations`.
  What the task allows all the same stands with its reason in `reviewed`.
- equal: how many more do as the right answer on every case, and on every variation as well. For lack of variations,
  where the inputs are functions or modules, that may mean little.
"""

import argparse
import sys
from dataclasses import dataclass

from mhacourse import check
from mhacourse.attempt import same_result
from mhacourse.compare import show
from mhacourse.edits import Edit
from mhacourse.exercise import OUR_SECONDS, Exercise
from mhacourse.run import Outcome, limits
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES, Variation, variations


@dataclass(frozen=True)
class Hole:
    """An edit that no case tells from right, and the smallest variation that does."""

    edit: Edit
    shown_by: Variation


@dataclass(frozen=True)
class Found:
    """What became of the edits that do as the right answer on every case: holes, and those that are equal everywhere.

    Args:
        tried: how many variations there were.
    """

    holes: list[Hole]
    equal: list[Edit]
    tried: int


def search(exercise: Exercise, tries: int = TRIES) -> Found:
    """Try on variations of the cases each edit that no case tells from right."""
    right, inputs, holes, equal = exercise.right, exercise.inputs, [], []
    with limits(OUR_SECONDS):
        further = variations(exercise, tries)
        for edit in exercise.edits:
            if not all(_does(edit, i, *case) for i, case in enumerate(zip(inputs, right, strict=True))):
                continue
            if variation := next((variation for variation in further if _differs(edit, variation)), None):
                holes.append(Hole(edit, variation))
            else:
                equal.append(edit)
    return Found(holes, equal, len(further))


def _does(edit: Edit, number: int, inputs: tuple, right: Outcome) -> bool:
    """Return whether the edited function does with inputs what is right, and leaves them as they are."""
    did = edit.outcome(number, inputs)
    return did is not None and not did.changed and same_result(right, did)


def _differs(edit: Edit, variation: Variation) -> bool:
    """Return whether an edit is wrong on a variation; in float64 as well, so that rounding is not taken for it."""
    number = -2 * variation.number - 1  # an edit keeps what it did by number; those of the cases begin at 0
    if _does(edit, number, variation.inputs, variation.right):
        return False
    return variation.exact is None or not _does(edit, number - 1, *variation.exact)


def unreviewed(exercise: Exercise, found: Found) -> list[Hole]:
    """Return the holes that are not on the list of what the task allows."""
    return [hole for hole in found.holes if hole.edit.says not in REVIEWED.get(exercise.name, {})]


def report(exercise: Exercise, found: Found) -> str:
    """Return in plain text what there is to say of an exercise."""
    holes = unreviewed(exercise, found)
    lines = [f"{exercise.lesson} {exercise.name}: {len(exercise.edits)} edits, {found.tried} variations"]
    lines.append(f"  holes: {len(holes)}, and {len(found.holes) - len(holes)} reviewed")
    for hole in holes:
        inputs = zip(exercise.parameters, hole.shown_by.inputs, strict=True)
        lines += [f"    {hole.edit.says}", "      on " + ", ".join(f"{name}={show(x)}" for name, x in inputs)]
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
