"""The problem set: ten broken layers and one healthy one, available from `mhacourse` as `problem.reviews` and so on.

The layers in their healthy form are in `layers`. `first`, `second` and `third` describe, in notebook order, what breaks
each layer, what its owner saw, and the feedback that each answer gets. The inputs for testing a mended layer are in
`cases`.
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
