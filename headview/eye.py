"""The eye: the attention that a model computes, seen below autograd while it runs.

Whoever wrote a layer and however it is called, what torch computes in the end are products, softmaxes and fused
kernels. A mode of torch shows each of them with its tensors. One mechanism follows them: a `Mark` on the storage of
every tensor, and for each operation a rule that makes the mark of its result out of those of its operands.

- A product with a parameter is a projection; its mark counts the rows that were projected.
- Any other product makes scores, a softmax or sigmoid of them weights, and these times values a step of attention.
- A fused kernel is such a step at once. FlexAttention is run in its parts, and these are seen.
- All else carries on what is known of its operand: the numbers that it was multiplied with, the axes that were folded.

Hooks on all modules at once, which leave the modules as they are, show where it happens.
"""

import functools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from headview.step import Loop, Step, four

PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "baddbmm_": 1}  # where their two operands begin
SOFTMAX = {"_softmax", "_safe_softmax"}
COPIES = set("clone _to_copy contiguous alias detach lift_fresh".split())
PLAIN = COPIES | set(  # what leaves scores a multiple of q k^T, plus a mask
    "view _unsafe_view reshape _reshape_alias transpose permute t expand squeeze unsqueeze slice cat constant_pad_nd "
    "add add_ sub sub_ masked_fill masked_fill_ where minimum maximum clamp clamp_ clamp_min nan_to_num copy_ "
    "_log_softmax".split()
)
VIEWS = set("t transpose permute expand unsqueeze slice select detach alias".split())  # the mark of the storage tells
TIMES, OVER = {"mul", "mul_"}, {"div", "div_"}
RULES = {
    **dict.fromkeys(PRODUCTS, "_product"),
    **dict.fromkeys((*SOFTMAX, "exp", "exp_", "sigmoid", "sigmoid_"), "_softmax"),
    "sum": "_sum",
    "convolution": "_convolution",
}
# The operand of the highest is carried on: "outer" is a product that waits for its sum, "lost" comes of weights.
RANK = {"": 0, "outer": 0, "noise": 1, "lost": 1, "scores": 2, "exp": 3, "weights": 4}

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd  # where torch keeps what operations are made of
DENSE = torch._C.DispatchKey.CompositeExplicitAutograd  # and FlexAttention

SPARSE = {  # what classes attend to whose weights are bands or blocks of a map, never the map
    name: what
    for what, names in {
        "a band of neighbours": "LongformerSelfAttention LEDEncoderSelfAttention",
        "blocks": "BigBirdBlockSparseAttention BigBirdPegasusBlockSparseAttention LongT5LocalAttention "
        "LongT5TransientGlobalAttention PegasusXGlobalLocalAttention",
        "chunks": "LocalSelfAttention",
        "hashed chunks": "LSHSelfAttention",
        "landmarks": "NystromformerSelfAttention",
        "the queries that differ most": "InformerProbSparseAttention",
    }.items()
    for name in names.split()
}


@dataclass(eq=False)
class Mark:
    """What is known of a storage, and so of every view of it."""

    kind: str = ""  # one of RANK, or "learned"
    tick: int = 0  # when it was made; below 0, it was there before
    made: int = 0  # when the projection was made that it comes from; 0: from none
    rows: int = 0  # how many rows that projection had
    by: tuple = ()  # the parameter that it multiplied by, and the bytes of a row; (): its rows lie otherwise
    copied: tuple = ()  # the mark of what this was copied from, and the bytes from number to number there and here
    depth: int = 0  # how many steps of attention lie before it
    factor: float | None = 1.0  # the numbers it was multiplied with since; None: and something else
    lead: tuple[int, ...] = ()  # the axes that were folded into its first
    pair: tuple = ()  # of scores: queries (N, Tq, d) and keys (N, Tk, d), each with its mark
    along: int = 0  # of scores and weights: the stride of the axis of keys
    beside: dict[str, Tensor] = field(default_factory=dict)  # of weights: the scores, the map before dropout
    taken: list = field(default_factory=list)  # shared by all that comes of one softmax; filled once it was attention


@dataclass
class Frame:
    """A module at work, since the tick `start`."""

    name: str
    module: nn.Module
    start: int
    sparse: str | None = None


