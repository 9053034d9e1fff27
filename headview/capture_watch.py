"""The watch on a model while it runs: which module is at work, and every function of torch that may be attention.

A mode of torch shows each function that is called, in this thread and inside the `with` only; hooks on all modules at
once, which leave the modules as they are, show where it is called from.
"""

import threading
import types
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from headview.capture_byhand import Tag, Tags, before_dropout, consumed, follow, tensors
from headview.capture_calls import Call, four, layout, like
from headview.capture_flex import bend_of, flex_arguments
from headview.capture_known import crosses_by_name, number_of_heads, packed, sparse_kind

CONTEXT = threading.local()  # .heads: [(num_heads, kind)], of the calls of F.multi_head_attention_forward under way


def unchecked(func: Callable) -> Callable:
    """Return a twin of a torch function that runs its body although a mode watches, so that the mode sees the body."""
    names = {**func.__globals__, "has_torch_function": lambda *_: False}
    twin = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    twin.__kwdefaults__ = func.__kwdefaults__
    return twin


MHA_BODY = unchecked(F.multi_head_attention_forward)


@dataclass
class Frame:
    """A module at work."""

    name: str
    module: nn.Module
    batch: int | None = None  # the first axis of what came in
    tokens: int | None = None  # the second
    made: set[int] = field(default_factory=set)  # tensors that functions inside it returned
    outer: list[Tensor] = field(default_factory=list)  # what its linear layers read that was made outside
    fused: list[tuple] = field(default_factory=list)  # queries, keys and masks of fused calls
    calls: int = 0  # attention seen in it, or in modules of it


