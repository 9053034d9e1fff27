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
from pathlib import Path

from torch import nn

from attention_doctor import adapt, examine
from attention_doctor.calling import MASKS, OVER, ROLES, Adapted


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m attention_doctor", description="Examine an attention layer.")
    parser.add_argument("factory", help="package.module:name of a class, or of a function that returns the layer")
    parser.add_argument("--d-model", type=int, help="features of the input")
    parser.add_argument("--num-heads", type=int, help="how many heads it is said to have")
    parser.add_argument("--head-dim", type=int, help="features of one head, if not d_model / num_heads")
    parser.add_argument("--convention", choices=[*ROLES], help="how the layer is called")
    parser.add_argument("--mask", choices=[*filter(None, MASKS), "none"], help="the kind of mask that it takes")
    parser.add_argument("--mask-rank", type=int, choices=(1, 2, 3, 4), help="axes of the mask")
    parser.add_argument("--mask-over", choices=OVER, help="one of pairs, or of keys alone, as for padding")
    parser.add_argument("--time-first", action="store_true", help="the layer takes (T, B, d_model)")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which the examination ends")
    parser.add_argument("--markdown", metavar="FILE", help="also write a page for a pull request; - prints it")
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
    options = {}
    if given.mask:
        options["mask"] = None if given.mask == "none" else given.mask
    if given.mask_rank:
        options["mask_rank"] = given.mask_rank
    if given.time_first:
        options["batch_first"] = False
    if given.mask_over:
        options["mask_over"] = given.mask_over
    if not isinstance(layer, Adapted) and not (given.convention or options):
        return layer
    if not isinstance(layer, Adapted):
        return adapt(layer, given.convention or ("torch" if Adapted(layer).is_torch else "plain"), **options)
    if given.convention or options:
        raise ValueError(
            "the factory returns what adapt() gave, which says how the layer is called; leave out the options for that"
        )
    return layer


def _load(name: str):
    """Return the class or function `package.module:name`, or what it makes, where it is a factory."""
    module, colon, factory = name.partition(":")
    if not colon or not module or not factory:
        raise ValueError(f"expected package.module:factory, got {name!r}; for example mylayers:make_layer")
    sys.path.insert(0, "")  # as `python -m` has it: the folder in which the reader stands
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise  # the module is there, and misses one of its own
        where = f"no module {error.name} in {os.getcwd()}, nor in this Python ({sys.executable})"
        raise ImportError(f"{where}; go to the folder that holds it, and leave .py out of the name") from None
    for part in factory.split("."):
        if not hasattr(found, part):
            there = ", ".join(
                name for name, it in getattr(found, "__dict__", {}).items() if callable(it) and name[0] != "_"
            )
            raise AttributeError(f"{module} has no {part}; what can be called in it: {there or 'nothing'}")
        found = getattr(found, part)
    if isinstance(found, nn.Module):
        raise TypeError(
            f"{name} is a layer already; give a function that returns it, def make_layer(): return {factory}"
        )
    if not callable(found):
        raise TypeError(
            f"{name} is no function that makes a layer, but {type(found).__name__}; give a function without arguments"
        )
    if isinstance(found, type):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError:
        return found  # a function of tokens, not one that makes a layer
    return found()


if __name__ == "__main__":
    sys.exit(main())