class Op(NamedTuple):
    """An operation that was done."""

    func: Callable
    name: str
    args: tuple
    kwargs: dict
    out: object


class Watching(TorchDispatchMode):
    """A mode that is shown FlexAttention as well, an operator of higher order."""

    supports_higher_order_operators = True

    def __init_subclass__(cls):
        super().__init_subclass__()
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):  # before torch 2.7
            with suppress(ImportError):  # before 2.5
                from torch._higher_order_ops.flex_attention import flex_attention as op

                op.py_impl(cls)(lambda mode, *args, **kwargs: mode.__torch_dispatch__(op, (), args, kwargs))


class Eye(Watching):
    """See every step of attention of one model and hand it to `take`; `missed` says by name what could not be shown."""

    def __init__(self, model: nn.Module, take: Callable[[Step], None]):
        super().__init__()
        self.take = take
        self.missed: dict[str, str] = {}
        self.passes = 0  # how often the model, or one of its parts by itself, was called
        self._names = {id(module): name or type(model).__name__ for name, module in model.named_modules()}
        learned = (x.untyped_storage() for x in (*model.parameters(), *model.buffers()) if plain(x))
        self._learned = WeakKeyDictionary({storage: Mark("learned", -storage._cdata) for storage in learned})
        self._frames: list[Frame] = []
        self._marks: WeakKeyDictionary = WeakKeyDictionary()
        self._parents = [0]  # of each tick, that of the operand it was made of
        self._kinds: dict[str, str] = {}
        self._thread = threading.get_ident()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See what the thread computes inside of the `with`; torch's fast path is stepped around."""
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        enter, leave = (functools.partial(self._guarded, do) for do in (self._enter, self._leave))
        before = hooks.register_module_forward_pre_hook(enter)
        after = hooks.register_module_forward_hook(leave, always_call=True)
        try:
            with self:
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            before.remove()
            after.remove()

    # -------------------------------------------------------------------------------------------- which module

    def _enter(self, module: nn.Module, args: tuple) -> None:
        if threading.get_ident() != self._thread or id(module) not in self._names or backward():
            return
        self.passes += not self._frames
        self._frames.append(Frame(self._names[id(module)], module, len(self._parents)))
        self._frames[-1].sparse = sparse = sparse_kind(module)
        if sparse:
            self._miss(f"it attends sparsely, to {sparse}, which is no map of queries x keys")

    def _leave(self, module: nn.Module, args: tuple, out: object) -> None:
        if threading.get_ident() != self._thread or not any(frame.module is module for frame in self._frames):
            return
        while self._frames.pop().module is not module:  # an exception was caught further out
            pass
        if not self._frames:
            self._marks.clear()
            self._parents = [0]

    # -------------------------------------------------------------------------------------------- which operation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self._frames:
            return func(*args, **kwargs)
        parts = self._guarded(self._before, func, types, args, kwargs)
        if parts:
            with self:
                return parts(*args, **kwargs)
        out = func(*args, **kwargs)
        if parts is None:
            self._guarded(self._look, func, args, kwargs, out)
        return out

    def _guarded(self, do: Callable, *given) -> object:
        """Look, and let no error of ours reach the model."""
        try:
            return do(*given)
        except Exception as error:
            with suppress(Exception):
                self._miss(f"{type(error).__name__} while it was looked at: {error}")

    def _before(self, func: Callable, types: tuple, args: tuple, kwargs: dict) -> Callable | bool | None:
        """Return what computes an operation in its parts, None if nothing does; False: it is not to be looked at.

        Weights that dropout is about to overwrite are kept.
        """
        name = role(func)[0]
        if name in VIEWS or backward():
            return False
        if name == "mul_" and isinstance(args[1], Tensor) and self._mark(args[1]).kind == "noise":
            mark = self._mark(args[0])
            if mark.kind == "weights":
                mark.beside = {"weights": args[0].detach().clone()} | mark.beside
        return in_parts(func, types, args, kwargs)

    def _look(self, func: Callable, args: tuple, kwargs: dict, out: object) -> None:
        name, fused = role(func)
        todo = "_kernel" if fused else rule(name)
        if todo in ("_kernel", "_softmax", "_closed") and any(x.is_nested for x in tensors(args, kwargs)):
            return self._miss(NESTED)
        return getattr(self, todo)(Op(func, name, args, kwargs, out))

    def _miss(self, why: str) -> None:
        self.missed.setdefault(self._frames[-1].name if self._frames else next(iter(self._names.values())), why)

    def _mark(self, x: Tensor) -> Mark:
        storage = x.untyped_storage()
        return self._learned.get(storage) or self._marks.get(storage) or Mark(tick=-storage._cdata)

    def _put(self, x: Tensor, mark: Mark, parent: Mark, *others: Mark) -> None:
        mark.tick, mark.depth = len(self._parents), max(each.depth for each in (parent, *others))
        self._parents.append(parent.tick)
        self._marks[x.untyped_storage()] = mark

    # -------------------------------------------------------------------------------------------- the rules

    def _carry(self, op: Op) -> None:
        """Carry on what is known of the operand that matters most."""
        out, name = op.out[0] if type(op.out) is tuple and op.out else op.out, op.name
        if not isinstance(out, Tensor) or not plain(out):
            return
        seen = [(x, self._mark(x)) for x in tensors(op.args, op.kwargs) if plain(x)]
        pairs = [pair for pair in seen if pair[1].kind != "learned"]
        if not pairs:
            if name == "_to_copy" and seen:  # autocast lends a parameter another dtype
                self._learned[out.untyped_storage()] = seen[0][1]
            return
        x, mark = max(pairs, key=lambda pair: (RANK[pair[1].kind], pair[1].made > 0))
        if same(x, out):  # a view, or in place
            mark.depth = max(each.depth for _, each in pairs)
            mark.lead = leads(x, out) or mark.lead
            mark.factor = times(mark, name, op.args) if mark.kind == "scores" else mark.factor
            if name == "bernoulli_":
                self._put(out, Mark("noise"), mark)
            return
        (given, marks), known = zip(*pairs, strict=True), RANK[mark.kind] > 1
        new = Mark(**vars(mark) | {"factor": times(mark, name, op.args)})  # `replace` takes five times as long
        if known:
            new.along = moved(x, out, mark.along)
        if name in TIMES and len(given) == 2 and outer(x, given[x is given[0]], out, known):
            new = Mark("outer", made=mark.made, rows=mark.rows, pair=given)
        elif mark.kind == "exp" and name in TIMES | OVER and (axis := shared_axis(x, given, out)):
            new = over(replace(new, kind="weights", lead=()), out, axis)  # a softmax that was written out
        elif known and (not out.is_floating_point() or not same_rows(x, out)):
            new = Mark("" if mark.kind == "scores" else "lost", made=mark.made, rows=mark.rows, taken=mark.taken)
        elif name == "native_dropout" or (mark.kind == "weights" and any(each.kind == "noise" for each in marks)):
            new.beside = {"weights": x} | mark.beside
        elif mark.beside:  # what lies beside weights goes the same way
            beside = {key: like_view(y, x) for key, y in mark.beside.items()}
            args = {key: tree_map(lambda z, y=y: y if z is x else z, op.args) for key, y in beside.items()}
            new.beside = {key: op.func(*args[key], **op.kwargs) for key in beside}
        elif name == "cat" and x.ndim == 3 and out.shape[1:] == x.shape[1:]:
            new.lead = (len(out) // len(x), len(x))
        if mark.made and mark.kind != "outer":
            new.copied = (mark, x.storage_offset(), x.element_size(), x.stride(), out.element_size(), out.stride())
        elif mark.kind == "outer":
            new.kind, new.pair = "", ()
        self._put(out, new, mark, *marks)

    def _softmax(self, op: Op) -> None:
        """Make weights of scores, or begin to, where a softmax is written out."""
        x, mark = op.args[0], self._mark(op.args[0])
        if mark.kind not in ("scores", "weights") or x.ndim < 2:
            return self._carry(op)
        beside = {} if same(x, op.out) else {"scores": x if x.stride() == op.out.stride() else x.contiguous()}
        kind = "exp" if op.name.startswith("exp") else "weights"
        new = replace(mark, kind=kind, beside=beside, lead=(), taken=[], along=moved(x, op.out, mark.along))
        axis = op.args[1] % x.ndim - x.ndim if op.name in SOFTMAX else 0
        return self._put(op.out, over(new, op.out, axis) if axis else new, mark)

    def _convolution(self, op: Op) -> None:
        """Take it for a projection."""
        rows = op.out.numel() // op.out.shape[1]
        self._put(op.out, Mark(made=len(self._parents), rows=rows), self._mark(op.args[0]))

    def _product(self, op: Op) -> None:
        """Tell projections, scores and attention apart by what is known of both operands."""
        a, b = op.args[PRODUCTS[op.name] :][:2]
        one, two = self._mark(a), self._mark(b)
        if "learned" in (one.kind, two.kind):
            x, mark, by = (a, one, two) if two.kind == "learned" else (b, two, one)
            new = Mark(made=len(self._parents), rows=x.numel() // a.shape[-1])
            if x is a and op.out.shape[:-1].numel() == op.out.shape[-2]:
                new.by = ((by, b.storage_offset()), op.out.shape[-1] * op.out.element_size())
            if mark.kind == "weights" and op.out.numel() == x.numel():  # heads talk
                new = replace(mark, beside={})
            elif op.out.shape[-1] == 1 < len(op.out):  # additive attention: a number for each pair of query and key
                new = Mark("scores", factor=None)
            return self._put(op.out, new, mark)
        factor = float(op.kwargs.get("alpha", 1.0))
        return self._meet(a, b, op.out, Mark("scores", factor=factor, along=op.out.stride(-1)))

    def _sum(self, op: Op) -> None:
        """Take (a * b).sum(axis) for the product that it is, where each of both has an axis of its own."""
        x, mark, summed = op.args[0], self._mark(op.args[0]), op.args[1] if len(op.args) > 1 else None
        if mark.kind != "outer" or summed is None or len(summed) != 1:
            return self._carry(op)
        n, k = range(-x.ndim, 0), summed[0] % x.ndim - x.ndim
        a, b = sorted(mark.pair, key=lambda each: self._mark(each).kind != "weights")
        a, b = a[(None,) * (x.ndim - a.ndim)], b[(None,) * (x.ndim - b.ndim)]
        rows, columns = ([i for i in n if i != k and x.shape[i] > 1 == y.shape[i]] for x, y in ((a, b), (b, a)))
        if len(rows) > 1 or len(columns) != 1:
            return self._carry(op)
        a, b = (x.movedim((*columns, *rows, k), (*n[-2 - len(rows) :],)) for x in (a, b))
        a, b = (a.squeeze(-3), b.squeeze(-2)) if rows else (a, b)  # (..., rows, k) and (..., columns, k)
        at = columns[0] + (columns[0] < k and op.out.ndim < x.ndim)
        return self._meet(a, b.mT, op.out, Mark("scores", along=op.out.stride(at)))

    def _meet(self, a: Tensor, b: Tensor, out: Tensor, scores: Mark) -> None:
        """Take weights that meet values in a @ b; else this makes scores."""
        for mark, x, values in ((one := self._mark(a), a, b), (two := self._mark(b), b.mT, a.mT)):
            if mark.kind not in ("weights", "exp", "lost") or mark.taken:
                continue
            fits = x.stride(-1) == mark.along or x.shape[-1] == 1 or not mark.along
            whole = mark.kind == "exp" and bool(((x.sum(-1) - 1).abs() < 1e-2).all())
            if whole or (mark.kind == "weights" and (fits or x is a)):
                return self._by_hand(mark, x, values, out, fits)
            self._miss(LOST)
        scores.pair = ((a, one), (b.mT, two))
        return self._put(out, scores, one, two)

    def _by_hand(self, mark: Mark, weights: Tensor, values: Tensor, out: Tensor, fits: bool) -> None:
        """Take weights that meet values; unless it `fits`, keys lie along what was the axis of queries."""
        mark.taken.append(True)
        seen = {"weights": weights} | {key: like_view(x, weights) for key, x in mark.beside.items()}
        rows, keys = seen["weights"].shape[-2:]
        (q, of_q), (k, of_k) = (mark.pair or ((None, NOTHING),) * 2)[:: 1 if fits else -1]
        if q is not None and q.shape[:-1].numel() * keys == seen["weights"].numel() and k.shape[-2] == keys:
            seen |= {"q": q, "k": k}
        lead, at = axes(mark.lead, seen["weights"].numel() // (rows * keys), rows, of_q)
        seen = {name: four(x, lead, at) for name, x in (seen | {"v": values}).items()}
        scale = mark.factor if "q" in seen else None
        self._take((q, of_q), (k, of_k), out, tuple(seen["weights"].shape), scale=scale, **seen)
        mark.pair, mark.beside = (), {}

    def _kernel(self, op: Op) -> None:
        """Take a fused kernel: queries, keys and mask are handed over, the weights are a softmax away."""
        given = kernel_arguments(op.func, op.args, op.kwargs)
        q, k, v, mask = (given[name] for name in ("query", "key", "value", "mask"))
        of_q, of_k = of = (q, self._mark(q)), (k, self._mark(k))
        scale = q.shape[-1] ** -0.5 if given.get("scale") is None else float(given["scale"])
        groups = getattr(self._frames[-1].module, "num_key_value_groups", 1)
        if groups == q.shape[-2] > 1 and q.ndim == 4 and of_q[1].rows == len(q):
            # A single query in several rows, one for each head that shares its keys: so transformers generates.
            q = q.reshape(len(q), -1, 1, q.shape[-1])  # (B, h_kv, g, d) -> (B, h, 1, d)
            if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
                mask = mask.reshape(len(mask), -1, 1, mask.shape[-1])
        if q.ndim == 4:  # fewer keys than heads are shared
            k, v = (x.expand(len(q), -1, -1, -1) for x in (k, v))
            mask = None if mask is None else mask[(None,) * (4 - mask.ndim)]
        else:
            lead, at = axes(tuple(q.shape[:-2]), q.shape[:-2].numel(), q.shape[-2], of_q[1])
            whole = (None if x is None else x.expand(*q.shape[:-2], *x.shape[-2:]) for x in (q, k, v, mask))
            q, k, v, mask = (None if x is None else four(x, lead, at) for x in whole)
        seen = {"q": q, "k": k, "v": v, "scale": scale, "mask": mask, "causal": bool(given.get("is_causal"))}
        self._take(*of, op.out[0] if type(op.out) is tuple else op.out, (*q.shape[:3], k.shape[-2]), **seen)

    def _closed(self, op: Op) -> None:
        """Say of other kernels, such as those for packed sequences, that they show nothing."""
        self._miss(f"its kernel, {op.name}, {CLOSED}")

    # -------------------------------------------------------------------------------------------- what was seen

    def _take(self, at_q: tuple, at_k: tuple, out: Tensor, shape: tuple, **seen) -> None:
        """Hand a step on; `at_q` and `at_k` are tensors as they were multiplied, each with its mark."""
        of_q, of_k = at_q[1], at_k[1]
        depth = max(of_q.depth, of_k.depth)
        self._put(out, Mark(), replace(self._mark(out), depth=depth + 1))
        if 0 in shape or any(frame.sparse for frame in self._frames):
            return
        with torch.no_grad(), torch._C._DisableAutocast():
            name, factors = self._frames[-1].name, (of_q.factor or 1.0, of_k.factor or 1.0)
            kind, number, loop = self._kind(name, of_q, of_k, shape), self.passes - 1, None
            if (at := place(*at_q)) is not None:
                of, part = (number, self._start(of_q), depth), shape[0] * shape[2] < of_q.rows
                loop = Loop(of, *at, place(*at_k), part or shape[0] == 1)
            self.take(Step(name, kind, shape, number, loop, factors=factors, **seen))

    def _start(self, mark: Mark) -> int:
        """Return when the module began, of those at work, that made a projection."""
        return max((frame.start for frame in self._frames if frame.start <= mark.made), default=0)

    def _kind(self, name: str, q: Mark, k: Mark, shape: tuple) -> str:
        """Return whether queries and keys come from one sequence; what the first call showed holds, for caches hide it.

        They do if both were projected in one module, of one tensor that came from outside of it.
        """
        if name not in self._kinds:
            start = self._start(q)
            known = start <= min(q.made, k.made) and q.made
            cross = self._root(q, start) != self._root(k, start) if known else shape[-1] != shape[-2]
            self._kinds[name] = "cross" if cross else "self"
        return self._kinds[name]

    def _root(self, mark: Mark, start: int) -> int:
        tick = mark.tick
        while tick >= start > 0:
            tick = self._parents[tick]
        return tick


NOTHING = Mark()
NESTED = "its sequences are nested tensors; give padded ones, with a mask"
LOST = "its weights meet values in a way that cannot be followed"
CLOSED = "keeps the weights to itself; call torch's scaled_dot_product_attention on padded sequences"


def axes(lead: tuple[int, ...], size: int, queries: int, of_q: Mark) -> tuple[tuple[int, ...], int]:
    """Return the axes that lead a map, and which of them counts heads, where only their product may be known.

    There are as many heads as rows of the maps for each row that was projected to queries.
    """
    heads, rest = divmod(size * queries, of_q.rows or size * queries)
    heads = 1 if rest or not heads or size % heads else heads
    lead = lead[:-1] if len(lead) == 3 and lead[-1] == 1 else lead
    if len(lead) == 2:
        return lead, 1
    if len(lead) == 3:  # heads of windows (B, h, w), windows (B, w, h), or groups of heads (B, h_kv, g)
        at = {lead[2]: 2, lead[1]: 1}.get(heads)
        return (lead, at) if at else ((lead[0], lead[1] * lead[2]), 1)
    return (of_q.lead, 0) if of_q.lead == (heads, size // heads) else ((size // heads, heads), 1)


def plain(x: Tensor) -> bool:
    """Return whether a tensor has a storage of its own to be followed by."""
    return x.layout == torch.strided and not x.is_nested


def same(x: Tensor, y: Tensor) -> bool:
    """Return whether two tensors share their storage."""
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


def place(x: Tensor | None, mark: Mark) -> tuple | None:
    """Return where in its projection a tensor begins: in which features (its head), in which row (its sample)."""
    at = 0 if x is None else x.storage_offset() * x.element_size()
    while mark.copied:
        before, start, old, theirs, new, ours = mark.copied
        at_old = start * old
        for step, their in sorted(zip(ours, theirs, strict=False), reverse=True):
            count, at = divmod(at, max(1, step * new))
            at_old += count * their * old
        at, mark = at_old, before
    row, feature = divmod(at, mark.by[1]) if mark.by else (0, 0)
    return ((mark.by[0], feature), (mark.made, row)) if mark.by else None


def moved(x: Tensor, out: Tensor, stride: int) -> int:
    """Return the stride in a result of the axis that has this one in its operand, else of the last; 0: not known."""
    axis = next((i for i in range(-1, -1 - x.ndim, -1) if x.stride(i) == stride and x.shape[i] > 1), -1)
    return out.stride(axis) if stride and -axis <= out.ndim else 0


def over(mark: Mark, out: Tensor, axis: int) -> Mark:
    """Return the mark of weights whose softmax ran along this axis: there lie the keys."""
    turned = mark.along not in (0, out.stride(axis))
    return replace(mark, along=out.stride(axis), pair=mark.pair[:: -1 if turned else 1])


def shared_axis(x: Tensor, given: list[Tensor], out: Tensor) -> int:
    """Return the one axis along which the other operand has one number for all; 0 where there is none such."""
    if len(given) != 2 or out.shape != x.shape:
        return 0
    strides = given[x is given[0]].expand_as(x).stride()
    free = [i for i in range(-x.ndim, 0) if x.shape[i] > 1 and not strides[i]]
    return free[0] if len(free) == 1 else 0


def outer(x: Tensor, y: Tensor, out: Tensor, known: bool) -> bool:
    """Return whether both tensors, or scores or weights alone, are repeated, as where a product is written out."""
    if known:
        return out.numel() > x.numel() and out.shape[-2:] != x.shape[-2:]
    return out.numel() > max(x.numel(), y.numel())


def tensors(args: tuple, kwargs: dict) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (y for y in x if isinstance(y, Tensor))


def like_view(x: Tensor, view: Tensor) -> Tensor:
    """Return `x` seen as another tensor of that many numbers sees its storage."""
    start = x.storage_offset() + view.storage_offset()
    return x if (x.shape, x.stride()) == (view.shape, view.stride()) else x.as_strided(view.shape, view.stride(), start)


def same_rows(x: Tensor, out: Tensor) -> bool:
    """Return whether a result still holds a number for each cell, but for columns added or cut at the end."""
    if out.numel() == x.numel():
        return True
    wider = out.ndim == x.ndim and out.ndim > 1 and out.shape[-2:] == x.shape[-2:]  # + the bias of a batch
    return (wider and out.numel() > x.numel()) or (out.shape[:-1] == x.shape[:-1] and out.shape[-1] > 1)


def leads(x: Tensor, out: Tensor) -> tuple[int, ...]:
    """Return the leading axes (at least two) of `x` that became the first of `out`, (N, T, d)."""
    n = x.ndim - 2
    folded = out.ndim == 3 and n > 1 and x.shape[n:] == out.shape[1:] and x.numel() == out.numel()
    return tuple(x.shape[:n]) if folded else ()


def times(mark: Mark, name: str, args: tuple) -> float | None:
    """Return the factor after one more operation; None where scores are no multiple of q k^T any more."""
    if mark.factor is None or mark.kind in ("exp", "weights") or name in (PLAIN if mark.kind else COPIES):
        return mark.factor
    if name in TIMES | OVER:
        numbers = [x for x in args if isinstance(x, (int, float)) and not isinstance(x, bool)]
        numbers += [float(x.detach()) for x in args[:2] if isinstance(x, Tensor) and x.ndim == 0]
        if len(numbers) == 1 and numbers[0]:
            return mark.factor * numbers[0] if name in TIMES else mark.factor / numbers[0]
    return None if mark.kind else 1.0


@functools.cache
def role(func: Callable) -> tuple[str, bool]:
    """Return an operation's name, and whether it is a fused kernel."""
    name = func._schema.name.partition("::")[2] if hasattr(func, "_schema") else func.__name__
    return name, name.startswith("_scaled_dot_product") and "backward" not in name


@functools.cache
def rule(name: str) -> str:
    """Return the rule for an operation that is no fused kernel of torch's."""
    closed = re.search("att(entio)?n", name) and "backward" not in name
    return RULES.get(name, "_closed" if closed else "_carry")


def in_parts(func: Callable, types: tuple, args: tuple, kwargs: dict) -> Callable | None:
    """Return what does the same in operations, of an operation that is made of others; None of any other.

    It comes as a whole in inference mode, and where it is itself such a part. Tensors of a class of their own, and
    nested ones, have other parts.
    """
    parts = decomposed(func)
    return None if parts is None or types or any(x.is_nested for x in tensors(args, kwargs)) else parts


@functools.cache
def decomposed(func: Callable) -> Callable | None:
    if not hasattr(func, "_schema"):  # an operator of higher order, such as FlexAttention
        return func.py_kernels.get(DENSE) if func.__name__ == "flex_attention" else None
    known = not role(func)[1] and torch._C._dispatch_has_kernel(func.name())  # `dim` of nested tensors is not
    made = known and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE)
    return func.decompose if made else None


def kernel_arguments(func: Callable, args: tuple, kwargs: dict) -> dict:
    """Return what a fused kernel was given by name; its mask, which is called differently in each, as "mask"."""
    given = dict(zip([x.name for x in func._schema.arguments], args, strict=False)) | kwargs
    return given | {"mask": given.get("attn_mask", given.get("attn_bias"))}


def backward() -> bool:
    """Return whether a backward pass runs: what checkpointing computes again was seen before."""
    return torch._C._current_graph_task_id() != -1


def sparse_kind(module: nn.Module) -> str | None:
    """Return what a module attends to, if that is less than all keys and so no map; None: nothing is known of it."""
    kind = SPARSE.get(type(module).__name__)
    # With as many landmarks as tokens, Nyströmformer attends to all.
    return None if kind == "landmarks" and module.num_landmarks == module.seq_len else kind