@dataclass
class Open:
    """Attention (N, Tq, Tk) by hand of which it is not known yet whether N counts samples or heads first."""

    frame: Frame
    heads: int
    found: tuple  # what `consumed` returned
    out: Tensor | None = None  # what came of it; its next shape tells

    def turned(self, out: object) -> bool:
        """Return whether what became of the output shows that heads come first."""
        shape = (self.heads, len(self.out) // self.heads)
        if isinstance(out, (tuple, list)):
            return len(out) == shape[0] != shape[1]
        return isinstance(out, Tensor) and tuple(out.shape[:2]) == shape and shape[0] != shape[1]


class Watch(TorchFunctionMode):
    """See every attention call of one model, and hand it to `take`; `missed` says by name what could not be shown."""

    def __init__(self, model: nn.Module, take: Callable[[Call], None]):
        super().__init__()
        self.take = take
        self.names = {id(module): name or type(model).__name__ for name, module in model.named_modules()}
        self.missed: dict[str, str] = {}
        self.ran = False
        self._frames: list[Frame] = []
        self._tags = Tags()
        self._kinds: dict[str, str] = {}
        self._open: Open | None = None
        self._thread = threading.get_ident()
        self._handles: list = []

    def __enter__(self):
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error):
        for handle in self._handles:
            handle.remove()
        self._frames.clear()
        self._tags.clear()
        self._open = None
        return super().__exit__(*error)

    # -------------------------------------------------------------------------------------------- which module

    def _mine(self, module: nn.Module) -> bool:
        return threading.get_ident() == self._thread and id(module) in self.names

    def _enter_module(self, module: nn.Module, args: tuple) -> None:
        if self._mine(module):
            with torch._C.DisableTorchFunction():
                frame = Frame(self.names[id(module)], module)
                first = next((x for x in args if isinstance(x, Tensor) and x.ndim >= 2), None)
                if first is not None and not first.is_nested:
                    frame.batch, frame.tokens = first.shape[:2]
            self._frames.append(frame)
            self.ran = True
            if (sparse := sparse_kind(module)) is not None:
                self._miss(f"it attends sparsely, to {sparse}, which is no map of queries x keys")

    def _leave_module(self, module: nn.Module, args: tuple, out: object) -> None:
        if not self._mine(module) or not any(frame.module is module for frame in self._frames):
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._settle()
        while (frame := self._frames.pop()).module is not module:  # an exception was caught further out
            pass
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if not frame.calls and isinstance(out, (tuple, list)) and not _backward():
                self._returned(frame, out)
        if self._frames:
            self._frames[-1].calls += frame.calls
            self._frames[-1].made.update(id(x) for x in tensors((out,), {}))
        else:
            self._tags.clear()

    def _returned(self, frame: Frame, out: tuple | list) -> None:
        """Take weights that an attention module returns although none were seen: its softmax is written out."""
        if "att" not in type(frame.module).__name__.lower() or sparse_kind(frame.module):
            return
        for x in out[1:]:
            if isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4 and 0 not in x.shape:
                total = x.sum(-1, dtype=torch.float32)
                if bool(((x >= 0).all()) & (((total - 1).abs() < 0.02) | (total == 0)).all()):
                    frame.calls += 1
                    kind = "self" if x.shape[-1] == x.shape[-2] else "cross"
                    self.take(Call(frame.name, kind, tuple(x.shape), weights=x))
                    return

    # -------------------------------------------------------------------------------------------- which function

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":  # an attribute: only those that are tensors matter
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in ("mT", "T", "H", "mH", "data"):
                return func(*args, **kwargs)
        if not self._frames:
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._multi_head(args, kwargs)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self._before(func, name, args, kwargs)
        out = func(*args, **kwargs)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            follow(self._tags, func, name, args, kwargs, out)
            if self._open is not None:
                self._look(args, out)
            new = out if isinstance(out, (tuple, list)) else (out,)
            self._frames[-1].made.update(id(x) for x in new if isinstance(x, Tensor) and not any(x is y for y in args))
        return out

    def _before(self, func: Callable, name: str, args: tuple, kwargs: dict) -> None:
        if name == "linear" and isinstance(args[0], Tensor):
            self._read(args[0])
        elif name == "scaled_dot_product_attention":
            self._fused(*args, **kwargs)
        elif name == "flex_attention":
            self._flex(args, kwargs)
        elif (found := consumed(self._tags, name, args, kwargs)) is not None:
            self._by_hand(*found)
        before_dropout(self._tags, name, args, kwargs)

    def _read(self, x: Tensor) -> None:
        """Note what a linear layer reads, in each module at work that was given it from outside."""
        for frame in reversed(self._frames):
            if id(x) in frame.made:
                return
            if frame.batch is None and x.ndim >= 3:
                frame.batch, frame.tokens = x.shape[:2]
            if not any(x is y for y in frame.outer):
                frame.outer.append(x)

    def _multi_head(self, args: tuple, kwargs: dict) -> object:
        """Run `F.multi_head_attention_forward` as it is, with its inside in view."""
        given = dict(zip(("query", "key", "value", "embed_dim_to_check", "num_heads"), args, strict=False)) | kwargs
        kind = "self" if given["query"] is given["key"] else "cross"
        CONTEXT.heads = [*getattr(CONTEXT, "heads", []), (given["num_heads"], kind)]
        super().__enter__()  # torch takes a mode away while it works; what this one has seen and hooked stays
        try:
            return MHA_BODY(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)
            CONTEXT.heads = CONTEXT.heads[:-1]

    # -------------------------------------------------------------------------------------------- what was seen

    def _fused(self, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, bend=None):
        if any(x.is_nested for x in (q, k, v)):
            self._miss("its sequences are nested tensors; give padded ones, with a mask")
            return
        frame = self._frames[-1]
        if any(q is a and k is b and attn_mask is c for a, b, c in frame.fused):  # the same map, for other values
            return
        frame.fused.append((q, k, attn_mask))
        if (heads := packed(frame.module, q, k)) is not None:
            q = q.reshape(len(q), heads, 1, -1)  # (B, h_kv, g, d) -> (B, h, 1, d)
            if attn_mask is not None and attn_mask.ndim == 4 and attn_mask.shape[1] > 1:
                attn_mask = attn_mask.reshape(len(attn_mask), heads, 1, -1)
        lead, keys = tuple(q.shape[:-2]), k.shape[-2]
        heads = self._heads(lead, sure=True)
        how = layout(lead, heads)
        own = tuple(k.shape[:-2])
        if len(lead) != 2 or (own[0] != lead[0]):
            k, v = like(k, lead), like(v, lead)
        if attn_mask is not None:
            attn_mask = attn_mask[(None,) * (len(lead) + 2 - attn_mask.ndim)] if how == "both" else attn_mask
            if how != "both":
                attn_mask = four(attn_mask.expand(*lead, q.shape[-2], keys), how, heads)
        q, k, v = (four(x, how, heads) for x in (q, k, v))
        scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
        shape = (*q.shape[:3], keys)
        self._settle()
        self._take(frame, shape, q=q, k=k, v=v, scale=scale, mask=attn_mask, causal=bool(is_causal), bend=bend)

    def _flex(self, args: tuple, kwargs: dict) -> None:
        given = flex_arguments(args, kwargs)
        bend = bend_of(given)
        self._fused(given["query"], given["key"], given["value"], scale=given["scale"], bend=bend)

    def _look(self, args: tuple, out: object) -> None:
        """See what becomes of the output of attention whose first axis holds both samples and heads."""
        waiting = self._open
        if waiting.out is None:
            waiting.out = out
        elif args and args[0] is waiting.out:
            self._settle(waiting.turned(out))

    def _settle(self, turned: bool = False) -> None:
        if (waiting := self._open) is not None:
            self._open = None
            self._made(waiting.frame, waiting.heads, "split turned" if turned else "split", *waiting.found)

    def _by_hand(self, weights: Tensor, tag: Tag, values: Tensor | None) -> None:
        lead = tuple(weights.shape[:-2])
        heads = self._heads(lead, sure=False)
        how = layout(lead, heads)
        self._settle()
        if how is None or not lead:
            self._miss(
                f"its weights {tuple(weights.shape)} do not say which of their axes are heads; give the module that "
                f"makes them an attribute num_heads"
            )
            return
        if how == "split" and not getattr(CONTEXT, "heads", []):
            self._open = Open(self._frames[-1], heads, (weights, tag, values))
            return
        self._made(self._frames[-1], heads, how, weights, tag, values)

    def _made(self, frame: Frame, heads: int | None, how: str, weights: Tensor, tag: Tag, values: Tensor | None):
        lead = tuple(weights.shape[:-2])
        q, k, v = like(tag.q, lead), like(tag.k, lead), like(values, lead)
        q, k, v = (None if x is None else four(x, how, heads) for x in (q, k, v))
        scores = like(tag.scores, lead)
        if tag.scores.shape != weights.shape:  # columns of a sink, or axes in another order
            scores = scores[..., : weights.shape[-1]] if scores is not None and tag.part else None
        weights = four(weights, how, heads)
        scores = None if scores is None else four(scores, how, heads)
        known = q is not None and k is not None and q.shape[-2:-1] + k.shape[-2:-1] == weights.shape[-2:]
        q, k = (q, k) if known else (None, None)
        scale = tag.scale if known else None
        self._take(
            frame, tuple(weights.shape), q=q, k=k, v=v, scale=scale, weights=weights, scores=scores, part=tag.part
        )

    def _take(self, frame: Frame, shape: tuple, **seen) -> None:
        frame.calls += 1
        if 0 in shape or any(sparse_kind(f.module) for f in self._frames):
            return
        x = seen["q"] if seen.get("weights") is None else seen["weights"]
        with _without_autocast(x.device.type):
            self.take(Call(frame.name, self._kind(frame, shape), shape, **seen))

    def _miss(self, why: str) -> None:
        self.missed.setdefault(self._frames[-1].name, why)

    def _heads(self, lead: tuple[int, ...], sure: bool) -> int | None:
        """Return how many heads there are, where the leading axes alone do not say; `sure`: it is attention anyway."""
        if len(lead) == 2:
            return None
        context = getattr(CONTEXT, "heads", [])
        if context:
            return context[-1][0]
        frames = [(f, number_of_heads(f.module)) for f in reversed(self._frames)]
        if len(lead) == 3:
            return next((h for _, h in frames if h), None)
        if not lead:
            return None
        for frame, h in frames:
            if h and h > 1 and lead[0] % h == 0 and frame.batch != lead[0]:
                if lead[0] // h in (frame.batch, frame.tokens):
                    return h
        if sure or lead[0] in {f.batch for f, _ in frames}:
            return 1
        return None

    def _kind(self, frame: Frame, shape: tuple) -> str:
        """Return whether queries and keys come from one sequence."""
        context = getattr(CONTEXT, "heads", [])
        if context:
            return context[-1][1]
        if frame.name not in self._kinds:
            crosses = crosses_by_name(frame.name, frame.module) or len(frame.outer) > 1
            crosses |= not frame.outer and shape[-1] != shape[-2]  # no linear layer tells; later calls may be longer
            self._kinds[frame.name] = "cross" if crosses else "self"
        return self._kinds[frame.name]


def _without_autocast(kind: str):
    """Compute in the dtypes that are there, on this kind of device; older torch refuses to switch off what it lacks."""
    available = getattr(torch.amp, "is_autocast_available", ("cpu", "cuda").__contains__)  # since torch 2.4
    return torch.autocast(kind, enabled=False) if available(kind) else nullcontext()


def _backward() -> bool:
    """Return whether a backward pass runs: what checkpointing computes again was seen before.

    Modes rest meanwhile, hooks do not.
    """
    return torch._C._current_graph_task_id() != -1
