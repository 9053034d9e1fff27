"""The layer on the table: called with copies, watched, and put back as it was.

Every call gets fresh copies of the input and of the mask, so that a layer that writes into them cannot spoil the next
probe; what it prints is swallowed; what it raises becomes a `Crash`, which is a verdict and no accident.
"""

import copy
import inspect
import io
import math
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_doctor.adapt import Adapted
from attention_doctor.words import words_of


class Crash(Exception):
    """The layer raised; the message holds its error in one line."""

    code = "crash"


class WrongShape(Crash):
    """The layer gave something else than one output per token; the message holds both shapes."""

    code = "shape"


def _copied(attend: Adapted) -> object | None:
    owner = getattr(attend.target, "__self__", attend.target)
    if not isinstance(owner, nn.Module):
        return None
    try:
        return copy.deepcopy(owner)
    except Exception:  # a lock, an open file, a tensor inside a graph
        return None


class WrongLength(Crash):
    """The layer takes some numbers of tokens only, and it was not asked with another."""


class Patient:
    """A layer, its sizes, and the inputs that it is probed with.

    How it wants to be called is found by the first probes and kept here: `needs_mask`, where it cannot be called
    without one, and `mask_ndim`, 2 where it takes one `(T, T)` mask for all samples, otherwise 3.

    Args:
        attend: the adapted layer.
        module: where its parameters are, or None where nobody knows.
        d_model: features of the input.
        num_heads: how many heads it is said to have.
        head_dim: features of one head.
    """

    def __init__(self, attend: Adapted, module: nn.Module | None, d_model: int, num_heads: int, head_dim: int):
        self.attend, self.module = attend, module
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, head_dim
        self.width: int | None = None  # features that come out
        self.last = ""  # what the last call was given
        self.written: dict[str, str] = {}  # what the layer wrote into -> by how much
        self.needs_mask = False
        self.told = False  # whether whoever asks stated the number of heads
        said = words_of(attend.target)
        self.said = f"{said.name} {said.text}".lower()
        self.words = f"{said.name} {said.source or said.code} {said.text}".lower()
        self.spare = _copied(attend)
        self.mask_ndim = 2 if attend.masks == "shared" else 3
        tensors = [] if module is None else [p for p in module.parameters() if p.is_floating_point()]
        self.dtype = tensors[0].dtype if tensors else torch.float32
        self.device = tensors[0].device if tensors else torch.device("cpu")
        # Two ways to one number differ by rounding; in float64 layers, too, the softmax may be float32.
        self.tolerance = 1e-5 if self.dtype.itemsize >= 4 else 16 * torch.finfo(self.dtype).eps

    def __call__(self, x: Tensor, mask: Tensor | None = None, grad: bool = False) -> Tensor:
        """Return the output `(B, T, d_out)`; raise Crash where the layer raises.

        With `grad` the input is used as it is, so that gradients reach it.
        """
        if not self.takes(x.shape[1]):
            raise WrongLength(f"it takes {', '.join(map(str, self.attend.lengths))} tokens only")
        if mask is None and self.needs_mask:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        if mask is not None and mask.ndim == 2 and self.mask_ndim == 3:
            mask = mask.expand(len(x), -1, -1)  # (T, T) -> (B, T, T)
        given = x if grad else x.to(self.device, self.dtype, copy=True)
        given_mask = None if mask is None else mask.to(self.device).clone(memory_format=torch.contiguous_format)
        self.last = f"x {tuple(x.shape)} {'without a mask' if mask is None else f'with a mask {tuple(mask.shape)}'}"
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with torch.set_grad_enabled(grad):
                    out = self.attend(given, given_mask)
        except Exception as error:
            lines = str(error).strip().splitlines()
            raise Crash(": ".join([type(error).__name__, *(line[:200].rstrip(".") for line in lines[:1])])) from error
        if grad:
            return out
        if given.shape != x.shape or not torch.equal(given.cpu(), x.to(self.dtype)):
            self.written["the input x"] = "it came back with other values"
        if self.attend.written:
            self.written["the mask"] = self.attend.written
        if out.ndim != 3 or out.shape[:2] != x.shape[:2] or not out.is_floating_point():
            wanted = f"({len(x)}, {x.shape[1]}, d_out)"
            raise WrongShape(f"x {tuple(x.shape)} gave {tuple(out.shape)} of {out.dtype}; expected {wanted}")
        self.width = self.width or out.shape[-1]
        if out.shape[-1] != self.width:
            raise WrongShape(
                f"x {tuple(x.shape)} gave {out.shape[-1]} features, earlier calls gave {self.width}: are these the "
                "weights? Say which part of the result is the output with adapt(..., output=1)"
            )
        return out.detach().to("cpu", torch.float32 if out.dtype.itemsize < 4 else out.dtype)

    def takes(self, tokens: int) -> bool:
        """Whether it can be called with so many tokens, as far as is known."""
        return not self.attend.lengths or tokens in self.attend.lengths

    def unused(self) -> "Patient | None":
        """Return the layer as it was before the first call; None where it cannot be copied."""
        if self.spare is None:
            return None
        owner = copy.deepcopy(self.spare).eval()
        fresh = copy.copy(self)
        name = getattr(self.attend.target, "__name__", "")
        bound = getattr(self.attend.target, "__self__", None) is not None
        fresh.attend = replace(self.attend, target=getattr(owner, name) if bound else owner)
        fresh.written = {}
        return fresh

    @property
    def takes_masks(self) -> bool:
        """Whether it can be given a mask at all."""
        return self.attend.masks != "none"

    @property
    def takes_any_mask(self) -> bool:
        """Whether a mask may show any keys, not only the first few."""
        return self.attend.masks in ("any", "shared")

    def rounding(self, reference: Tensor) -> float:
        """Return up to where two outputs of the same calculation may differ; unmoved outputs are exact in practice."""
        return 0.2 * self.tolerance * float(reference.nan_to_num(0, 0, 0).abs().max()) + 1e-30

    def differ(self, a: Tensor, b: Tensor) -> bool:
        """Whether two outputs, calculated in different ways, differ by more than rounding; NaN differs from all."""
        if a.numel() == 0:
            return False
        largest = float(b.nan_to_num(0, 0, 0).abs().max())
        return not float((a - b).abs().max()) <= 5 * self.tolerance * largest + 1e-30

    def tokens(self, batch: int, tokens: int, spread: float) -> Tensor:
        """Return nearly equal tokens, one vector plus noise, `(batch, tokens, d_model)`.

        Sharp, trained maps give tokens that lie far apart a weight of almost 0, as if the layer could not see them;
        a small `spread` keeps every probe honest.
        """
        return self.noise(1, 1, 0) + spread * self.noise(batch, tokens, 1)

    def noise(self, batch: int, tokens: int, seed: int) -> Tensor:
        """Return standard normal numbers `(batch, tokens, d_model)`, always the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)  # the reader's own random state is left alone
        return torch.randn(batch, tokens, self.d_model, generator=generator)


def amount(difference: Tensor) -> str:
    """Say how large a difference is at its largest."""
    largest = difference.abs().max().item()
    return "NaN" if math.isnan(largest) else "infinity" if math.isinf(largest) else f"{largest:.2g}"


def modules_of(owner: object) -> nn.Module:
    """Return a module, or the modules that an object of another kind holds as one."""
    if isinstance(owner, nn.Module):
        return owner
    held = vars(owner).values() if hasattr(owner, "__dict__") else ()
    return nn.ModuleList([value for value in held if isinstance(value, nn.Module)])


def check_has_numbers(module: nn.Module | None) -> None:
    """Refuse a layer whose parameters are not there yet."""
    for name, parameter in [] if module is None else module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"expected a layer with weights, {name} has no shape yet; call the lazy layer once on real input"
            )
        if parameter.is_meta:
            raise ValueError(
                f"expected a layer with weights, {name} is on the meta device; load it, or use to_empty and init"
            )


@contextmanager
def on_the_table(attend: Adapted, module: nn.Module | None) -> Iterator[tuple[Adapted, nn.Module | None]]:
    """Hand out a copy of the layer in eval mode, or the layer itself where it cannot be copied; restore everything."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: sharing them between threads costs more than it saves
    own = getattr(attend.target, "__self__", None)  # the owner of a bound method, which need not be a module
    own = attend.module if own is None or inspect.ismodule(own) else own
    attend = copy.copy(attend)
    # A compiled layer is examined uncompiled, from torch 2.6 on: it would be compiled anew for each of the many shapes.
    uncompiled = "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")
    compiler = torch.compiler.set_stance("force_eager") if uncompiled else nullcontext()
    try:
        if own is not None and (module is None or module is own):
            try:
                twin = copy.deepcopy(own)
            except Exception:  # a lock, an open file, a tensor inside a graph
                module = own if isinstance(own, nn.Module) else module
            else:
                attend.target = twin if attend.target is own else getattr(twin, attend.target.__name__)
                module = modules_of(twin).eval()
                for parameter in module.parameters():
                    parameter.requires_grad_(parameter.is_floating_point())
                with compiler:
                    yield attend, module
                return
        with compiler, _restored(module):
            yield attend, module
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(states[2])


