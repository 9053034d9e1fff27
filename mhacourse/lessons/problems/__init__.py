"""The problem set: ten broken layers and a healthy one, `problem.reviews` of `mhacourse`.

The layers stand in `layers` as they should be; `first`, `second` and `third` say what breaks each, what its owner saw,
and what is said of an answer, in the order of the notebook. What a mended layer is driven through stands in `cases`.
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
