"""The layer on the table: called with copies, watched, and put back as it was.

Every call gets fresh copies of its inputs and of the mask, so that a layer that writes into them cannot spoil the next
look; what it prints is swallowed; what it raises becomes a `Crash`, which is a verdict and no accident.
"""

import copy
import inspect
import io
import math
import random
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from attention_doctor.calling import Adapted, Mask, parameters_of, parts, pick
from attention_doctor.docs import docs_of

BIAS = r"bias|(^|[._])b([._]|$)"


class Crash(Exception):
    """The layer raised, or gave something else than one output per token: "shape"; the message says it in one line."""

    def __init__(self, message: str, code: str = "crash"):
        super().__init__(message)
        self.code = code


class Patient:
    """A layer as it is called, the module with its parameters if there is one, its sizes, its inputs."""

    def __init__(self, call: Adapted, module: nn.Module, d_model: int, num_heads: int | None, head_dim: int | None):
        self.call, self.module, self.d_model, self.num_heads = call, module, d_model, num_heads
        self.head_dim = head_dim or max(1, d_model // (num_heads or 4))
        self.width: int | None = None  # features that come out
        self.last = ""  # what the last call was given
        self.written: dict[str, str] = {}  # what the layer wrote into -> by how much
        self.stateful = False  # whether a call changes what a later one sees; then each look is at a fresh copy
        self.generated = "pass"  # the replay of what a cache did wrong
        self.notes: list[str] = []  # what is uncertain about how it is called
        self.told = False  # whether whoever asks stated the number of heads
        numbers = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(()))
        self.dtype = numbers.dtype
        # Two ways to one number differ by rounding; in float64 layers, too, the softmax may be float32.
        self.tolerance = 1e-5 if self.dtype.itemsize >= 4 else 16 * torch.finfo(self.dtype).eps
        self.docs = docs_of(call.target)
        self._spare = _copied(call.module)

    def __call__(self, x: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Return the output `(B, T, d_out)`; raise Crash where the layer raises.

        `x` stands for all inputs where they are not handed over one by one.
        """
        inputs = self.inputs(x) if isinstance(x, Tensor) else list(x)
        given = [one.to(self.dtype, copy=True) for one in inputs]
        if isinstance(x, Tensor) and not self.call.widths:
            given = given[:1] * len(given)  # one tensor three times, as in self-attention
        x = inputs[0]
        given_mask = None if mask is None else mask.clone(memory_format=torch.contiguous_format)
        self.last = f"x {tuple(x.shape)} {'without a mask' if mask is None else f'with a mask {tuple(mask.shape)}'}"
        try:
            with self.quietly(), torch.no_grad():
                out = self.call(given, given_mask)
        except Exception as error:
            said = (str(error).strip().splitlines() or [""])[0]
            if "arguments for embedding" in said:
                said = "it looks its input up as token ids; hand over an attention layer of the model, not the model"
            raise Crash(": ".join(filter(None, [type(error).__name__, said[:200].rstrip(".")]))) from error
        self.written |= self.call.written
        if self.call.pooled:
            out = out[:, None] if out.ndim == 2 else out
        elif out.ndim != 3 or out.shape[:2] != x.shape[:2] or not out.is_floating_point():
            wanted = f"({len(x)}, {x.shape[1]}, d_out)"
            raise Crash(f"x {tuple(x.shape)} gave {tuple(out.shape)} of {out.dtype}; expected {wanted}", "shape")
        self.width = self.width or out.shape[-1]
        if out.shape[-1] != self.width:
            text = f"x {tuple(x.shape)} gave {out.shape[-1]} features, earlier calls gave {self.width}: are these the "
            why = f"{text}weights? Say which part of the result is the output with adapt(..., output=1)"
            raise Crash(why, "shape")
        return out.detach().to("cpu", torch.float32 if out.dtype.itemsize < 4 else out.dtype)

    def everything(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return one number that its output has a part in, and what else it gives when asked, for gradients."""
        few = slice(1) if self.call.axes == "T d" else slice(None)
        x, mask = x[few], None if mask is None else mask[few]
        with self.quietly(), torch.enable_grad():
            result = self.call.result(self.inputs(x), mask)
            main = pick(result, self.call.output)
            alike = {main.ndim, 2, 3} if self.call.pooled else {main.ndim}
            found = [part for _, part in parts(result) if part.ndim in alike and len(part) == len(main)]
            found += self.asked(x, mask)
        found = [part for part in found if part.is_floating_point() and part.requires_grad]
        return sum((part.square().sum() for part in found), torch.zeros((), device=x.device))

    def asked(self, x: Tensor, mask: Tensor | None = None, always: bool = False) -> list[Tensor]:
        """Return what it gives when all is asked for that may be; where nothing may be, nothing, or what it gives."""
        flags = [p.name for p in parameters_of(self.call.target).values() if p.default is False]
        asked = {name: True for name in flags if re.search(r"^(return|output|need|with)_", name)}
        if asked or always:
            with suppress(Exception), self.quietly():  # whatever another's code raises
                return [part for _, part in parts(self.call.result(self.inputs(x), mask, **asked))]
        return []

    @staticmethod
    @contextmanager
    def quietly() -> Iterator[None]:
        """Swallow what is printed and warned of."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def inputs(self, x: Tensor) -> list[Tensor]:
        """Return tokens for each input, with as many features as it has."""
        widths = self.call.widths or [x.shape[-1]] * len(self.call.roles)
        return [x.repeat(1, 1, -(-width // x.shape[-1]))[..., :width] for width in widths]

    def unused(self) -> "Patient | None":
        """Return the layer as it was before the first call; None where it cannot be copied."""
        if self._spare is None:
            return None
        owner = copy.deepcopy(self._spare)
        owner.eval()  # whose result need not be the module
        bound = getattr(self.call.target, "__self__", None) is not None
        fresh = self.calling(replace(self.call, target=getattr(owner, self.call.target.__name__) if bound else owner))
        fresh.module, fresh.written = owner, {}
        return fresh

    def kept(self) -> list[tuple]:
        """Return what the module holds besides its parameters, to see whether a call changes it."""
        all_held = [item for m in self.module.modules() for item in (vars(m) | m._buffers).items()]
        held = [value for name, value in all_held if name not in ("_parameters", "_buffers")]
        found = [x for v in held for _, x in parts(v) if not x.is_complex()]
        return [(tuple(x.shape), float(x.double().nan_to_num(3.0, 1e5, -1e5).sum())) for x in found]

    def calling(self, call: Adapted) -> "Patient":
        """Return the same layer, called in another way."""
        other = copy.copy(self)
        other.call = call
        return other

    def with_mask(self, mask: Mask | None) -> "Patient":
        """Return the same layer, given this form of mask; another that it cannot do without hides nothing."""
        usual = self.call.mask
        if mask is None:
            return self
        also = self.call.also | ({usual.name: usual.open} if usual is not None and usual.name != mask.name else {})
        return self.calling(replace(self.call, mask=mask, also=also))

    def rounding(self, reference: Tensor) -> float:
        """Return up to where two outputs of the same calculation may differ."""
        return self.tolerance * float(reference.nan_to_num(0, 0, 0).abs().max()) + 1e-30

    def differ(self, a: Tensor, b: Tensor) -> bool:
        """Whether two outputs, calculated in different ways, differ by more than rounding; NaN differs from all."""
        return a.numel() > 0 and not float((a - b).abs().max()) <= 5 * self.rounding(b)

    def tokens(self, batch: int, tokens: int, spread: float) -> Tensor:
        """Return nearly equal tokens, one vector plus noise, `(batch, tokens, d_model)`.

        Sharp, trained maps give tokens that lie far apart a weight of almost 0, as if the layer could not see them.
        """
        return self.noise(1, 1, 0) + spread * self.noise(batch, tokens, 1)

    def noise(self, batch: int, tokens: int, seed: int, i: int = 0) -> Tensor:
        """Return standard normal numbers `(batch, tokens, d)` for input `i`, always the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)  # the reader's own random state is left alone
        width = self.call.widths[i] if self.call.widths else self.d_model
        return torch.randn(batch, tokens, width, generator=generator)


