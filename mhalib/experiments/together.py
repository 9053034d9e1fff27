"""Train several models of one shape at once: each step is a step of all of them.

Models this small spend most of a step on starting operations, not on numbers. Stacked along a new axis, ten models
start as many operations as one. The loop for a single model, with its live curve, stands in `training`.
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm.auto import tqdm

from mhalib.arguments import check_size
from mhalib.experiments.randomness import seeded
from mhalib.experiments.training import DivergedError, Fit, Task, cross_entropy, evaluate, torch_threads


def fit_together(
    models: Sequence[nn.Module],
    task: Task,
    *,
    steps: int,
    lr: float,
    seeds: Sequence[int],
    batch_size: int = 64,
    progress: bool = False,
) -> list[Fit]:
    """Train each model as `fit` does, all of them in one loop, and measure each on batches it has not seen.

    Each model sees batches of its own, those of its seed, and has an optimizer's state of its own: no model knows of
    the others. The same call gives the same numbers; those of `fit` differ in rounding, and training makes more of
    such differences. The global random state is left as it was.

    Args:
        models: on the CPU, all of one class, with parameters of the same names and shapes; changed in place. One that
            uses a weight twice uses it in all of them.
        task: makes the batches.
        steps: how many batches each model sees.
        lr: the learning rate, constant.
        seeds: of the batches, one for each model.
        batch_size: how many sequences of its own each model sees in a step.
        progress: show a bar.

    Returns:
        one `Fit` for each model, in their order; `seconds` is the share of each in the time of all.

    Raises:
        DivergedError: a loss is not finite; the message says whose.
        ValueError: a number is out of range, there is no model, or not one seed for each.
        RuntimeError: the models cannot be stacked; torch says why.

    Taught in notebook 07.
    """
    models, seeds = list(models), list(seeds)
    check_size("steps", steps)
    check_size("batch_size", batch_size)
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be a positive number, got {lr!r}; 0.01 is a good start for models this small")
    if not models or len(models) != len(seeds):
        raise ValueError(f"fit_together needs one seed for each model, got {len(models)} models and {len(seeds)} seeds")
    for model in models:
        model.train()
    parameters, buffers = stack_module_state(models)
    optimizer = torch.optim.Adam(parameters.values(), lr=lr, fused=True)
    places = _places(models[0])
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def loss_of(parameters, buffers, inputs, targets):
        given = {name: parameters[own] for name, own in places.items()} | buffers
        return cross_entropy(functional_call(models[0], given, (inputs,), tie_weights=False), targets)

    losses_of = vmap(loss_of, randomness="different")
    losses: list[list[float]] = []
    with ExitStack() as stack:
        stack.enter_context(torch_threads(1))  # as in `fit`
        # The fused kernel cannot be stacked: torch would warn, and call it once for each model.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(seeded(seeds[0]))
        bar = stack.enter_context(tqdm(total=steps, unit="step", leave=False, disable=not progress))
        start = time.perf_counter()
        for step in range(steps):
            batches = zip(*(task.batch(batch_size, generator) for generator in generators), strict=True)
            inputs, targets = map(torch.stack, batches)  # (models, B, …) each
            loss = losses_of(parameters, buffers, inputs, targets)  # (models,)
            losses.append(loss.tolist())
            _check_finite(losses[-1], seeds, f"at step {step}", lr)
            optimizer.zero_grad()
            loss.sum().backward()  # each model is in one term only, so each gets its own gradient
            optimizer.step()
            bar.update()
        seconds = (time.perf_counter() - start) / len(models)
    _hand_back(models, parameters, buffers)
    with torch_threads(1):
        evaluations = [evaluate(model, task) for model in models]
    _check_finite([found["loss"] for found in evaluations], seeds, "on fresh batches", lr)
    curves = map(list, zip(*losses, strict=True))
    return [
        Fit(model, curve, found, seconds, interrupted=False)
        for model, curve, found in zip(models, curves, evaluations, strict=True)
    ]


def _places(model: nn.Module) -> dict[str, str]:
    """Return where a parameter stands -> the name under which it is stacked.

    torch's own `tie_weights` leaves a module that is used twice with a stacked weight in it.
    """
    first: dict[nn.Parameter, str] = {}
    return {
        name: first.setdefault(parameter, name)
        for prefix, module in model.named_modules()  # each module once, though it may have two names
        for name, parameter in module.named_parameters(prefix, recurse=False)
    }


@torch.no_grad()
def _hand_back(models: Sequence[nn.Module], *stacked: dict[str, torch.Tensor]) -> None:
    """Copy what was trained from the stack into the models themselves."""
    for i, model in enumerate(models):
        own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name, values in (item for part in stacked for item in part.items()):
            own[name].copy_(values[i])


def _check_finite(values: list[float], seeds: Sequence[int], where: str, lr: float) -> None:
    if lost := [seed for seed, value in zip(seeds, values, strict=True) if not math.isfinite(value)]:
        raise DivergedError(
            f"the loss {where} is not finite for seeds {lost} with lr={lr:g}: training has diverged; build the models "
            f"again and take a smaller step, such as lr={lr / 10:g}, or leave these seeds to `fit`, one by one"
        )
