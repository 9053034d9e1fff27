"""Answers that are defined as a notebook's cell does it, and checks without the search for small edits."""

import contextlib
import linecache
import textwrap
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn

import mhalib
from mhalib.checks import check


def typed(source: str, name: str = "mine", *, keep_source: bool = True, **names: object) -> Callable:
    """Return what a cell defines, with its source where Python looks for it; a terminal keeps none."""
    source = textwrap.dedent(source).strip() + "\n"
    file = f"<cell {hash(source)}>" if keep_source else "<stdin>"
    if keep_source:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "F": F, "nn": nn, "mhalib": mhalib, **names}
    exec(compile(source, file, "exec"), space)
    return eval(name, space)


@contextlib.contextmanager
def without_error_model() -> Iterator[None]:
    """Judge without the edits of right answers: to make those takes long, and they have tests of their own."""
    kept = {exercise.name: vars(exercise).pop("edits", None) for exercise in check}
    for exercise in check:
        vars(exercise)["edits"] = []
    try:
        yield
    finally:
        for exercise in check:
            del vars(exercise)["edits"]
            if kept[exercise.name] is not None:
                vars(exercise)["edits"] = kept[exercise.name]
