"""A learner's test of a layer, tried on broken and on healthy layers.

A test takes a layer and returns True where the layer is fine; one that asserts is understood as well. Each layer that
it is tried on writes down how it is called, so that a blind test can be told what it never looked at. What is said of
it all stands in `judge_test`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mhacourse.compare import kind_of, show
from mhacourse.run import Failure, Outcome, run

SECONDS = 20.0  # for one test on some thirty small layers
LARGER = 6.0  # a healthy layer stays healthy with larger weights
SEED = 150  # of what a test draws: with it randperm(T) is no identity, T = 3 to 8, before or after the usual inputs
_ASSERTED = "an assert that did not hold"


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer, as it was made.

    Args:
        given: its arguments by name, copied.
        training: its mode.
        chance: where the random numbers stood.
        layer: the layer that was called.
        settings: the numbers that a layer of its kind was made with, by name.
        cached: the call that returned the cache it was handed, if any.
        gave: what it returned.
    """

    given: Mapping[str, object]
    training: bool
    chance: int
    layer: nn.Module
    settings: Mapping[str, object]
    cached: "Call | None" = None
    gave: list = field(default_factory=list)

    @property
    def x(self) -> Tensor:
        return self.given["x"]

    @property
    def mask(self) -> Tensor | None:
        return self.given.get("mask")

    @property
    def changed(self) -> list[str]:
        """The settings that are no longer what they were, by name."""
        now = settings_of(self.layer)
        return [name for name, value in self.settings.items() if now.get(name) != value]

    def __str__(self) -> str:
        return ", ".join(f"{name} {_shape(value)}" for name, value in self.given.items() if value is not None)


@dataclass(eq=False)
class Subject:
    """A layer that a test is tried on.

    Args:
        layer: the layer, fresh, in training mode as torch makes it.
        name: what it is, in words.
        size: its d_model and num_heads.
        calls: how it was called; filled while a test runs.
        asked: the arguments of the last call by name, whatever they are.
    """

    layer: nn.Module
    name: str
    size: tuple[int, int]
    calls: list[Call] = field(default_factory=list)
    asked: Mapping[str, object] | None = None

    def __post_init__(self):
        signature, calls = inspect.signature(type(self.layer).forward), self.calls
        settings = settings_of(self.layer)

        def write_down(layer, args, kwargs):
            try:
                given = signature.bind(layer, *args, **kwargs).arguments
            except TypeError:  # the layer itself will say so
                return
            kept = self.asked = {name: copied(value) for name, value in list(given.items())[1:]}
            if isinstance(kept.get("x"), Tensor) and kept["x"].ndim == 3:
                chance, cache = hash(torch.get_rng_state().numpy().tobytes()), given.get("cache")
                before = (call for call in calls if cache is not None and call.gave and call.gave[0][-1] is cache)
                calls.append(Call(kept, layer.training, chance, layer, settings, next(before, None)))

        def keep(layer, args, output):
            if calls:
                calls[-1].gave[:] = [output if isinstance(output, tuple) else (output,)]

        self.layer.register_forward_pre_hook(write_down, with_kwargs=True)  # in copies of the layer as well
        self.layer.register_forward_hook(keep)

    def __str__(self) -> str:
        return f"{self.name}, d_model={self.size[0]}, num_heads={self.size[1]}"


