"""`python -m mhalib.doctor package.module:factory --d-model 64 --num-heads 4`: examine a layer from the command line.

The factory is called without arguments and returns the layer, or a function `attend(x, mask)`; a module class that
needs no arguments is a factory, too. What cannot be said here, the factory says: it may return what `adapt` gave. Exit
code 0: no finding; 1: findings; 2: it could not be examined.
"""

import argparse
import importlib
import inspect
import os
import sys

from torch import nn

from mhalib.doctor import adapt, examine
from mhalib.doctor.adapt import CONVENTIONS, MASKS, Adapted, is_torch_layer


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mhalib.doctor", description="Examine an attention layer.")
    parser.add_argument("factory", help="package.module:name of a function that returns the layer")
    parser.add_argument("--d-model", type=int, required=True, help="features of the input")
    parser.add_argument("--num-heads", type=int, required=True, help="how many heads it is said to have")
    parser.add_argument("--head-dim", type=int, help="features of one head, if not d_model / num_heads")
    parser.add_argument("--convention", choices=CONVENTIONS, help="how the layer is called")
    parser.add_argument("--mask", choices=[*filter(None, MASKS), "none"], help="the kind of mask that it takes")
    parser.add_argument("--mask-rank", type=int, choices=(1, 2, 3, 4), help="axes of the mask")
    parser.add_argument("--time-first", action="store_true", help="the layer takes (T, B, d_model)")
    given = parser.parse_args(argv)
    try:
        attend = _as_told(_load(given.factory), given)
        report = examine(attend, given.d_model, given.num_heads, head_dim=given.head_dim)
    except Exception as error:
        print(f"{parser.prog}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.ok else 1


def _as_told(layer: object, given: argparse.Namespace) -> Adapted:
    """Return the layer in the doctor's form, called as the options say."""
    options = {}
    if given.mask:
        options["mask"] = None if given.mask == "none" else given.mask
    if given.mask_rank:
        options["mask_rank"] = given.mask_rank
    if given.time_first:
        options["batch_first"] = False
    if not isinstance(layer, Adapted):
        return adapt(layer, given.convention or ("torch" if is_torch_layer(layer) else "plain"), **options)
    if given.convention or options:
        raise ValueError(
            "the factory returns what adapt() gave, which says how the layer is called; leave out the options for that"
        )
    return layer


def _load(name: str):
    """Return what the factory `package.module:name` makes."""
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
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        wanted = f"expected a function that needs no arguments, {name} is {error}"
        raise TypeError(f"{wanted}; write one, such as def make_layer(): return MyAttention(64, 8)") from None
    return found()


if __name__ == "__main__":
    sys.exit(main())
