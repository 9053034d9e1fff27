"""Answers that are defined as a notebook's cell does it."""

import linecache
import textwrap
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import mhalib


def typed(source: str, name: str = "mine", *, keep_source: bool = True, **names: object) -> Callable:
    """Return what a cell defines, with its source where Python looks for it; a terminal keeps none."""
    source = textwrap.dedent(source).strip() + "\n"
    file = f"<cell {hash(source)}>" if keep_source else "<stdin>"
    if keep_source:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "F": F, "nn": nn, "mhalib": mhalib, **names}
    exec(compile(source, file, "exec"), space)
    return eval(name, space)
