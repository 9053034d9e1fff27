"""The exercises: `check.split_heads(my_split_heads)`, `check.split_heads.hint()`, `check.split_heads.solution()`.

The modules of `lessons` hold the exercises, one module for each lesson; how an answer is run, compared and judged
lies in the modules beside this one. What was solved is remembered until the kernel stops, and nowhere else.
"""

import difflib
import importlib
import pkgutil
from types import ModuleType

from mhalib.checks import lessons
from mhalib.checks.exercise import Exercise
from mhalib.checks.show import bar

__all__ = ["Checks", "check"]


class Checks:
    """All exercises by name; the names complete with Tab.

    Args:
        modules: one for each lesson, called `lesson_NN`. An exercise bears the name of the variable that holds it.
    """

    def __init__(self, *modules: ModuleType):
        self._exercises: dict[str, Exercise] = {}
        for module in modules:
            found = {name: value for name, value in vars(module).items() if isinstance(value, Exercise)}
            for name, exercise in found.items():
                exercise.name, exercise.siblings = name, list(found.values())
                exercise.lesson = module.__name__.rpartition("_")[2]
            self._exercises |= found

    def __getattr__(self, name: str) -> Exercise:
        if not name.startswith("_") and name in self._exercises:
            return self._exercises[name]
        close = difflib.get_close_matches(name, dir(self), 1)
        meant = f"did you mean check.{close[0]}?" if close else f"choose from {', '.join(dir(self))}"
        raise AttributeError(f"there is no exercise {name!r}; {meant}")

    def __dir__(self) -> list[str]:
        return list(self._exercises)

    def __iter__(self):
        return iter(self._exercises.values())

    def __repr__(self) -> str:
        lines = []
        for lesson in sorted({exercise.lesson for exercise in self}):
            exercises = [exercise for exercise in self if exercise.lesson == lesson]
            done = bar(sum(exercise.solved for exercise in exercises), len(exercises))
            lines.append(f"{lesson}  {done}  {', '.join(exercise.name for exercise in exercises)}")
        return "\n".join(lines)


# One module for each lesson, found by its name.
_LESSONS = sorted(found.name for found in pkgutil.iter_modules(lessons.__path__, f"{lessons.__name__}."))
check = Checks(*map(importlib.import_module, _LESSONS))