@contextmanager
def _restored(module: nn.Module | None) -> Iterator[None]:
    """Put a module into eval mode, and put back afterwards whatever a call may have changed in it."""
    if module is None:
        yield
        return
    tensors = [*module.parameters(), *module.buffers()]
    values = [(t, t.detach().clone(), t.requires_grad, t.grad) for t in tensors]
    grads = [None if t.grad is None else t.grad.clone() for t in tensors]
    # The attributes of every submodule: counters, caches, the mode; the tables of parameters one level deeper.
    attributes = [
        (
            m,
            {
                name: copy.copy(value) if isinstance(value, (dict, list, set)) else value
                for name, value in vars(m).items()
            },
        )
        for m in module.modules()
    ]
    module.eval()
    for parameter in module.parameters():
        if parameter.is_leaf:
            parameter.requires_grad_(parameter.is_floating_point())
    try:
        yield
    finally:
        for m, before in attributes:
            vars(m).clear()
            vars(m).update(before)
        for (tensor, value, requires_grad, grad), grad_value in zip(values, grads, strict=True):
            if not torch.equal(tensor, value):
                tensor.data.copy_(value)
            if tensor.is_leaf:
                tensor.requires_grad_(requires_grad)
            tensor.grad = grad
            if grad is not None:
                grad.copy_(grad_value)
