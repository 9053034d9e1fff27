"""The eye: the attention that a model computes, seen below autograd while it runs.

Whoever wrote a layer and however it is called, what torch computes in the end are products, softmaxes and fused
kernels. A mode of torch shows each of them with its tensors, in one thread and inside one `with`; hooks on all modules
at once, which leave the modules as they are, show where. What becomes of a tensor is followed by its storage: a product
of two activations makes scores, a softmax over their last axis makes weights of them, and a product of these with
values makes a step of attention. The softmax of a vocabulary or a router starts from a parameter, or meets no values.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode

from headview.step import Step, bend_of, flex_arguments, four, layout, like

PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "baddbmm_": 1}  # where their two operands begin
SOFTMAX = {"_softmax", "_safe_softmax"}
COPIES = {"clone", "_to_copy", "_unsafe_view", "contiguous", "alias", "detach", "lift_fresh"}
VIEWS = {"view", "_unsafe_view", "reshape", "_reshape_alias"}
TURNS = {"transpose", "permute", "t"}
PLAIN = (
    COPIES
    | VIEWS
    | {  # what leaves scores a multiple of q k^T, plus a mask
        *(
            "add",
            "add_",
            "sub",
            "sub_",
            "masked_fill",
            "masked_fill_",
            "where",
            "cat",
            "expand",
            "squeeze",
            "unsqueeze",
        ),
        *("slice", "minimum", "maximum", "clamp", "clamp_", "clamp_min", "nan_to_num", "copy_", "constant_pad_nd"),
    }
)
TIMES, OVER = {"mul", "mul_"}, {"div", "div_"}
ENDS = {"native_layer_norm", "_fused_rms_norm", "convolution", "embedding", "_log_softmax"}

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "num_attn_heads", "nheads", "h")
CROSS = ("cross", "encdec", "enc_dec", "encoder_attn", "encoder_decoder", "multihead_attn", "src_attn", "context_attn")
SPARSE = {  # classes whose weights are bands or blocks of a map, never the map
    "LongformerSelfAttention": "a band of neighbours",
    "LEDEncoderSelfAttention": "a band of neighbours",
    "BigBirdBlockSparseAttention": "blocks",
    "BigBirdPegasusBlockSparseAttention": "blocks",
    "LocalSelfAttention": "chunks",
    "LSHSelfAttention": "hashed chunks",
    "LongT5LocalAttention": "blocks",
    "PegasusXGlobalLocalAttention": "blocks",
    "NystromformerSelfAttention": "landmarks",
    "InformerProbSparseAttention": "the queries that differ most",
    "LongT5TransientGlobalAttention": "blocks",
}


@dataclass
class Tag:
    """What is known of a storage."""

    kind: str  # "scaled" | "noise" | "scores" | "exp" | "weights"
    scale: float | None = 1.0  # the numbers it was multiplied with; None: and something else
    q: Tensor | None = None  # (N, Tq, d)
    k: Tensor | None = None  # (N, Tk, d)
    scores: Tensor | None = None  # what went into the softmax
    plain: Tensor | None = None  # the weights without dropout
    lead: tuple[int, ...] = ()  # the axes that were folded into the first of the weights
    keys: int = 0  # how many columns the softmax had
    turned: bool = False  # axes were exchanged since the softmax
    taken: list = field(default_factory=list)  # shared by all that comes of one softmax; filled once it was attention


class Tags:
    """The tags of living storages."""

    def __init__(self):
        self._kept: dict[int, tuple[StorageWeakRef, Tag]] = {}

    def get(self, x: Tensor) -> Tag | None:
        """Return the tag of a tensor's storage, or None."""
        if not self._kept:
            return None
        found = self._kept.get(x.untyped_storage()._cdata)
        return None if found is None or found[0].expired() else found[1]

    def put(self, x: Tensor, tag: Tag) -> None:
        """Tag a storage for as long as it lives. A weak reference keeps its address from being given to another."""
        if len(self._kept) > 64 or tag.kind == "scores":
            for key in [key for key, (ref, _) in self._kept.items() if ref.expired()]:
                del self._kept[key]
        ref = StorageWeakRef(x.untyped_storage())
        self._kept[ref.cdata] = (ref, tag)

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()


