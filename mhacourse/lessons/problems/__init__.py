"""The problem set: ten broken layers and a healthy one, `problem.reviews` of `mhacourse`.

The healthy layers are in `layers`; `first`, `second` and `third` say what breaks each one, what its owner saw, and what
an answer is told, in the order of the notebook. What a mended layer is tried on is in `cases`.
"""

from mhacourse.lessons.problems import blind, first, second, third
from mhacourse.problem_set import Problem

__all__ = ["PROBLEMS"]

PROBLEMS: dict[str, Problem] = {
    name: value
    for module in (first, second, third)
    for name, value in vars(module).items()
    if isinstance(value, Problem)
}
for _problem in PROBLEMS.values():
    blind.told(_problem)