def amount(difference: Tensor) -> str:
    """Say how large a difference is at its largest."""
    largest = difference.abs().max().item()
    return "NaN" if math.isnan(largest) else "infinity" if math.isinf(largest) else f"{largest:.2g}"


def _copied(owner: object) -> object | None:
    """Return a copy; None where there is none."""
    try:
        return copy.deepcopy(owner)
    except Exception:  # a lock, an open file, a tensor inside a graph
        return None


def _away(owner: object) -> str:
    """Return the device of an owner's numbers where that is not the CPU, else an empty text."""
    modules = modules_of(owner)
    found = (x.device for x in (*modules.parameters(), *modules.buffers()) if x.device.type not in ("cpu", "meta"))
    return str(next(found, ""))


def _fetched(owner: object) -> None:
    """Bring a copy to the CPU, where it is looked at: what it holds, and where it says that it is."""

    def here(x: object) -> object:
        told = isinstance(x, torch.device) or (isinstance(x, str) and re.fullmatch(r"(cuda|mps|xpu)(:\d+)?", x))
        return x.cpu() if isinstance(x, Tensor) else torch.device("cpu") if told else x

    modules = modules_of(owner)
    modules.to("cpu")
    for each in (owner, *modules.modules()):
        own = {k: v for k, v in vars(each).items() if k not in ("_parameters", "_buffers", "_modules")}
        vars(each).update(tree_map(here, own))