@dataclass
class Frame:
    """A module at work."""

    name: str
    module: nn.Module
    batch: int | None = None  # the first axis of what came in
    tokens: int | None = None  # the second
    made: dict[int, int | None] = field(default_factory=dict)  # storages that came to be in it; of a copy, whose
    outer: set[int] = field(default_factory=set)  # storages that its projections read and that were made outside
    fused: list[tuple] = field(default_factory=list)  # queries, keys and masks of fused calls
    calls: int = 0  # attention seen in it, or in modules of it


@dataclass
class Open:
    """Weights (N, Tq, Tk) of which it is not known yet whether N counts samples or heads first."""

    frame: Frame
    heads: int
    found: tuple
    out: int  # the storage of what came of it; its next shape tells

    def turned(self, size: int, out: object) -> bool:
        """Return whether what became of the output shows that heads come first."""
        shape = (self.heads, size // self.heads)
        if isinstance(out, (tuple, list)):
            return len(out) == shape[0] != shape[1]
        return isinstance(out, Tensor) and tuple(out.shape[:2]) == shape and shape[0] != shape[1]


class Eye(TorchDispatchMode):
    """See every step of attention of one model and hand it to `take`; `missed` says by name what could not be shown."""

    supports_higher_order_operators = True  # FlexAttention is one

    def __init__(self, model: nn.Module, take: Callable[[Step], None]):
        super().__init__()
        self.take = take
        self.names = {id(module): name or type(model).__name__ for name, module in model.named_modules()}
        self.missed: dict[str, str] = {}
        self.ran = False
        self._learned = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers()) if plain(x)}
        self._frames: list[Frame] = []
        self._tags = Tags()
        self._kinds: dict[str, str] = {}
        self._open: Open | None = None
        self._folded: tuple = (None, None)
        self._thread = threading.get_ident()
        self._handles: list = []
        self.failure: Exception | None = None  # of `take`: bad input of the reader's, told at the end

    def __enter__(self):
        if not self._handles:  # else it is entered again, to see what an operation is made of
            self._fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            self._handles = [
                hooks.register_module_forward_pre_hook(self._enter_module),
                hooks.register_module_forward_hook(self._leave_module, always_call=True),
            ]
        return super().__enter__()

    def close(self) -> None:
        """Take the hooks away; forget all tensors."""
        torch.backends.mha.set_fastpath_enabled(self._fast)
        for handle in self._handles:
            handle.remove()
        self._frames.clear()
        self._tags.clear()
        self._open = None

    # -------------------------------------------------------------------------------------------- which module

    def _enter_module(self, module: nn.Module, args: tuple) -> None:
        if threading.get_ident() != self._thread or id(module) not in self.names or backward():
            return
        frame = Frame(self.names[id(module)], module)
        first = next((x for x in args if isinstance(x, Tensor) and x.ndim >= 2), None)
        if first is not None and not first.is_nested:
            frame.batch, frame.tokens = first.shape[:2]
        self._frames.append(frame)
        self.ran = True
        if (sparse := sparse_kind(module)) is not None:
            self._miss(f"it attends sparsely, to {sparse}, which is no map of queries x keys")

    def _leave_module(self, module: nn.Module, args: tuple, out: object) -> None:
        if threading.get_ident() != self._thread or not any(frame.module is module for frame in self._frames):
            return
        with unseen():
            self._guarded(self._settle)
            while (frame := self._frames.pop()).module is not module:  # an exception was caught further out
                pass
            if not frame.calls and isinstance(out, (tuple, list)):
                self._guarded(self._returned, frame, out)
        if self._frames:
            above = self._frames[-1]
            above.calls += frame.calls
            above.made.update({x.untyped_storage()._cdata: None for x in tensors((out,), {}) if plain(x)})
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
                    self.take(Step(frame.name, kind, tuple(x.shape), weights=x))
                    return

    # -------------------------------------------------------------------------------------------- which operation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self._frames or backward():
            return func(*args, **kwargs)
        name, fused, whole = ROLES.get(func) or role(func)
        if whole and torch.is_inference_mode_enabled():
            with self:
                return func.decompose(*args, **kwargs)
        if name == "mul_":
            self._guarded(self._before, args)
        out = func(*args, **kwargs)
        if fused:
            self._guarded(self._kernel, func, args, kwargs)
        elif name == "flex_attention":
            self._guarded(self._flex, args, kwargs)
        else:
            self._guarded(self._after, func, name, args, kwargs, out)
        return out

    def _guarded(self, do: Callable, *given) -> None:
        """Look, and let no error of ours reach the model."""
        try:
            do(*given)
        except ReaderError as error:
            self.failure = self.failure or error.__cause__
        except Exception as error:
            self._miss(f"{type(error).__name__} while it was looked at: {error}")

    def _before(self, args: tuple) -> None:
        """Keep the weights that dropout is about to overwrite."""
        if isinstance(args[1], Tensor) and self._kind_of(args[1]) == "noise":
            tag = self._tags.get(args[0])
            if tag is not None and tag.kind == "weights" and tag.plain is None:
                tag.plain = args[0].detach().clone()

    def _after(self, func: Callable, name: str, args: tuple, kwargs: dict, out: object) -> None:
        if self._open is not None:
            self._look(args, out)
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, Tensor) and plain(x):
                self._made(x, name, args)
        if name in PRODUCTS:
            first = PRODUCTS[name]
            return self._product(args[first], args[first + 1], kwargs, out)
        if name == "bernoulli_":
            self._tags.put(out, Tag("noise"))
            return None
        if not isinstance(out, Tensor) or not plain(out) or not out.is_floating_point() or name in ENDS:
            return None
        given = list(tensors(args, kwargs))
        found = [(x, tag) for x in given if (tag := self._tags.get(x)) is not None]
        x, tag = next(((x, t) for x, t in found if t.kind in ("scores", "exp", "weights")), (None, None))
        if tag is None:
            return self._scaled(name, args, given, found, out)
        if name in SOFTMAX:
            if tag.kind == "scores" and args[1] % x.ndim == x.ndim - 1 and x.ndim > 1:
                lead = tuple(x.shape[:-2])
                self._tags.put(out, replace(tag, kind="weights", scores=x, lead=lead, keys=x.shape[-1], taken=[]))
        elif name in ("exp", "exp_") and tag.kind == "scores":  # a softmax that is written out
            self._tags.put(out, replace(tag, kind="exp", scores=None if same(x, out) else x))
        elif tag.kind == "exp":
            if name in OVER and bool(((out.sum(-1) - 1).abs() < 1e-2).all()):
                self._tags.put(out, replace(tag, kind="weights", lead=tuple(x.shape[:-2]), keys=x.shape[-1], taken=[]))
        elif tag.kind == "scores":
            if same_rows(x, out):
                tag.turned |= name in TURNS
                scale = times(tag.scale, name, args, kwargs)
                if same(x, out):
                    tag.scale = scale
                else:
                    self._tags.put(out, replace(tag, scale=scale))
        elif same_rows(x, out):
            self._weights(func, name, args, kwargs, x, tag, out)
        return None

    def _scaled(self, name: str, args: tuple, given: list, found: list, out: Tensor) -> None:
        """Follow the numbers that queries or keys are multiplied with."""
        one = found[0][1] if found else Tag("scaled")
        if name in TIMES | OVER and given and (not found or found[0][0] is given[0]):
            if same(given[0], out) and out.numel() * out.element_size() != out.untyped_storage().nbytes():
                return
            if one.kind == "scaled" and (scale := times(one.scale, name, args, {})) is not None:
                bare = given[0] if one.q is None else one.q
                kept = bare.stride() == out.stride() and bare.shape == out.shape and not same(bare, out)
                self._tags.put(out, Tag("scaled", scale, q=bare if kept else None))
        elif name in COPIES and found and one.kind != "noise" and not same(given[0], out):
            self._tags.put(out, replace(one, q=None))
        elif name in OVER | {"div_"} and found and one.kind == "noise":
            self._tags.put(out, one)

    def _weights(self, func: Callable, name: str, args: tuple, kwargs: dict, x: Tensor, tag: Tag, out: Tensor) -> None:
        """Follow what becomes of weights; behind dropout, the same is made of the weights without it."""
        if name in VIEWS and out.ndim == 3 < x.ndim and leads(x, out):
            tag.lead = leads(x, out)
        if same(x, out):
            tag.turned |= name in TURNS
            return
        dropped = name == "native_dropout" or any(self._kind_of(y) == "noise" for y in tensors(args, kwargs))
        new = replace(tag, turned=tag.turned or x.ndim != out.ndim and name not in VIEWS)
        if dropped:
            new.plain = x if tag.plain is None else tag.plain
        elif tag.plain is not None:
            with unseen():
                new.plain = func(*swapped(args, x, like_view(tag.plain, x)), **kwargs)
        self._tags.put(out, new)

    def _product(self, a: Tensor, b: Tensor, kwargs: dict, out: Tensor) -> None:
        one, two = self._tags.get(a), self._tags.get(b)
        learned = self._is_learned(b), self._is_learned(a)
        if any(learned):
            x, tag = (a, one) if learned[0] else (b, two)
            self._read(x)
            if tag is not None and tag.kind == "weights" and out.numel() == x.numel():
                self._tags.put(out, replace(tag, turned=True))
            elif out.shape[-1] == 1 < len(out):  # additive attention: a number for each pair of query and key
                self._tags.put(out, Tag("scores", scale=None))
            return
        for tag, x, values, across in ((one, a, b, False), (two, b, a, True)):
            if tag is None or tag.kind != "weights" or tag.taken:
                continue
            weights = x if tag.plain is None else like_view(tag.plain, x)
            if across:  # v^T @ weights^T: then the rows of the map stand in columns
                weights, values = weights.mT, values.mT
                if not bool(((weights.sum(-1) - 1).abs() < 0.05).all()):
                    continue
            tag.taken.append(True)
            self._by_hand(weights, tag, values, out)
            return
        scale = float(kwargs.get("alpha", 1.0))
        for tag in (one, two):
            if tag is not None and tag.kind == "scaled" and tag.scale:
                scale *= tag.scale
        self._tags.put(out, Tag("scores", scale, unscaled(a, one), unscaled(b, two).mT))

    def _kind_of(self, x: Tensor) -> str | None:
        tag = self._tags.get(x)
        return None if tag is None else tag.kind

    def _is_learned(self, x: Tensor) -> bool:
        return x.untyped_storage()._cdata in self._learned

    # -------------------------------------------------------------------------------------------- from where

    def _made(self, x: Tensor, name: str, args: tuple) -> None:
        """Note a storage that came to be in the module at work; a copy counts as what it is a copy of."""
        key = x.untyped_storage()._cdata
        of = args[0].untyped_storage()._cdata if args and isinstance(args[0], Tensor) and plain(args[0]) else None
        made = self._frames[-1].made
        if name in VIEWS and x.ndim == 2 < args[0].ndim:
            self._folded = key, args[0].shape[:2]  # what comes next is a projection of it
        if key == of:
            return
        if name in COPIES and of is not None and (of not in made or made[of] is not None):
            made[key] = made.get(of, of)
        else:
            made[key] = None

    def _read(self, x: Tensor) -> None:
        """Note what a projection reads, in each module at work that was given it from outside."""
        key = x.untyped_storage()._cdata
        for frame in reversed(self._frames):
            if key in frame.made:
                if frame.made[key] is None:
                    return
                key = frame.made[key]
            if frame.batch is None and self._folded[0] == x.untyped_storage()._cdata:
                frame.batch, frame.tokens = self._folded[1]
            frame.outer.add(key)

    def _kind(self, frame: Frame, shape: tuple) -> str:
        """Return whether queries and keys come from one sequence."""
        if frame.name not in self._kinds:
            crosses = any(hint in f"{frame.name}.{type(frame.module).__name__}".lower() for hint in CROSS)
            crosses |= len(frame.outer) > 1
            crosses |= not frame.outer and shape[-1] != shape[-2]  # no projection tells; later calls may be longer
            self._kinds[frame.name] = "cross" if crosses else "self"
        return self._kinds[frame.name]

    def _heads(self, lead: tuple[int, ...], sure: bool) -> int | None:
        """Return how many heads there are, where the leading axes alone do not say; `sure`: it is attention anyway."""
        if len(lead) in (0, 2):
            return None
        frames = [(f, number_of_heads(f.module)) for f in reversed(self._frames)]
        if len(lead) == 3:
            return next((h for _, h in frames if h), None)
        for frame, h in frames:
            if h and h > 1 and lead[0] % h == 0 and frame.batch != lead[0]:
                if lead[0] // h in (frame.batch, frame.tokens):
                    return h
        return 1 if sure or lead[0] in {f.batch for f, _ in frames} else None

    # -------------------------------------------------------------------------------------------- what was seen

    def _kernel(self, func: Callable, args: tuple, kwargs: dict) -> None:
        """Take a fused kernel: queries, keys and mask are handed over, the weights are a softmax away."""
        given = kernel_arguments(func, args, kwargs)
        q, k, v = given["query"], given["key"], given["value"]
        self._fused(q, k, v, given["mask"], bool(given.get("is_causal")), given.get("scale"))

    def _flex(self, args: tuple, kwargs: dict) -> None:
        given = flex_arguments(args, kwargs)
        self._fused(given["query"], given["key"], given["value"], scale=given["scale"], bend=bend_of(given))

    def _fused(self, q, k, v, mask=None, causal=False, scale=None, bend=None) -> None:
        if any(x.is_nested for x in (q, k, v)):
            self._miss("its sequences are nested tensors; give padded ones, with a mask")
            return
        frame = self._frames[-1]
        seen = tuple(None if x is None else (x.data_ptr(), x.shape, x.stride()) for x in (q, k, mask))
        if any(seen == other for other, *_ in frame.fused):  # the same map, for other values
            return
        frame.fused.append((seen, q, k, mask))
        tags = [self._tags.get(x) for x in (q, k)]
        scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
        for tag in tags:
            scale *= tag.scale if tag is not None and tag.kind == "scaled" and tag.scale else 1.0
        q, k = (unscaled(x, tag) for x, tag in zip((q, k), tags, strict=True))
        if (heads := packed(frame.module, q, k)) is not None:
            q = q.reshape(len(q), heads, 1, -1)  # (B, h_kv, g, d) -> (B, h, 1, d)
            if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
                mask = mask.reshape(len(mask), heads, 1, -1)
        lead = tuple(q.shape[:-2])
        heads = self._heads(lead, sure=True)
        how = layout(lead, heads)
        if len(lead) != 2 or k.shape[0] != lead[0]:
            k, v = like(k, lead), like(v, lead)
        if mask is not None and how == "both":
            mask = mask[(None,) * (len(lead) + 2 - mask.ndim)]
        elif mask is not None:
            mask = four(mask.expand(*lead, q.shape[-2], k.shape[-2]), how, heads)
        q, k, v = (four(x, how, heads) for x in (q, k, v))
        self._settle()
        shape = (*q.shape[:3], k.shape[-2])
        self._take(frame, shape, q=q, k=k, v=v, scale=scale, mask=mask, causal=causal, bend=bend)

    def _by_hand(self, weights: Tensor, tag: Tag, values: Tensor, out: Tensor) -> None:
        lead = tag.lead if weights.ndim == 3 and size(tag.lead) == len(weights) else tuple(weights.shape[:-2])
        if len(lead) > 2 and lead[-1] == 1:
            lead = lead[:-1]
        if len(lead) > 3:
            lead = tuple(weights.shape[:-2])
        heads = self._heads(lead, sure=False)
        how = layout(lead, heads)
        self._settle()
        if not lead and weights.ndim == 2:
            how = "none"
        if how is None:
            self._miss(
                f"its weights {tuple(weights.shape)} do not say which of their axes are heads; give the module that "
                f"makes them an attribute num_heads"
            )
        elif how == "split" and not isinstance(self._frames[-1].module, nn.MultiheadAttention):
            found = (weights, tag, values, lead)
            self._open = Open(self._frames[-1], heads, found, out.untyped_storage()._cdata)
        else:
            self._found(self._frames[-1], heads, how, weights, tag, values, lead)

    def _look(self, args: tuple, out: object) -> None:
        """See what becomes of the output of attention whose first axis holds both samples and heads."""
        waiting = self._open
        if args and isinstance(args[0], Tensor) and args[0].untyped_storage()._cdata == waiting.out:
            if isinstance(out, Tensor) and out.ndim == 3 and len(out) == len(args[0]):
                return
            self._settle(waiting.turned(size(waiting.found[3]), out))

    def _settle(self, turned: bool = False) -> None:
        if (waiting := self._open) is not None:
            self._open = None
            self._found(waiting.frame, waiting.heads, "split turned" if turned else "split", *waiting.found)

    def _found(self, frame, heads, how, weights, tag: Tag, values, lead) -> None:
        rows, keys = weights.shape[-2:]
        part = keys < tag.keys
        scores = None
        if not tag.turned and tag.scores is not None and tag.scores.shape[-2] == rows:
            scores = like(tag.scores[..., :keys], lead)
        q, k, v, weights = like(tag.q, lead), like(tag.k, lead), like(values, lead), like(weights, lead)
        known = q is not None and k is not None and (q.shape[-2], k.shape[-2]) == (rows, keys)
        q, k = (q, k) if known else (None, None)
        q, k, v, weights, scores = (None if x is None else four(x, how, heads) for x in (q, k, v, weights, scores))
        if scores is not None and scores.shape != weights.shape:
            scores = None
        scale = tag.scale if known else None
        shape = tuple(weights.shape)
        self._take(frame, shape, q=q, k=k, v=v, scale=scale, weights=weights, scores=scores, part=part)

    def _take(self, frame: Frame, shape: tuple, **seen) -> None:
        frame.calls += 1
        if 0 in shape or any(sparse_kind(f.module) for f in self._frames):
            return
        step = Step(frame.name, self._kind(frame, shape), shape, **seen)
        try:
            with unseen():
                self.take(step)
        except ValueError as error:
            raise ReaderError from error

    def _miss(self, why: str) -> None:
        self.missed.setdefault(self._frames[-1].name if self._frames else "", why)


