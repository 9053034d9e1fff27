"""The problem set, ten broken layers and a healthy one: `problem.reviews` and the others of `mhacourse`.

The layers in their healthy form are in `layers`; `first`, `second` and `third` say, in the order of the notebook, what
breaks each one, what its owner saw, and what an answer is told. The inputs for mended layers are in `cases`.
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
