"""Given code to repair: its catalogue follows from its lines, each with the wrong forms that people write.

What the code does tells it, not its text: a function that does the same as some choice of forms on every case has these
lines, however it is written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from mhacourse.exercise import OUR_SECONDS, Exercise, Wrong

GIVEN = "as it was given"


@dataclass(frozen=True)
class Line:
    """One line of the given code, in its forms; what a form is, a function or a number, is up to `Repair.build`.

    Args:
        right: the form that it should have.
        cure: what it should do, and for a line that was given broken how to repair it.
        given: the form in which it is given, where that is broken; None where it is right already.
        changed: other wrong forms, by a phrase that says what each does.
    """

    right: object
    cure: str
    given: object = None
    changed: Mapping[str, object] = field(default_factory=dict)


@dataclass(repr=False, eq=False)
class Repair(Exercise):
    """Code with broken lines; the given code and the catalogue follow from them.

    Args:
        lines: each line by its name, such as "the scale".
        build: makes the function, given one form of each line by its name.
    """

    lines: Mapping[str, Line] = field(default_factory=dict)
    build: Callable[[Mapping[str, object]], Callable] | None = None

    def __post_init__(self):
        self.broken = [name for name, line in self.lines.items() if line.given is not None]
        self.given = self.built(dict.fromkeys(self.broken, GIVEN))

    def built(self, wrong: Mapping[str, str]) -> Callable:
        """Return the function in which some lines have a wrong form, and the others are right."""
        forms = {name: {GIVEN: line.given, **line.changed} for name, line in self.lines.items()}
        return self.build({n: forms[n][wrong[n]] if n in wrong else line.right for n, line in self.lines.items()})

    @cached_property
    def catalogue(self) -> list[tuple]:
        """What is wrong in a line or in several, and what is written beside the lines."""
        made = [(self._headline(wrong), self._told(wrong), self.built(wrong)) for wrong in self._some_wrong()]
        ours = [(name, told, self.outcomes(answer, OUR_SECONDS)[0]) for name, told, answer in made]
        return [*super().catalogue, *ours]

    def _some_wrong(self) -> Iterator[dict[str, str]]:
        """Yield the lines that are left as they were given, and beside them at most one that is wrong otherwise."""
        for name in ("", *self.lines):
            broken = [other for other in self.broken if other != name]
            left = [some for count in range(len(broken) + 1) for some in combinations(broken, count)]
            for form in self.lines[name].changed if name else ():
                yield from (dict.fromkeys(some, GIVEN) | {name: form} for some in left)
            yield from () if name else (dict.fromkeys(some, GIVEN) for some in left[1:-1])

    def _headline(self, wrong: Mapping[str, str]) -> str:
        left = [name for name in wrong if name in self.broken]
        kinds = {"Still to repair": left, "Broken on the way": [name for name in wrong if name not in left]}
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)

    def _told(self, wrong: Mapping[str, str]) -> Wrong:
        fine = sum(name not in wrong for name in self.broken)
        lines = [f"{fine} of the {len(self.broken)} lines {'is' if fine == 1 else 'are'} right"]
        lines += [f"{name}: {form}" for name, form in wrong.items() if form != GIVEN]
        return Wrong(None, "; ".join(lines) + ".", "; ".join(self.lines[name].cure for name in wrong) + ".")