class ReaderError(Exception):
    """What the reader asked for cannot be had; told when the model is done."""


@contextmanager
def unseen() -> Iterator[None]:
    """Compute beside the model: without gradients, and in the dtypes that are there."""
    with torch.no_grad(), ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def plain(x: Tensor) -> bool:
    """Return whether a tensor has a storage of its own to be followed by."""
    return x.layout == torch.strided and not x.is_nested


def same(x: Tensor, y: Tensor) -> bool:
    """Return whether two tensors share their storage."""
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def tensors(args: tuple, kwargs: dict) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (y for y in x if isinstance(y, Tensor))


def swapped(args: tuple, old: Tensor, new: Tensor) -> tuple:
    """Return the arguments with one tensor in the place of another."""
    return tuple([new if y is old else y for y in x] if type(x) is list else new if x is old else x for x in args)


def like_view(x: Tensor, view: Tensor) -> Tensor:
    """Return `x` seen as another tensor of that many numbers sees its storage."""
    return x if x.shape == view.shape else x.as_strided(view.shape, view.stride(), view.storage_offset())


def unscaled(x: Tensor, tag: Tag | None) -> Tensor:
    """Return queries or keys as they were before they were multiplied with numbers."""
    if tag is None or tag.kind != "scaled" or tag.scale in (None, 0.0, 1.0):
        return x
    if tag.q is None:
        return x / tag.scale
    return tag.q.as_strided(x.shape, x.stride(), x.storage_offset() + tag.q.storage_offset())


