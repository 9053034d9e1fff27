"""What makes the notebooks a course: `from mhacourse import check, predict, problem`.

Exercises, `check.split_heads(my_split_heads)`, with hints and solutions; predictions, `predict.first_split()`; a set of
problems, `problem.reviews.cause("A")`. It knows the lessons and nothing else: for layers of your own there is
`attention_doctor`.

The modules of `lessons` hold the exercises and the predictions, for each lesson one module of both kinds; how an answer
is run, compared and judged lies in the modules beside this one. What was solved or predicted is remembered until the
kernel stops, and nowhere else.
"""

import importlib
import pkgutil
from types import ModuleType

from mhacourse import lessons
from mhacourse.exercise import Exercise
from mhacourse.lessons.problems import PROBLEMS
from mhacourse.note import ByName
from mhacourse.prediction import Prediction, Results, sum_up
from mhacourse.problem_set import Problems

__all__ = ["Checks", "Predictions", "Problems", "check", "predict", "problem"]


def _defined(kind: type, module: ModuleType) -> dict:
    """Return what a module of a lesson holds of a kind, by its name, and tell each its name and its lesson."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, kind)}
    for name, value in found.items():
        value.name, value.lesson = name, module.__name__.rpartition("_")[2]
    return found


class Checks(ByName):
    """All exercises by name; the names complete with Tab.

    Args:
        modules: one for each lesson, called `lesson_NN`. An exercise bears the name of the variable that holds it.
    """

    def __init__(self, *modules: ModuleType):
        exercises: dict[str, Exercise] = {}
        for module in modules:
            found = _defined(Exercise, module)
            for exercise in found.values():
                exercise.siblings = list(found.values())
            exercises |= found
        super().__init__("exercise", "check", exercises)

    def __repr__(self) -> str:
        return self.by_lesson(lambda exercise: exercise.solved)


class Predictions(ByName):
    """All predictions by name; the names complete with Tab.

    Args:
        modules: one for each lesson, called `predictions_NN`. A prediction bears the name of its variable there.

    Raises:
        ValueError: two predictions bear one name, or one bears that of something else here.
    """

    def __init__(self, *modules: ModuleType):
        predictions: dict[str, Prediction] = {}
        for module in modules:
            found = _defined(Prediction, module)
            if taken := found.keys() & {*predictions, "results"}:
                raise ValueError(f"{module.__name__}: the name {taken.pop()} is taken; give the prediction another one")
            predictions |= found
        super().__init__("prediction", "predict", predictions)

    def results(self, lesson: str = "") -> Results:
        """Return what was predicted correctly in a lesson, such as "05", and what came as a surprise.

        Every guess counts, one that was made after the answer was shown as well: who looks first knows it. Where a
        notebook shows this, it follows the guesses.

        Raises:
            ValueError: the lesson has no predictions, or is none.
        """
        ours = [prediction for prediction in self if prediction.lesson == lesson]
        if not ours:
            known = ", ".join(repr(number) for number in sorted({prediction.lesson for prediction in self}))
            raise ValueError(f"there are no predictions in lesson {lesson!r}; choose from {known}")
        return sum_up(lesson, ours)

    def __call__(self, *given: object) -> object:
        first = next(iter(self._things), "…")
        raise TypeError(f"each prediction has its name: write predict.{first}(); predict alone lists them")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "results"]

    def __repr__(self) -> str:
        return self.by_lesson(lambda prediction: prediction.picked is not None)


# One module of each kind for each lesson, found by its name.
_MODULES = sorted(found.name for found in pkgutil.iter_modules(lessons.__path__, f"{lessons.__name__}."))
check = Checks(*(importlib.import_module(name) for name in _MODULES if ".lesson_" in name))
predict = Predictions(*(importlib.import_module(name) for name in _MODULES if ".predictions_" in name))
problem = Problems(PROBLEMS)
