"""Say where the cases of an exercise are too few: which wrong answers they do not tell from right ones.

    python -m tools.checks.holes [--equal] [--tries N] [--answers FILE] [EXERCISE …]

All single edits of the right answers are tried, see `mhalib.checks.edits`. Of each exercise it says:

- holes: edits that do as the right answer on every case, and something else on a variation of them, see `variations`.
  What the task allows all the same stands with its reason in `reviewed`.
- equal: how many more do as the right answer on every case, and on every variation as well. For lack of variations,
  where the inputs are functions or modules, that may mean little.
- one edit: entries of the catalogue that a single edit does as well, so that they would be told without their entry.
- without a why: the likeliest edits that are wrong and no entry of the catalogue: candidates for one. With `--answers`
  they are counted in a file of functions, a JSON line each with `exercise` and `source`; that code runs with your
  rights.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mhalib.checks import check
from mhalib.checks.attempt import recognise, same_result
from mhalib.checks.compare import show
from mhalib.checks.edits import Edit
from mhalib.checks.exercise import OUR_SECONDS, Change, Exercise
from mhalib.checks.run import Outcome, limits
from mhalib.checks.search import find
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES, Variation, variations

LIKELY = 1.1  # what an edit costs at most to be among the likeliest
MOST = 10  # edits without a why that are shown


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
    return did is not None and not did[0].changed and same_result(right, did[0])


def _differs(edit: Edit, variation: Variation) -> bool:
    """Return whether an edit is wrong on a variation; in float64 as well, so that rounding is not taken for it."""
    number = -2 * variation.number - 1  # an edit keeps what it did by number; those of the cases begin at 0
    if _does(edit, number, variation.inputs, variation.right):
        return False
    return variation.exact is None or not _does(edit, number - 1, *variation.exact)


def unreviewed(exercise: Exercise, found: Found) -> list[Hole]:
    """Return the holes that are not on the list of what the task allows."""
    return [hole for hole in found.holes if hole.edit.says not in REVIEWED.get(exercise.name, {})]


def one_edit(exercise: Exercise) -> dict[str, Edit]:
    """Return the entries that an edit does as well on every case, by name, but for those that are a `Change`."""
    told = {}
    for name, outcomes in exercise.catalogue:
        if isinstance(exercise.wrong[name].answer, Change):
            continue
        edit = find(exercise.edits, exercise.inputs, exercise.right, outcomes, bits=0.0)
        if edit and name not in told:
            told[name] = edit
    return told


def without_a_why(exercise: Exercise) -> list[Edit]:
    """Return the likely edits that come to a wrong result and are no entry of the catalogue, the cheapest first."""
    likely = []
    with limits(OUR_SECONDS):
        for edit in exercise.edits:
            did = [edit.outcome(i, inputs) for i, inputs in enumerate(exercise.inputs)] if edit.cost <= LIKELY else []
            if not did or None in did:
                continue
            outcomes = [outcome for outcome, _ in did]
            wrong = not all(map(same_result, exercise.right, outcomes))
            # What stops on every case is told by its message.
            if wrong and any(not outcome.failure for outcome in outcomes):
                if not recognise(exercise.catalogue, outcomes) and edit.says not in [other.says for other in likely]:
                    likely.append(edit)
    return likely


def counted(exercise: Exercise, sources: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many wrong functions each edit tells that no entry of the catalogue does, the most frequent first."""
    told = Counter()
    for source in sources:
        names = dict(sys.modules[exercise.answer.__module__].__dict__)
        try:
            exec(source, names)
            outcomes, _ = exercise.outcomes(names[exercise.name])
        except Exception:  # no Python, or another name: a check says so
            continue
        right = len(outcomes) == len(exercise.right) and all(map(same_result, exercise.right, outcomes))
        if not right and not recognise(exercise.catalogue, outcomes):
            edit = find(exercise.edits, exercise.inputs, exercise.right, outcomes)
            told[edit.says if edit else "(no edit)"] += 1
    return told.most_common()


def report(exercise: Exercise, found: Found, equal: bool, sources: Sequence[str] | None) -> str:
    """Return in plain text what there is to say of an exercise."""
    holes, entries = unreviewed(exercise, found), one_edit(exercise)
    lines = [f"{exercise.lesson} {exercise.name}: {len(exercise.edits)} edits, {found.tried} variations"]
    lines.append(f"  holes: {len(holes)}, and {len(found.holes) - len(holes)} reviewed")
    for hole in holes:
        given = ", ".join(
            f"{name}={show(x)}" for name, x in zip(exercise.parameters, hole.shown_by.inputs, strict=True)
        )
        lines += [f"    {hole.edit.says}", f"      on {given}"]
    lines.append(f"  equal: {len(found.equal)}")
    lines += [f"    {edit.says}" for edit in found.equal if equal]
    lines.append(f"  one edit: {len(entries)} of {len(exercise.wrong)} entries")
    lines += [f"    {name}: {edit.says}" for name, edit in entries.items()]
    if sources is None:
        likely = without_a_why(exercise)
        lines.append(f"  without a why: {len(likely)}")
        lines += [f"    {edit.says}" for edit in likely[:MOST]]
    else:
        lines.append(f"  without a why, of {len(sources)} answers:")
        lines += [f"    {number} {says}" for says, number in counted(exercise, sources)[:MOST]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print a report for each exercise that is named, or for all; return 1 where there is a hole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE", help="such as attend; all where none is named")
    parser.add_argument("--equal", action="store_true", help="list the edits that are equal as well")
    parser.add_argument("--tries", type=int, default=TRIES, help="variations of each exercise (%(default)s)")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="functions in which edits are counted")
    options = parser.parse_args(arguments)
    functions = {exercise.name: exercise for exercise in check if exercise.cases}
    if unknown := set(options.exercises) - set(functions):
        parser.error(f"no exercise with cases: {', '.join(sorted(unknown))}; choose from {', '.join(functions)}")
    answers = None
    if options.answers:
        answers = [json.loads(line) for line in options.answers.read_text(encoding="utf-8").splitlines() if line]
    holes = 0
    for name in options.exercises or functions:
        sources = None if answers is None else [a["source"] for a in answers if a["exercise"] == name]
        found = search(functions[name], options.tries)
        print(report(functions[name], found, options.equal, sources), flush=True)
        holes += len(unreviewed(functions[name], found))
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