def same_rows(x: Tensor, out: Tensor) -> bool:
    """Return whether a result still holds a number for each cell, but for columns added or cut at the end."""
    if out.numel() == x.numel():
        return True
    wider = out.ndim == x.ndim and out.ndim > 1 and out.shape[-2:] == x.shape[-2:]  # + the bias of a batch
    return (wider and out.numel() > x.numel()) or (out.shape[:-1] == x.shape[:-1] and out.shape[-1] > 1)


def leads(x: Tensor, out: Tensor) -> tuple[int, ...]:
    """Return the leading axes of `x` that became the first of `out`."""
    for n in range(1, x.ndim):
        if size(tuple(x.shape[:n])) == out.shape[0] and x.shape[n] == out.shape[1]:
            return tuple(x.shape[:n])
    return ()


def size(shape: tuple[int, ...]) -> int:
    """Return how many numbers stand in a shape."""
    return torch.Size(shape).numel()


def times(scale: float | None, name: str, args: tuple, kwargs: dict) -> float | None:
    """Return the factor on q k^T after one more operation; None where it is no number any more."""
    if scale is None or name in PLAIN | TURNS:
        return scale
    if name not in TIMES | OVER:
        return None
    numbers = [x for x in args if isinstance(x, (int, float)) and not isinstance(x, bool)]
    numbers += [float(x) for x in args[:2] if isinstance(x, Tensor) and x.ndim == 0]
    if len(numbers) != 1 or not numbers[0]:
        return None
    return scale * numbers[0] if name in TIMES else scale / numbers[0]