def made(kind: Callable, size: tuple[int, int], seed: int, factor: float = 1.0) -> nn.Module:
    """Return a layer with weights of its own, its matrices times a factor."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = kind(*size)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(factor if parameter.ndim > 1 else 1.0)
    return layer


@dataclass(frozen=True)
class Trial:
    """What a test said of each subject: True, False, or why it said neither.

    Args:
        subjects: what it was tried on.
        said: its answers.
        printed: what it printed.
    """

    subjects: Sequence[Subject]
    said: Sequence[bool | Failure | str | None]
    printed: str = ""

    def which(self, answer: object) -> list[Subject]:
        return [subject for subject, said in zip(self.subjects, self.said, strict=False) if said is answer]


def tried(test: Callable, subjects: Sequence[Subject]) -> Trial:
    """Run a test on copies of some layers; after a time-out there are fewer answers than subjects."""
    for subject in subjects:
        subject.calls.clear()
        subject.asked = None
    outcomes, printed = run(_seeded(test), [(subject.layer,) for subject in subjects], SECONDS)
    said = [_read(outcome) for outcome in outcomes]
    if any(outcome.value is _ASSERTED for outcome in outcomes) or "assert" in source_of(test):
        silence = True  # an assert says nothing where it holds
    elif False in said and True not in said:
        silence = True  # if ...: return False, and no word for the other case
    else:
        silence = False if True in said and False not in said else None
    return Trial(subjects, [silence if words is None else words for words in said], printed)


@dataclass(frozen=True)
class Otherwise:
    """One thing that a test does, done in another way: whether that makes it right tells whether it was the mistake.

    Args:
        outputs: changes what a call returns, given it, the call, and all calls of the test as it is.
        inputs: returns the arguments that a call gets instead, given it, those calls, and those so far.
        test: returns the test with one thing changed.
    """

    outputs: Callable[[Tensor, Call, Sequence[Call]], Tensor] | None = None
    inputs: Callable[[Call, Sequence[Call], Sequence[Call]], Mapping] | None = None
    test: Callable[[Callable], Callable] | None = None

    def tried(self, test: Callable, subjects: Sequence[Subject]) -> Trial:
        """Run a test on some layers with that one thing done in this way; their calls stay what they were."""
        before = [[*subject.calls] for subject in subjects]
        hooks = [hook for pair in zip(subjects, before, strict=True) for hook in self._hooks(*pair)]
        try:
            return tried(self.test(test) if self.test else test, subjects)
        finally:
            for hook in hooks:
                hook.remove()
            for subject, calls in zip(subjects, before, strict=True):
                subject.calls[:] = calls

    def _hooks(self, subject: Subject, calls: Sequence[Call]) -> list:
        def hand_over(layer, args, kwargs):
            if not subject.calls:
                return None
            given = inspect.signature(layer.forward).bind(*args, **kwargs).arguments
            return (), {**given, **self.inputs(subject.calls[-1], calls, subject.calls)}

        def return_instead(layer, args, output):
            first, *rest = output if isinstance(output, tuple) else (output,)
            if not isinstance(first, Tensor) or first.ndim != 3 or not subject.calls:
                return output
            first = self.outputs(first, subject.calls[-1], calls)
            return (first, *rest) if rest else first

        hooks = [subject.layer.register_forward_pre_hook(hand_over, with_kwargs=True)] if self.inputs else []
        return [*hooks, *([subject.layer.register_forward_hook(return_instead)] if self.outputs else [])]


def _seeded(test: Callable) -> Callable:
    def answer(layer):
        torch.manual_seed(SEED)
        try:
            return test(layer)
        except AssertionError:
            return _ASSERTED

    return answer


def _read(outcome: Outcome) -> bool | Failure | str | None:
    """Return what a test says: True, False, nothing at all, or in words what came instead."""
    value = outcome.value
    if outcome.failure:
        return outcome.failure
    if value is None:
        return None
    if value is _ASSERTED:
        return False
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point():
        value = value.item()
    elif type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, Tensor) and value.dtype == torch.bool:
        return f"a boolean tensor of shape {tuple(value.shape)}; .all() makes one answer of it"
    if isinstance(value, (int, float)) or isinstance(value, Tensor) and value.numel() == 1:
        return f"the number {show(value)}; compare it: return difference < 1e-4"
    if isinstance(value, str):
        return f"the text {show(value)}; return True or False, without quotes"
    return f"{kind_of(value)}; return one True or False"


def source_of(function: Callable) -> str:
    """Return the source of a function, empty where it is not to be had."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _shape(value: object) -> str:
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    return f"of {len(value)} parts" if isinstance(value, (tuple, list)) else kind_of(value)


def copied(value: object) -> object:
    """Return a copy of a tensor, and anything else as it is."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def settings_of(layer: nn.Module) -> dict[str, object]:
    """Return the numbers that a layer was made with, its mode left out."""
    numbers = {name: value for name, value in vars(layer).items() if isinstance(value, (int, float))}
    return {name: value for name, value in numbers.items() if name != "training" and name[0] != "_"}