def modules_of(owner: object) -> nn.Module:
    """Return a module, or the modules that an object of another kind holds as one."""
    if isinstance(owner, nn.Module):
        return owner
    held = vars(owner).values() if hasattr(owner, "__dict__") else ()
    return nn.ModuleList([value for value in held if isinstance(value, nn.Module)])


def check_has_numbers(module: nn.Module) -> None:
    """Refuse a layer whose parameters are not there yet."""
    for name, parameter in module.named_parameters():
        why = "is on the meta device; load it, or use to_empty and init" if parameter.is_meta else ""
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            why = "has no shape yet; call the lazy layer once on real input"
        if why:
            raise ValueError(f"expected a layer with weights, {name} {why}")


@contextmanager
def on_the_table(call: Adapted, module: nn.Module | None) -> Iterator[tuple[Adapted, nn.Module]]:
    """Hand out a copy of the layer in eval mode, or the layer itself where it cannot be copied; restore everything.

    With it comes the module that holds its parameters; an empty one, where none is known.
    """
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: sharing them between threads costs more than it saves
    own = getattr(call.target, "__self__", None)  # the owner of a bound method, which need not be a module
    own = call.module if own is None or inspect.ismodule(own) else own
    # A compiled layer is examined uncompiled, from torch 2.6 on: it would be compiled anew for each of the many shapes.
    uncompiled = "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")
    compiler = torch.compiler.set_stance("force_eager") if uncompiled else nullcontext()
    try:
        twin = _copied(own) if module is None or module is own else None
        if where := _away(own if module is None else module):
            if twin is None:
                raise ValueError(f"expected a layer on the CPU, or one that can be copied, got {where}; use .cpu()")
            _fetched(twin)
        if twin is not None:
            call = replace(call, target=twin if call.target is own else getattr(twin, call.target.__name__))
            module = modules_of(twin)
        module = modules_of(own) if module is None else module
        with compiler, _restored(module):
            yield call, module
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(states[2])


@contextmanager
def _restored(module: nn.Module) -> Iterator[None]:
    """Put a module into eval mode, and put back afterwards whatever a call may have changed in it."""
    tensors = [(t, t.detach().clone(), t.requires_grad, t.grad) for t in (*module.parameters(), *module.buffers())]
    held = (dict, list, set)  # counters, caches, the mode of every submodule; tables of parameters one level deeper
    attributes = [
        (m, {k: copy.copy(v) if isinstance(v, held) else v for k, v in vars(m).items()}) for m in module.modules()
    ]
    module.eval()
    frozen = not any(p.requires_grad for p in module.parameters())  # what alone is frozen in a layer is meant to be
    for parameter in module.parameters():
        parameter.grad = None
        if frozen and parameter.is_leaf:
            parameter.requires_grad_(parameter.is_floating_point())
    torch.default_generator.manual_seed(0)
    for name, parameter in module.named_parameters():  # a gate, or a norm, that is shut at first is opened
        if parameter.is_floating_point() and not re.search(BIAS, name) and not bool((parameter.abs() > 1e-5).any()):
            nn.init.normal_(parameter, std=0.1) if parameter.ndim > 1 else nn.init.constant_(parameter, 0.1)
    try:
        yield
    finally:
        for m, before in attributes:
            vars(m).clear()
            vars(m).update(before)
        for tensor, value, requires_grad, grad in tensors:
            if not torch.equal(tensor, value):
                tensor.data.copy_(value)
            if tensor.is_leaf:
                tensor.requires_grad_(requires_grad)
            tensor.grad = grad
