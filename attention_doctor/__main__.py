"""`python -m attention_doctor package.module:MyAttention`: examine a layer from the command line.

What is named is a class of layers, a function of tokens, or a factory: a function without arguments that returns the
layer. How the layer is called is found out, as by `examine`; `--called-as`, or a factory that returns what `adapt`
gave, says it. Exit code 0: no finding; 1: findings; 2: it could not be examined.
"""

import argparse
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from attention_doctor import adapt, examine

ARGUMENTS = {
    "factory": {"help": "package.module:name of a class, or of a function that returns the layer"},
    "--d-model": {"type": int, "help": "features of the input"},
    "--num-heads": {"type": int, "help": "how many heads it is said to have"},
    "--head-dim": {"type": int, "help": "features of one head, if not d_model / num_heads"},
    "--called-as": {"metavar": "LINE", "help": "how it is called: such as adapt(layer, mask='blocked')"},
    "--seconds": {"type": float, "default": 60.0, "help": "after which the examination ends"},
    "--markdown": {"metavar": "FILE", "help": "also write a page for a pull request; - prints it"},
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attention_doctor", description="Examine an attention layer.")
    for name, options in ARGUMENTS.items():
        parser.add_argument(name, **options)
    given = parser.parse_args(argv)
    try:
        attend = _load(given.factory)
        if given.called_as:
            if "adapt(" not in given.called_as:
                raise ValueError(f"expected a call such as adapt(layer, mask='blocked'), got {given.called_as!r}")
            attend = eval(given.called_as, {"adapt": adapt, "torch": torch, "layer": attend})
        report = examine(attend, given.d_model, given.num_heads, head_dim=given.head_dim, seconds=given.seconds)
        if given.markdown and given.markdown != "-":
            Path(given.markdown).write_text(report.to_markdown(), encoding="utf-8")
    except Exception as error:
        print(f"{parser.prog}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if hasattr(sys.stdout, "reconfigure"):  # into a pipe, Windows writes some 250 characters only: spell the others
        sys.stdout.reconfigure(errors="backslashreplace")
    print(report.to_markdown() if given.markdown == "-" else report)
    return 0 if report.ok else 1


def _load(name: str) -> Callable:
    """Return the class or function `package.module:name`, or what it makes, where it is a factory."""
    module, _, factory = name.partition(":")
    if not module or not factory:
        raise ValueError(f"expected package.module:factory, got {name!r}; for example mylayers:make_layer")
    sys.path.insert(0, "")  # as `python -m` has it: the folder in which the reader is
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise  # the module is there, and misses one of its own
        where = f"no module {error.name} in {os.getcwd()}, nor in this Python ({sys.executable})"
        raise ImportError(f"{where}; go to the folder that holds it, and leave .py out of the name") from None
    for part in factory.split("."):
        if not hasattr(found, part):
            there = [name for name, it in getattr(found, "__dict__", {}).items() if callable(it) and name[0] != "_"]
            raise AttributeError(f"{module} has no {part}; what can be called in it: {', '.join(there) or 'nothing'}")
        found = getattr(found, part)
    if isinstance(found, nn.Module) or not callable(found):
        made = f"give a function without arguments that returns it, def make_layer(): return {factory}"
        raise TypeError(f"{name} is no function that makes a layer, but {type(found).__name__}; {made}")
    if isinstance(found, type):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError:
        return found  # a function of tokens, not one that makes a layer
    return found()


if __name__ == "__main__":
    sys.exit(main())
