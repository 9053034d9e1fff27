"""What a layer computes in one call, seen below autograd: its projections, and its steps of attention with all tensors.

A second use of `headview.eye`'s way of looking. There each step becomes a map; here each tensor is followed by its
storage from the projection on, so that a `Patch` can change rows on their way, and it is seen where they arrive. What a
product with a parameter makes is a projection; of projections a product makes scores, of scores a softmax makes
weights, of weights and values a product makes what the heads write. A fused kernel is computed once more in its parts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from headview.eye import OVER, PRODUCTS, SOFTMAX, TIMES, Watching, in_parts, kernel_arguments, plain, role, tensors

SUMS = {"add", "add_", "sub", "sub_", "neg"}
NORMS = {"rsqrt", "rsqrt_", "native_layer_norm", "_fused_rms_norm"}  # and all that have "norm" in their names
MOVES = set(  # what leaves rows rows, wherever they come to lie
    "view _unsafe_view reshape _reshape_alias permute transpose t expand clone contiguous slice select split unbind "
    "cat split_with_sizes stack squeeze unsqueeze copy_ _to_copy alias detach index repeat as_strided roll flip unfold "
    "view_as_complex view_as_real constant_pad_nd index_select gather repeat_interleave lift_fresh slice_scatter "
    "native_dropout index_put_ index_put select_scatter empty_like zeros_like new_zeros new_empty fill_ zero_ "
    "index_copy index_copy_".split()
)
FRESH = {"full_like", "ones_like", "rand_like", "randn_like", "new_full", "new_ones"}  # numbers of their own
SCALES = TIMES | OVER
FOLLOWED = {"": MOVES | SCALES, "given": MOVES | SCALES, "learned": MOVES | SCALES | SUMS}
OF_ROWS = SUMS | set("where masked_fill mean pow relu silu gelu sigmoid tanh cos sin".split())  # curves: of a gate
NEAR = {  # what else leaves a tensor what it is
    "product": SUMS
    | set("masked_fill masked_fill_ where minimum maximum clamp clamp_min nan_to_num tril triu".split()),
    "weights": {"masked_fill", "nan_to_num", "bernoulli_"},
    "projection": OF_ROWS,
    "head": OF_ROWS,
}
KERNEL = torch.ops.aten._scaled_dot_product_attention_math.default  # what fused kernels do, in operations
RANK = {"weights": 5, "head": 4, "exp": 3, "product": 2, "projection": 1}  # the operand of the highest is followed


@dataclass(frozen=True)
class Info:
    """What is known of a tensor."""

    # "given" (an input as it is), "learned", "projection", "product" (it makes scores), "exp", "weights", "head", or ""
    kind: str = ""
    of: tuple[int, ...] = ()  # the numbers of the projections, products, softmaxes or steps that it comes from
    factor: float | None = 1.0  # with which it was multiplied since; None where it is no number, as behind a norm
    far: bool = False  # whether something came between that neither moves nor scales it
    depth: int = 0  # how many steps of attention lie before it
    turned: bool = False  # whether it was multiplied by numbers that are neither learned nor made of inputs
    summed: int = 1  # over how many numbers each of its own is a sum


NOTHING = Info()


@dataclass(eq=False)
class Step:
    """One step of attention; queries, keys and values are `(N, T, head_dim)`, maps `(N, Tq, Tk)`."""

    q: Tensor | None  # the operands of the product, None where the scores are no product
    k: Tensor | None
    v: Tensor
    raw: Tensor | None  # what the product gave
    scores: Tensor  # what entered the softmax
    used: Tensor  # the weights as they multiplied the values
    soft: Tensor  # what came out of the softmax
    added: list[Tensor]  # what came out of each softmax, where the weights are a sum of several
    of_q: Info  # how they came about
    of_k: Info
    of_v: Info
    of_scores: Info
    of_weights: Info
    turned: bool = False  # whether the softmax ran along another axis than the keys
    gated: bool = False  # whether what it gave was multiplied by something, number by number
    turned_back: bool = False  # whether it was multiplied by numbers that are neither learned nor made of inputs
    before: int = 0  # how many projections were made before
    merged: Tensor | None = None  # the rows that the next projection reads, (rows, features)

    @cached_property
    def maps(self) -> tuple[Tensor, Tensor] | None:
        """What entered the softmax and came out of it, as maps, of which an einsum may turn the axes."""
        shape, axes, both = self.used.shape, range(self.scores.ndim), (self.scores, self.soft)
        if any(x.numel() != self.used.numel() for x in both):
            return None
        turns = (turn for turn in permutations(axes) if torch.equal(self.soft.permute(turn).reshape(shape), self.used))
        turn = next(turns, axes if three(self.scores).shape == shape else None)
        return turn and tuple(x.permute(*turn).reshape(shape) for x in both)

    @property
    def depth(self) -> int:
        """How many steps lie before it."""
        return max(self.of_q.depth, self.of_k.depth, self.of_v.depth)


@dataclass(frozen=True)
class Patch:
    """Rows that are changed on their way."""

    kind: str  # "projection" or "head"; or "value": 1 is added to all that is weighed by scores or exponentials
    of: frozenset[int] = frozenset()  # the numbers of the projections or steps
    # takes a number and a shape of rows, returns which are changed
    rows: Callable[[int, tuple[int, ...]], Tensor] | None = None
    size: float = 1.0  # by how many times their usual size


@dataclass
class Seen:
    """What one call showed."""

    out: Tensor | None = None
    steps: list[Step] = field(default_factory=list)
    projections: list[Tensor] = field(default_factory=list)  # (rows, features)
    linear: bool = False  # keys met values before queries
    shares: list[tuple[Tensor, Info]] = field(default_factory=list)  # scores that met values without a softmax
    exps: bool = False  # exponentials met values, and are divided later, if at all
    written: list[Tensor] = field(default_factory=list)  # what was made of such, where a projection reads it
    divided: bool = False  # what was summed over tokens was divided by something else of the tokens
    behind: bool = False  # such sums were normed, or gated
    twice: bool = False  # a softmax of weights
    over: list[int] = field(default_factory=list)  # how many numbers each softmax ran over
    other: bool = False  # a softmax met values in a way that is not followed
    entered: Tensor | None = None  # the rows that the first projection reads, (rows, features)
    met: bool = False  # what is made of tokens was multiplied by what is made of tokens, as queries by keys


class Look(Watching):
    """Follow the tensors of one call."""

    def __init__(self, module: nn.Module, patch: Patch | None = None, inputs: Sequence[Tensor] = ()):
        super().__init__()
        self.seen, self.patch = Seen(), patch
        self._infos: dict[int, Info] = {}
        self._parts: dict[int, tuple[list[Info], Tensor]] = {}  # and for each number in a storage, whose it is
        self._kept: list[Tensor] = []  # so that no storage is given to another
        self._products: list[tuple] = []
        self._softmaxes: list[tuple] = []
        self._learned: set[int] = set()
        self._parameters: set[int] = set()
        self.learn(module)
        for x in inputs:
            self.put(x, Info("given"))

    def learn(self, module: nn.Module, *_) -> None:
        """Note the parameters and buffers of a module; of one that a function calls, when it is called."""
        self._parameters |= {storage(x) for x in module.parameters() if plain(x)}
        buffers = {storage(x) for x in module.buffers() if plain(x) and x.is_floating_point()}
        self._learned |= self._parameters | buffers

    def info(self, x: Tensor) -> Info:
        """Return what is known of a tensor; of one that lies in several parts of a storage, of all of them."""
        key = storage(x)
        if key in self._learned:
            return Info("learned")
        whole = self._infos.get(key, NOTHING)
        if key not in self._parts:
            return whole
        infos, owner = self._parts[key]
        owner = owner[places(x)] if len(owner) * x.element_size() == x.untyped_storage().nbytes() else owner
        there = [whole if n < 0 else infos[n] for n in owner.unique().tolist()] or [whole]
        lead = max(there, key=lambda info: RANK.get(info.kind, 0))
        same = [info for info in there if info.kind == lead.kind]
        of, factor = tuple(dict.fromkeys(n for info in same for n in info.of)), {info.factor for info in same}
        far, turned, depth = (max(getattr(info, name) for info in same) for name in ("far", "turned", "depth"))
        one = factor.pop() if len(factor) == 1 else None
        return replace(lead, of=of, factor=one, far=far, turned=turned, depth=depth)

    def put(self, x: Tensor, info: Info, inside: bool = False) -> None:
        """Note what is known of a tensor; `inside`: of one changed in place, of its part of a storage alone."""
        self._kept.append(x)
        key = storage(x)
        if inside and key not in self._parameters:
            self._learned.discard(key)  # a buffer in which a cache is kept
        if inside and x.numel() * x.element_size() < x.untyped_storage().nbytes():
            size = x.untyped_storage().nbytes() // x.element_size()
            infos, owner = self._parts.setdefault(key, ([], torch.full((size,), -1)))
            owner[places(x) if len(owner) == size else slice(None)] = len(infos)
            infos.append(info)
        elif inside or key not in self._parts:  # else it is a view of what has parts
            self._parts.pop(key, None)
            self._infos[key] = info

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, fused = role(func)
        if parts := in_parts(func, types, args, kwargs):  # as it comes inside of a kernel's parts
            with self:
                return parts(*args, **kwargs)
        infos = [(x, self.info(x)) for x in tensors(args, kwargs)]
        out = func(*args, **kwargs)
        if fused:
            self._kernel(kernel_arguments(func, args, kwargs), out[0] if isinstance(out, (tuple, list)) else out)
        elif name in PRODUCTS:
            first = PRODUCTS[name]
            self._product(args[first], args[first + 1], out, float(kwargs.get("alpha", 1.0)))
        elif name == "convolution" and self.info(args[1]).kind == "learned":
            self._convolved(args[0], out)
        elif name in SOFTMAX:
            self._softmax(args[0], args[1] % out.ndim, out)
        elif name not in FRESH and (name in SCALES or any(info != NOTHING for _, info in infos)):
            for made in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(made, Tensor) and plain(made) and (made.is_floating_point() or made.is_complex()):
                    self._follow(name, args, infos, made)
        return out

    # ---------------------------------------------------------------------------------------------- what is followed

    def _follow(self, name: str, args: tuple, infos: list[tuple[Tensor, Info]], made: Tensor) -> None:
        """Carry on what is known of the operand that matters most."""
        first, lead = max(infos, key=lambda one: RANK.get(one[1].kind, 0))
        kinds = [info.kind for _, info in infos]
        self.seen.divided |= name in OVER and kinds[0] in ("head", "product") and kinds[-1] in RANK and len(kinds) > 1
        if lead.kind in FOLLOWED:
            lead = infos[0][1]
            if name in FOLLOWED[lead.kind] and all(info.kind == lead.kind or x.numel() <= 1 for x, info in infos):
                if storage(infos[0][0]) in self._parameters:  # as 1 + weight is
                    self._parameters.add(storage(made))
                self.put(made, replace(lead, factor=self._times(name, args, lead)))
            return None
        if lead.kind == "exp" and name in OVER and len(infos) > 1 and infos[1][1].kind == "exp":
            return self._written_out(lead, infos[1][0], made)
        depth, turned = (max(getattr(info, key) for _, info in infos) for key in ("depth", "turned"))
        if lead.kind == "product" and name == "exp":
            self._softmaxes.append((first, None, made.ndim - 1, lead))
            return self.put(made, Info("exp", (len(self._softmaxes) - 1,), depth=depth))
        alike = lead.kind == "projection" and not depth and name in SUMS | TIMES and first.numel() < made.numel()
        if alike and any(info.kind in ("", "given") and x.shape == made.shape for x, info in infos):
            return None  # of tokens to all of which the same is added
        same = [info for _, info in infos if info.kind == lead.kind]
        of = tuple(dict.fromkeys(n for info in same for n in info.of))
        factor, far = self._times(name, args, lead), any(info.far for info in same)
        normed = name in NORMS or "norm" in name
        self.seen.behind |= lead.kind == "head" and (normed or (name in TIMES and "projection" in kinds))
        if lead.kind == "projection" and (normed or any(info.factor is None for info in same)):
            factor = None
        if name in SCALES:
            far = lead.far if lead.kind == "projection" else far  # by its norm, or a gate of the same token
            by_table = any(x.numel() > 1 and not info.of and storage(x) not in self._parameters for x, info in infos)
            for n in lead.of if lead.kind == "head" else ():
                self.seen.steps[n].gated |= "projection" in kinds
                self.seen.steps[n].turned_back |= by_table
            turned |= lead.kind == "projection" and by_table
        elif not normed and name not in MOVES | NEAR.get(lead.kind, set()):
            factor, far = (None, far) if lead.kind == "product" else (factor, True)
        if lead.kind == "product":  # a sum of scores and more
            far |= name in SUMS and kinds.count("product") + kinds.count("projection") > 1
        summed = lead.summed * first.numel() // made.numel() if name == "sum" else lead.summed
        info = Info(lead.kind, of, factor, far, depth, turned, summed)
        return self.put(made, info, name.endswith("_"))

    def _times(self, name: str, args: tuple, lead: Info) -> float | None:
        """Return the factor after an operation; a number, or a tensor of one, counts."""
        if name not in SCALES:
            return lead.factor
        one, two = args[0], args[1]
        number = two if isinstance(one, Tensor) else one
        if isinstance(one, Tensor) and isinstance(two, Tensor):
            other = one if self.info(two) is lead else two
            kind = self.info(other).kind
            if kind == lead.kind or other.numel() != 1 or kind == "learned":
                rotated = other.numel() > max(1, other.shape[-1] if other.ndim else 0)  # else it is one for all places
                by_number = rotated or kind == lead.kind  # a rotation adds such products; a gate is no number
                return lead.factor if lead.kind == "projection" and by_number else None
            number = float(other.real if other.is_complex() else other)
        if lead.factor is None or isinstance(number, complex) or not number:
            return None
        return lead.factor * number if name in TIMES else lead.factor / number

    def _written_out(self, lead: Info, total: Tensor, made: Tensor) -> None:
        """Take exp(scores) / sum(exp(scores)) for the softmax that it is."""
        n = lead.of[0]
        axes = [a for a in range(made.ndim) if total.ndim == made.ndim and total.shape[a] == 1 < made.shape[a]]
        self._softmaxes[n] = self._softmaxes[n][0], made, axes[0] if axes else made.ndim - 1, self._softmaxes[n][3]
        self.put(made, Info("weights", (n,), depth=lead.depth))

    def _softmax(self, scores: Tensor, axis: int, out: Tensor) -> None:
        info = self.info(scores)
        self.seen.twice |= info.kind == "weights" and not info.far
        self.seen.over.append(scores.shape[axis] if scores.numel() > 1 else 0)
        if info.kind != "product":  # of learned queries, or of sums of queries and keys
            info = replace(info, kind="product", of=(), far=True)
        self._softmaxes.append((scores, out, axis, info))
        self.put(out, Info("weights", (len(self._softmaxes) - 1,), depth=info.depth))

    # ---------------------------------------------------------------------------------------------- products

    def _product(self, a: Tensor, b: Tensor, out: Tensor, alpha: float) -> None:
        """Tell projections, scores and attention apart by what is known of both operands."""
        one, two = self.info(a), self.info(b)
        kinds, depth = (one.kind, two.kind), max(one.depth, two.depth)
        if kinds == ("learned", "learned"):
            self.put(out, one)
        elif two.kind == "learned":
            self._projected(a, one, out, out, two.factor)
        elif one.kind == "learned":
            self._projected(b.mT, two, out.mT, out, one.factor)
        elif kinds == ("weights", "weights") or not a.numel() * b.numel():  # landmarks, a map after another; no tokens
            self.seen.other = True
            self.put(out, replace(one, far=True))
        elif one.kind == "weights":
            self._attended(a, one, b, two, out, out)
        elif two.kind == "weights":
            self._attended(b.mT, two, a.mT, one, out.mT, out)
        elif {"product", "exp"} & {*kinds}:
            left = one.kind in ("product", "exp")
            scores, info, other, rows = (a, one, b, out) if left else (b.mT, two, a, out.mT)
            if info.kind == "exp":
                self.seen.exps = True
            elif scores.shape[-1] == scores.shape[-2] != other.shape[-1]:
                self.seen.shares.append((kept(scores), info))
            else:
                self.seen.linear = True
            if self.patch is not None and self.patch.kind == "value":
                rows += scores.sum(-1, keepdim=True)
            self.put(out, Info("head", (), far=True, depth=depth + 1))
        else:
            self.seen.met = True
            self._products.append((kept(three(a)), kept(three(b.mT)), one, two, kept(three(out))))
            self.put(out, Info("product", (len(self._products) - 1,), alpha, depth=depth))

    def _projected(self, x: Tensor, info: Info, rows: Tensor, out: Tensor, factor: float | None = 1.0) -> None:
        number = len(self.seen.projections)
        if info.kind in ("weights", "product"):  # heads talk
            return self.put(out, replace(info, factor=None, far=True))
        if info.kind == "projection" and rows.shape[:-1].numel() != len(self.seen.projections[info.of[0]]):
            return self.put(out, replace(info, far=True))  # of tokens, not of features: as Linformer shortens them
        if info.kind == "head" and not info.of:
            self.seen.written.append(kept(x))
        for n in info.of if info.kind == "head" else ():
            if self.seen.steps[n].merged is None:
                self.seen.steps[n].merged = kept(x.reshape(-1, x.shape[-1]))
        if not self.seen.projections:
            self.seen.entered = kept(x.reshape(-1, x.shape[-1]))
        self.seen.projections.append(kept(rows.reshape(-1, rows.shape[-1])))
        self._shake("projection", number, rows, (rows.shape[:-1].numel(),))
        return self.put(out, Info("projection", (number,), factor, depth=info.depth))

    def _convolved(self, x: Tensor, out: Tensor) -> None:
        x, rows = (y.flatten(2).transpose(1, 2) if y.ndim > 2 else y for y in (x, out))  # (B, C, ...) -> (B, places, C)
        rows = rows.clone()
        self._projected(x, self.info(x), rows, out)
        out.copy_(rows.transpose(1, 2).reshape(out.shape) if out.ndim > 2 else rows)

    def _attended(self, w: Tensor, info: Info, v: Tensor, of_v: Info, rows: Tensor, out: Tensor) -> None:
        """Take weights that meet values for a step."""
        scores, soft, axis, of_scores = self._softmaxes[info.of[0]]
        product = self._products[of_scores.of[0]] if len(of_scores.of) == 1 else (None, None, NOTHING, NOTHING, None)
        q, k, of_q, of_k, raw = product
        infos, number = (of_q, of_k, of_v, of_scores, info), len(self.seen.steps)
        added = [self._softmaxes[n][1] for n in info.of]
        step = Step(q, k, kept(three(v)), raw, kept(scores), kept(three(w)), soft, added, *infos)
        step.turned, step.before = axis != scores.ndim - 1, len(self.seen.projections)
        self.seen.steps.append(step)
        self._shake("head", number, rows, tuple(step.used.shape[:2]))
        self.put(out, Info("head", (number,), depth=step.depth + 1))

    def _kernel(self, given: dict, out: Tensor) -> None:
        """Compute a fused kernel in its parts, which are seen, and let its output be what they give."""
        q, k, v, mask = (given[name] for name in ("query", "key", "value", "mask"))
        options = {"scale": given.get("scale")}
        if q.ndim == 4 and k.shape[1] != q.shape[1]:
            options["enable_gqa"] = True
        chance, causal = given.get("dropout_p", 0.0), given.get("is_causal", False)
        with self:
            made, _ = KERNEL.decompose(q, k, v, mask, chance, causal, **options)
        out.copy_(made)
        self.put(out, self.info(made))

    def _shake(self, kind: str, number: int, rows: Tensor, shape: tuple[int, ...]) -> None:
        """Add to the rows that a patch names what no norm, curve or rotation makes nothing of."""
        patch = self.patch
        if patch is None or patch.kind != kind or number not in patch.of:
            return
        chosen = patch.rows(number, shape).view(rows.shape[:-1])
        noise = torch.linspace(0.7, 1.9, rows.shape[-1], dtype=rows.dtype, device=rows.device)
        noise[::2] *= -1.3
        size = patch.size * (rows.square().mean().sqrt() + 1e-3)
        rows += size * chosen[..., None].to(rows.dtype) * noise


def storage(x: Tensor) -> int:
    """Return what tells the storage of a tensor from others."""
    return x.untyped_storage()._cdata


def places(x: Tensor) -> Tensor:
    """Return where in its storage the numbers of a tensor stand."""
    there = torch.arange(x.untyped_storage().nbytes() // x.element_size())
    return there.as_strided(x.shape, x.stride(), x.storage_offset()).flatten()


def kept(x: Tensor) -> Tensor:
    """Return a copy that stays as it was."""
    return x.detach().clone()


def three(x: Tensor) -> Tensor:
    """Return `(…, T, d)` as `(N, T, d)`."""
    return x[None] if x.ndim == 2 else x.flatten(0, -3)


@contextmanager
def seeing(module: nn.Module, patch: Patch | None = None, inputs: Sequence[Tensor] = ()) -> Iterator[Seen]:
    """See what is computed of some inputs inside; `Seen` is filled meanwhile. torch's fast path is stepped around."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    look = Look(module, patch, inputs)
    hook = register_module_forward_pre_hook(look.learn)
    try:
        with torch.enable_grad(), look:
            yield look.seen
    finally:
        hook.remove()
        torch.backends.mha.set_fastpath_enabled(fast)