ROLES: dict[Callable, tuple[str, bool, bool]] = {}


def role(func: Callable) -> tuple[str, bool, bool]:
    """Return an operation's name, whether it is a fused kernel, and whether it is made of others.

    What is made of others comes as a whole in inference mode only.
    """
    if not hasattr(func, "_schema"):  # an operator of higher order
        ROLES[func] = func.__name__, False, False
        return ROLES[func]
    name = func._schema.name.partition("::")[2]
    fused = name.startswith("_scaled_dot_product") and "backward" not in name
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    whole = not fused and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    ROLES[func] = name, fused, whole
    return ROLES[func]


def kernel_arguments(func: Callable, args: tuple, kwargs: dict) -> dict:
    """Return what a fused kernel was given by name; its mask, which is called differently in each, as "mask"."""
    given = dict(zip([x.name for x in func._schema.arguments], args, strict=False)) | kwargs
    return given | {"mask": given.get("attn_mask", given.get("attn_bias"))}


def backward() -> bool:
    """Return whether a backward pass runs: what checkpointing computes again was seen before."""
    return torch._C._current_graph_task_id() != -1


def sparse_kind(module: nn.Module) -> str | None:
    """Return what a module attends to, if that is less than all keys and so no map; None: nothing is known of it."""
    if getattr(module, "num_landmarks", None) == getattr(module, "seq_len", 0):
        return None  # with as many landmarks as tokens, Nyströmformer attends to all
    return SPARSE.get(type(module).__name__)


def number_of_heads(module: nn.Module) -> int | None:
    """Return how many heads a module says that it has."""
    found = (getattr(module, name, None) for name in HEADS)
    return next((h for h in found if isinstance(h, int) and not isinstance(h, bool) and h > 0), None)


def packed(module: nn.Module, q: Tensor, k: Tensor) -> int | None:
    """Return the number of heads if a single query stands in several rows, one for each head that shares its keys.

    So do models of transformers when they generate.
    """
    groups = getattr(module, "num_key_value_groups", None)
    if not isinstance(groups, int) or groups < 2 or q.ndim != 4 or q.shape[2] != groups or q.shape[1] != k.shape[1]:
        return None
    heads = number_of_heads(module)
    if heads is None:
        config = vars(getattr(module, "config", object)).get("num_attention_heads")
        projection = getattr(module, "q_proj", None)
        heads = config if isinstance(config, int) else getattr(projection, "out_features", 0) // q.shape[3]
    return heads if heads == q.shape[1] * groups else None
