"""`python -m attention_doctor package.module:MyAttention`: examine a layer from the command line.

What is named is a class of layers, a function of tokens, or a factory: a function without arguments that returns the
layer. How the layer is called is found out, as by `examine`; the options below say it, and what cannot be said here, a
factory says: it may return what `adapt` gave. Exit code 0: no finding; 1: findings; 2: it could not be examined.
"""

import argparse
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

from attention_doctor import adapt, examine
from attention_doctor.calling import MASKS, OVER, ROLES, Adapted

OPTIONS = ("mask", "mask_rank", "mask_over")
ARGUMENTS = {
    "factory": {"help": "package.module:name of a class, or of a function that returns the layer"},
    "--d-model": {"type": int, "help": "features of the input"},
    "--num-heads": {"type": int, "help": "how many heads it is said to have"},
    "--head-dim": {"type": int, "help": "features of one head, if not d_model / num_heads"},
    "--convention": {"choices": [*ROLES], "help": "how the layer is called"},
    "--mask": {"choices": [*filter(None, MASKS), "none"], "help": "the kind of mask that it takes"},
    "--mask-rank": {"type": int, "choices": (1, 2, 3, 4), "help": "axes of the mask"},
    "--mask-over": {"choices": OVER, "help": "one of pairs, or of keys alone, as for padding"},
    "--time-first": {"action": "store_true", "help": "the layer takes (T, B, d_model)"},
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
        attend = _as_told(_load(given.factory), given)
        sizes = (given.d_model, given.num_heads)
        report = examine(attend, *sizes, head_dim=given.head_dim, seconds=given.seconds)
        if given.markdown and given.markdown != "-":
            Path(given.markdown).write_text(report.to_markdown(), encoding="utf-8")
    except Exception as error:
        print(f"{parser.prog}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if hasattr(sys.stdout, "reconfigure"):  # into a pipe, Windows writes some 250 characters only: spell the others
        sys.stdout.reconfigure(errors="backslashreplace")
    print(report.to_markdown() if given.markdown == "-" else report)
    return 0 if report.ok else 1


def _as_told(layer: object, given: argparse.Namespace) -> object:
    """Return the layer, called as the options say, or as it is where they say nothing."""
    options = {name: value for name in OPTIONS if (value := getattr(given, name))}
    if given.time_first:
        options["batch_first"] = False
    if options.get("mask") == "none":
        options["mask"] = None
    if not (given.convention or options):
        return layer
    if isinstance(layer, Adapted):
        raise ValueError("the factory returns what adapt() gave, which says how it is called; leave out the options")
    return adapt(layer, given.convention or ("torch" if Adapted(layer).is_torch else "plain"), **options)


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
