"""Train small models, one alone or several of one shape at once: the loop, its bar, and what may go wrong in it.

What is trained stands in `models`, on what in `tasks`. Many such runs at once are the matter of `sweeps`, which arm is
better that of `comparison`, the live curve that of `curves`.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from mhalib.arguments import check_size, extra, torch_threads
from mhalib.experiments.models import seeded
from mhalib.experiments.tasks import NO_ANSWER

with extra("training", "training"):
    from tqdm.auto import tqdm

# The same questions for every model and every seed, and from a seed that nobody takes for training.
EVALUATION_SEED = 20_000_003
LATELY = 20  # batches over which `fit` asks whether it is enough; a single one says little


@runtime_checkable  # for the checks that run in the tests
class Task(Protocol):
    """What can be trained on: anything that makes batches of inputs and right answers, such as `tasks.Lookup`."""

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]: ...


class DivergedError(ValueError):
    """Training reached a loss that is no finite number."""


@dataclass
class Fit:
    """What `fit` returns.

    Attributes:
        model: the trained model, the very object that was given, in evaluation mode.
        losses: the loss of each step, in nats.
        evaluation: `loss` and `accuracy` on fresh batches, as `evaluate` returns them.
        seconds: how long training took, without the evaluation.
    """

    model: nn.Module = field(repr=False)
    losses: list[float] = field(repr=False)
    evaluation: dict[str, float]
    seconds: float

    @property
    def accuracy(self) -> float:
        return self.evaluation["accuracy"]


def fit(
    model: nn.Module,
    task: Task,
    *,
    steps: int,
    lr: float,
    seed: int = 0,
    batch_size: int = 64,
    enough: float | None = None,
    progress: bool = True,
    watch: Callable[[list[float], bool], None] | None = None,
) -> Fit:
    """Train `model`, on the device where it is, on fresh batches of `task` with Adam, then measure it on others.

    The same model, arguments and machine give the same numbers, bit by bit; the CPU's random state is left as it was.

    Args:
        model: takes the inputs of a batch, returns scores whose last axis is the choice; it is changed in place.
        task: makes the batches.
        steps, lr, batch_size: how many batches, the constant learning rate, the sequences of a batch.
        seed: of the batches and of dropout. That of the initial weights belongs to the model.
        enough: stop early, once this share of the answers of the last 20 batches was right, above 0 and at most 1. Each
            batch is counted before it is learned from. How many steps it took is `len(losses)`.
        progress: show a bar.
        watch: called after each step with all losses so far and False, and once at the end with True: a `LiveCurve`.

    Raises:
        DivergedError: a loss is not finite; a `ValueError`.
        ValueError: a number is out of range.

    Kingma and Ba (2015) for Adam. Taught in notebook 07.
    """
    _check(steps, batch_size, lr)
    if enough is not None and not 0 < enough <= 1:
        raise ValueError(f"enough must be a share of right answers, above 0 and at most 1, got {enough!r}; give 0.98")
    losses: list[float] = []
    lately: deque[float] = deque(maxlen=LATELY)
    device = next(model.train().parameters()).device
    # Fused: all weights in one call, which halves the time of a step of models this small.
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    generator = torch.Generator().manual_seed(seed)  # on the CPU, so that every device sees the same batches
    # More threads slow down models this small, on a busy machine many times over; one gives the same bits in a sweep.
    with torch_threads(1):
        start = time.perf_counter()
        with tqdm(total=steps, unit="step", leave=False, disable=not progress) as bar, seeded(seed):
            for step in range(steps):
                inputs, targets = (x.to(device) for x in task.batch(batch_size, generator))
                scores = model(inputs)
                loss = _cross_entropy(scores, targets)
                value = loss.item()
                _check_finite([value], f"at step {step}", lr)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(value)
                bar.set_postfix_str(f"loss {value:.3f}", refresh=False)
                bar.update()
                if watch is not None:
                    watch(losses, False)
                if enough is not None:
                    right, answers = _count_right(scores, targets)
                    lately.append(right / answers)
                    if len(lately) == LATELY and sum(lately) / LATELY >= enough:
                        bar.total = bar.n  # finished, and not broken off: a bar that is left early turns red
                        break
        seconds = time.perf_counter() - start
        if watch is not None:
            watch(losses, True)
        evaluation = evaluate(model, task)
    _check_finite([evaluation["loss"]], f"on fresh batches after {len(losses)} steps", lr)
    return Fit(model, losses, evaluation, seconds)


def fit_together(
    models: Sequence[nn.Module],
    task: Task,
    *,
    steps: int,
    lr: float,
    seeds: Sequence[int],
    batch_size: int = 64,
) -> list[Fit]:
    """Train each model as `fit` does, all of them in one loop, and measure each on batches it has not seen.

    Models this small spend most of a step on starting operations, not on numbers: ten models, stacked along a new axis,
    start as many as one. Each sees the batches of its own seed and has an optimizer's state of its own. The same call
    gives the same numbers; those of `fit` differ in rounding, and training makes more of such differences.

    Args:
        models: on the CPU, all of one class, with parameters of the same names and shapes; changed in place. One that
            uses a weight twice uses it in all of them.
        task, steps, lr, batch_size: as in `fit`, for each model.
        seeds: of the batches, one for each model.

    Returns:
        one `Fit` for each model, in their order; `seconds` is the share of each in the time of all.

    Raises:
        DivergedError: a loss is not finite; the message says whose.
        ValueError: a number is out of range, there is no model, or not one seed for each.
        RuntimeError: the models cannot be stacked; torch says why.

    Taught in notebook 07.
    """
    models, seeds = list(models), list(seeds)
    _check(steps, batch_size, lr)
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
        return _cross_entropy(functional_call(models[0], given, (inputs,), tie_weights=False), targets)

    losses_of = vmap(loss_of, randomness="different")
    losses: list[list[float]] = []
    with torch_threads(1):  # as in `fit`
        start = time.perf_counter()
        # The fused kernel cannot be stacked: torch would warn, and call it once for each model.
        with sdpa_kernel(SDPBackend.MATH), seeded(seeds[0]):
            for step in range(steps):
                batches = zip(*(task.batch(batch_size, generator) for generator in generators), strict=True)
                inputs, targets = map(torch.stack, batches)  # (models, B, …) each
                loss = losses_of(parameters, buffers, inputs, targets)  # (models,)
                losses.append(loss.tolist())
                _check_finite(losses[-1], f"at step {step}", lr, seeds)
                optimizer.zero_grad()
                loss.sum().backward()  # each model is in one term only, so each gets its own gradient
                optimizer.step()
        seconds = (time.perf_counter() - start) / len(models)
        _hand_back(models, parameters | buffers)
        evaluations = [evaluate(model, task) for model in models]
    _check_finite([found["loss"] for found in evaluations], "on fresh batches", lr, seeds)
    curves = map(list, zip(*losses, strict=True))
    return [Fit(model, curve, found, seconds) for model, curve, found in zip(models, curves, evaluations, strict=True)]


@torch.no_grad()
def evaluate(model: nn.Module, task: Task) -> dict[str, float]:
    """Return the `loss` in nats and the `accuracy` from 0 to 1 on 1,024 fresh sequences, the same for all models.

    Leaves the model in evaluation mode. Used in notebook 08.
    """
    device = next(model.eval().parameters()).device
    generator = torch.Generator().manual_seed(EVALUATION_SEED)
    loss, right, answers = 0.0, 0, 0
    for _ in range(4):  # in pieces: less memory
        inputs, targets = (x.to(device) for x in task.batch(256, generator))
        scores = model(inputs)
        found, here = _count_right(scores, targets)
        loss += _cross_entropy(scores, targets).item() * here
        right += found
        answers += here
    return {"loss": loss / answers, "accuracy": right / answers}


def _check(steps: int, batch_size: int, lr: float) -> None:
    check_size("steps", steps)
    check_size("batch_size", batch_size)
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be a positive number, got {lr!r}; 0.01 is a good start for models this small")


def _cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log(probability of the right answer), in nats; `NO_ANSWER` does not count."""
    if scores.shape[:-1] != targets.shape:
        raise ValueError(
            f"scores must have the shape of the targets, {tuple(targets.shape)}, and one axis of choices behind it, "
            f"got {tuple(scores.shape)}; check the number of lookups and the order of the axes"
        )
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=NO_ANSWER)


def _count_right(scores: Tensor, targets: Tensor) -> tuple[int, int]:
    """Return how many answers are right, and how many there are; places without one do not count."""
    return int((scores.argmax(-1) == targets).sum()), int((targets != NO_ANSWER).sum())  # argmax is never NO_ANSWER


def _check_finite(losses: list[float], where: str, lr: float, seeds: Sequence[int] = ()) -> None:
    lost = [i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    if lost:
        whose = f" for seeds {[seeds[i] for i in lost]}" if seeds else ""
        raise DivergedError(
            f"the loss {where} is {losses[lost[0]]}{whose} with lr={lr:g}: training has diverged, no further step can "
            f"mend it; build the model again and take a smaller step, such as lr={lr / 10:g}, or look for a division "
            "by zero in the model"
        )


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
def _hand_back(models: Sequence[nn.Module], stacked: dict[str, Tensor]) -> None:
    """Copy what was trained from the stack into the models themselves."""
    for i, model in enumerate(models):
        own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name, values in stacked.items():
            own[name].copy_(values[i])
