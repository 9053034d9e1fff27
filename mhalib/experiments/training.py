"""Train one small model: the loop, its progress bar, and what it does when something goes wrong.

What is trained stands in `models`, on what in `tasks`. Many such runs at once are the matter of `sweeps`, which arm is
better that of `comparison`, the live curve that of `curves`.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mhalib.arguments import check_size
from mhalib.experiments.randomness import seeded
from mhalib.experiments.tasks import NO_ANSWER

try:
    from tqdm.auto import tqdm
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'training needs tqdm; install it with: python -m pip install "mhalib[training]"', name="tqdm"
    ) from None

# The same questions for every model and every seed, and from a seed that nobody takes for training.
EVALUATION_SEED = 20_000_003
LATELY = 20  # batches over which `fit` asks whether it is enough; a single one says little

_unattended: ContextVar[bool] = ContextVar("unattended", default=False)


@runtime_checkable  # for the checks that run in the tests
class Task(Protocol):
    """What can be trained on: anything that makes batches of inputs and right answers, such as `tasks.Lookup`.

    Notebook 07 trains on one.
    """

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]: ...


class DivergedError(ValueError):
    """Training reached a loss that is no finite number.

    Raised by `fit`, which notebook 07 teaches.
    """


@dataclass
class Fit:
    """What `fit` returns.

    Attributes:
        model: the trained model, the very object that was given, in evaluation mode.
        losses: the loss of each step, in nats.
        evaluation: `loss` and `accuracy` on fresh batches, as `evaluate` returns them.
        seconds: how long training took, without the evaluation.
        interrupted: whether it was stopped before its last step.

    Notebook 07 teaches `fit`.
    """

    model: nn.Module = field(repr=False)
    losses: list[float] = field(repr=False)
    evaluation: dict[str, float]
    seconds: float
    interrupted: bool

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
    device: torch.device | str = "cpu",
    progress: bool | None = None,
    watch: Callable[[list[float], bool], None] | None = None,
) -> Fit:
    """Train `model` on fresh batches of `task` with Adam, then measure it on batches it has not seen.

    The same model, arguments and machine give the same numbers, bit by bit; the global random state is left as it
    was. An interrupt (the stop button, Ctrl-C) ends the training early, and what was reached is returned; in a run of a
    sweep it ends the sweep instead.

    Args:
        model: takes the inputs of a batch, returns scores whose last axis is the choice; it is changed in place.
        task: makes the batches.
        steps: how many batches; at most, with `enough`.
        lr: the learning rate, constant.
        seed: of the batches and of dropout. That of the initial weights belongs to the model.
        batch_size: how many sequences a step sees.
        enough: stop early, once this share of the answers of the last 20 batches was right, above 0 and at most 1. Each
            batch is fresh and counted before it is learned from, so the share is one of answers not seen before; how
            many steps it took is `len(losses)`.
        device: "cpu", or "cuda" or "mps" where there is one; the model is moved there and stays there.
        progress: show a bar; when left out, wherever somebody may be watching: not in the runs of a sweep.
        watch: called after each step with all losses so far and False, and once at the end with True; `LiveCurve`
            of `curves` draws them.

    Raises:
        DivergedError: a loss is not finite; a `ValueError`.
        ValueError: a number is out of range, or there is no such device.

    Kingma and Ba (2015) for Adam. Taught in notebook 07.
    """
    check_size("steps", steps)
    check_size("batch_size", batch_size)
    if enough is not None and not 0 < enough <= 1:
        raise ValueError(f"enough must be a share of right answers, above 0 and at most 1, got {enough!r}; give 0.98")
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be a positive number, got {lr!r}; 0.01 is a good start for models this small")
    device = find_device(device)
    attended = not _unattended.get()
    losses: list[float] = []
    lately: deque[float] = deque(maxlen=LATELY)
    interrupted = False
    model.to(device).train()
    # Fused: all weights in one call, which halves the time of a step of models this small.
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    generator = torch.Generator().manual_seed(seed)  # on the CPU, so that every device sees the same batches
    # More threads slow down models this small, on a busy machine many times over; one gives the same bits in a sweep.
    with torch_threads(1):
        start = time.perf_counter()
        bar = tqdm(total=steps, unit="step", leave=False, disable=not (attended if progress is None else progress))
        try:
            with bar, seeded(seed, device):
                for step in range(steps):
                    inputs, targets = (x.to(device) for x in task.batch(batch_size, generator))
                    scores = model(inputs)
                    loss = cross_entropy(scores, targets)
                    value = loss.item()
                    if not math.isfinite(value):
                        raise _diverged(f"the loss is {value} at step {step}", lr)
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
        except KeyboardInterrupt:
            if not attended:  # half a training must not pass for a whole one
                raise
            interrupted = True
        seconds = time.perf_counter() - start
        if watch is not None:
            watch(losses, True)
        evaluation = evaluate(model, task)
    if not math.isfinite(evaluation["loss"]):
        raise _diverged(f"after {len(losses)} steps the loss on fresh batches is {evaluation['loss']}", lr)
    return Fit(model, losses, evaluation, seconds, interrupted)


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, *, size: int = 1024, seed: int = EVALUATION_SEED) -> dict[str, float]:
    """Return the `loss` in nats and the `accuracy` from 0 to 1 on fresh sequences; leaves the model in evaluation mode.

    Args:
        model: as in `fit`.
        task: as in `fit`.
        size: how many sequences; every position of every one counts.
        seed: of the sequences, by default the same ones for all models.

    Raises:
        ValueError: `size` is not a positive integer.

    Used in notebooks 08 and 12.
    """
    check_size("size", size)
    model.eval()
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    loss, right, answers = 0.0, 0, 0
    for first in range(0, size, 256):  # in pieces, so that memory does not grow with the size
        inputs, targets = (x.to(device) for x in task.batch(min(256, size - first), generator))
        scores = model(inputs)
        found, here = _count_right(scores, targets)
        loss += cross_entropy(scores, targets).item() * here
        right += found
        answers += here
    return {"loss": loss / answers, "accuracy": right / answers}


def cross_entropy(scores: Float[Tensor, "*axes choices"], targets: Int[Tensor, "*axes"]) -> Float[Tensor, ""]:
    """Return the mean of -log(probability of the right answer), in nats; targets of -100 (`NO_ANSWER`) do not count.

    Raises:
        ValueError: the scores do not have the shape of the targets and one more axis.

    No notebook uses it by itself: it is the loss of `fit`, which notebook 07 teaches.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import cross_entropy
        >>> cross_entropy(torch.zeros(1, 3, 4), torch.tensor([[0, 1, -100]]))
        tensor(1.3863)
    """
    if scores.shape[:-1] != targets.shape:
        raise ValueError(
            f"scores must have the shape of the targets, {tuple(targets.shape)}, and one axis of choices behind it, "
            f"got {tuple(scores.shape)}; check the number of lookups and the order of the axes"
        )
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=NO_ANSWER)


def find_device(name: torch.device | str) -> torch.device:
    """Return the device of that name, if this machine has it.

    Raises:
        ValueError: it has none, or nobody has heard of it.

    No notebook needs it: all of them run on the CPU.

    Examples:
        >>> from mhalib.experiments import find_device
        >>> find_device("cpu")
        device(type='cpu')
    """
    try:
        device = torch.device(name)
        present = device.type == "cpu" or (
            torch.accelerator.is_available()
            and torch.accelerator.current_accelerator().type == device.type
            and (device.index or 0) < torch.accelerator.device_count()
        )
    except RuntimeError:
        present = False
    if not present:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        raise ValueError(
            f"device {str(name)!r} is not to be had here; use device='cpu'" + (f" or '{found.type}'" if found else "")
        )
    return device


@contextmanager
def unattended() -> Iterator[None]:
    """Train inside the `with` where nobody watches: `fit` shows no bar, and lets an interrupt through to its caller."""
    token = _unattended.set(True)
    try:
        yield
    finally:
        _unattended.reset(token)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads of the CPU inside the `with`, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _count_right(scores: Tensor, targets: Tensor) -> tuple[int, int]:
    """Return how many answers are right, and how many there are; places without one do not count."""
    return int((scores.argmax(-1) == targets).sum()), int((targets != NO_ANSWER).sum())  # argmax is never NO_ANSWER


def _diverged(what: str, lr: float) -> DivergedError:
    return DivergedError(
        f"{what} with lr={lr:g}: training has diverged, no further step can mend it; build the model again and take "
        f"a smaller step, such as lr={lr / 10:g}, or look for a division by zero in the model"
    )
