"""The tape: every operation of one pass, so that q and k of a layer can be split into what each source brought.

q and k are followed back. What is linear (a sum, a projection, a view, a rotation) is done to each source on its own,
and where something is not, a source begins. A norm divides each token by a number of its own; that number is kept as it
was, which makes the norm linear as well. So the parts sum to q and to k, whatever the model is called.

The eye tells which operations are attention.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from headview.eye import OVER, PRODUCTS, TIMES, Eye, Op, Watching, in_parts, kernel_arguments, plain, role, tensors
from headview.step import Step, shared

SUMS = set("add add_ sub sub_ cat stack".split())  # linear in all of their tensors at once
VIEWS = set("view _unsafe_view reshape _reshape_alias".split())
MOVES = VIEWS | set(  # linear in their first tensor
    "clone _to_copy contiguous alias detach transpose permute t expand squeeze unsqueeze slice select split "
    "split_with_sizes unbind repeat flip roll neg sum mean index index_select gather constant_pad_nd".split()
)
NORMS = {"native_layer_norm", "_fused_rms_norm"}
LOST = {torch.float64: 1e-10, torch.float32: 1e-5}  # by rounding, of what the parts come to without their signs
SINGLE = {torch.float32, torch.complex64}  # in which many models compute norms, whatever else they compute in


@dataclass(eq=False)
class Node:
    """A tensor on the tape: a source with its `value` (or one for each of its `heads`), or `do` of other tensors."""

    name: str = ""
    value: Tensor | None = None
    heads: tuple[str, ...] = ()
    fixed: bool = False  # made of parameters and constants alone
    of: tuple["Node", ...] = ()  # what it was made of; where there is a `do`, that is linear in all of them
    do: Callable[..., Tensor] | None = None
    frozen: str = ""  # the module that divided here
    product: tuple["Node", ...] = ()  # two tensors neither of which is fixed: these may be q and k
    number: int = 0

    def parts(self, given: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return what each source has in this tensor, from what it has in those that it was made of."""
        if self.do is not None:
            like = [next(iter(parts.values())) for parts in given]
            return {
                name: self.do(*(p.get(name, torch.zeros_like(x)) for p, x in zip(given, like, strict=True)))
                for name in dict.fromkeys(name for parts in given for name in parts)
            }
        if not self.heads:
            return {self.name: self.value}
        cut = self.value.reshape(-1, len(self.heads), *self.value.shape[-2:])  # (B, h, T, d)
        alone = torch.eye(len(self.heads), dtype=cut.dtype, device=cut.device)[..., None, None]  # (h, h, 1, 1)
        return {name: (cut * alone[i]).reshape(self.value.shape) for i, name in enumerate(self.heads)}


@dataclass
class Call:
    """One step of attention, and its q and k on the tape."""

    step: Step
    pair: tuple[Node, ...]

    def split(self, sample: int, layer: int) -> tuple[list[str], Tensor, Tensor, tuple[str, ...]]:
        """Return the names of the sources, what each brings into q and k, (S, h, T, d), and what was frozen."""
        where = f"layer {layer} ({self.step.name!r})"
        if not self.pair or self.step.scale is None:
            raise ValueError(f"the scores of {where} are no multiple of q·k that could be followed; try another layer")
        linear, parts = before(*self.pair, stop=True), {}
        for node in linear:
            parts[node] = node.parts([parts[each] for each in node.of if node.do])
        single = not SINGLE.isdisjoint(x.dtype for those in parts.values() for x in those.values())
        begin = {name: node.number for node in reversed(linear) if not node.do for name in node.heads or [node.name]}
        names = sorted(begin, key=lambda name: (name == "biases", begin[name]))
        if not any(node.heads for node in linear) and any(node.heads for node in before(*self.pair)):
            raise ValueError(
                f"no head of the layers below is a source of {where}, only {', '.join(names)}: what they wrote goes "
                "through something that is neither a sum nor a norm; give a model whose layers add to what they got"
            )
        both = []
        for node, seen in zip(self.pair, (self.step.q, self.step.k), strict=True):
            one = min(sample, len(seen) - 1)  # keys may serve all samples
            flat, zero = [parts[node].get(name) for name in names], seen.new_zeros(seen.shape)
            turned = next(x for x in flat if x is not None).shape[-2:] != seen.shape[-2:]  # the keys of q @ k^T
            flat = [zero if x is None else (x.mT if turned else x).reshape(seen.shape) for x in flat]
            brought = torch.stack([x[one] for x in flat])  # (S, h, T, d)
            lost, size = (brought.sum(0) - seen[one]).abs().max(), brought.abs().sum(0).max()
            exact = torch.float32 if single and seen.dtype == torch.float64 else seen.dtype
            if not lost <= LOST.get(exact, 0.0) * size:
                raise ValueError(
                    f"the sources of {where} sum to its q and k only within {lost.item():.1e}, in {seen.dtype}; give "
                    "the model in float32 or float64 (model.float()), without autocast, and written without changes of "
                    "tensors in place"
                )
            both.append(shared(brought, self.step.shape[1]))
        return names, *both, tuple(dict.fromkeys(node.frozen for node in linear if node.frozen))


def before(*nodes: Node, stop: bool = False) -> list[Node]:
    """Return these and all that they were made of, each after its operands; `stop` at sources."""
    order: dict[Node, None] = {}
    todo = [(node, False) for node in nodes]
    while todo:
        node, done = todo.pop()
        if done:
            order.setdefault(node)
        elif node not in order:
            todo += [(node, True), *((each, False) for each in node.of if node.do or not stop)]
    return list(order)


class Tape(Watching):
    """Put every operation of one pass down as a node; `eye` says which are attention."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.eye = Eye(model, self._take)
        self.calls: list[Call] = []
        self._step: Step | None = None
        self._nodes: dict[tuple, Node] = {}
        self._alive: list[Tensor] = []  # so that no other tensor comes to lie where one has been
        learned = [(name, x) for name, x in model.named_parameters() if plain(x)]
        self._learned = {x.untyped_storage()._cdata: "biases" if x.ndim < 2 else short(name) for name, x in learned}
        self._bare = {name for name, module in model.named_modules() if next(module.parameters(), None) is None}

    def start(self, inputs: object) -> None:
        """Take the floating tensors that the model is given as a source."""
        for x in tree_leaves(inputs):
            if isinstance(x, Tensor) and x.is_floating_point():
                self._put(x, Node("input", x))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, fused = role(func)
        if parts := in_parts(func, types, args, kwargs):
            with self:
                return parts(*args, **kwargs)
        of = {id(x): self._node(x) for x in tensors(args, kwargs) if plain(x)}
        if name.endswith("_") and (first := of[id(args[0])]).value is not None:
            first.value = first.value.clone()  # it is about to be written over
        self._step = None
        out = func(*args, **kwargs)
        if self._step is not None:
            given = kernel_arguments(func, args, kwargs) if fused else {}
            pair = tuple(of[id(given[x])] for x in ("query", "key")) if fused else product(*of.values())
            self.calls.append(Call(self._step, pair))
            self._put(out[0] if fused else out, self._attention(out[0] if fused else out, self._step))
            return out
        for at, x in enumerate(out) if isinstance(out, (tuple, list)) else [(None, out)]:
            if isinstance(x, Tensor) and plain(x) and (x.is_floating_point() or x.is_complex()):
                self._put(x, self._made(Op(func, name, args, kwargs, out), of, x, at))
        return out

    def _take(self, step: Step) -> None:
        self._step = step

    def _put(self, x: Tensor, node: Node) -> None:
        node.number = len(self._alive)
        self._nodes[place(x)] = node
        self._alive.append(x)

    def _node(self, x: Tensor) -> Node:
        """Return the node of a tensor; one that nothing has made is a parameter or a constant."""
        name = self._learned.get(x.untyped_storage()._cdata, "constant")
        return self._nodes.get(place(x)) or Node(name, x, fixed=True)

    def _module(self) -> str:
        """Return the name of the innermost module at work that has parameters."""
        names = [frame.name for frame in self.eye._frames] or ["model"]
        return next((name for name in reversed(names) if name not in self._bare), names[0])

    def _attention(self, x: Tensor, step: Step) -> Node:
        """Return the node of what attention found: a source for each head, if it can be told which is which."""
        name, found = f"{len(self.calls) - 1}", None if step.weights is None else step.weights @ step.v
        told = x.ndim == 4 if found is None else x.numel() == found.numel() and torch.equal(x.view_as(found), found)
        return Node(f"attention {name}", x, tuple(f"head {name}.{i}" for i in range(step.shape[1])) if told else ())

    def _made(self, op: Op, of: dict[int, Node], x: Tensor, at: int | None) -> Node:
        """Return the node of what an operation made: linear in some of its operands, or a source."""
        operands = tuple(of.values())
        if all(node.fixed for node in operands):
            name = next((node.name for node in operands if node.name != "constant"), "constant")
            return Node(name, x, fixed=op.name != "embedding")
        linear, divides = self._linear(op, of)
        if not linear:
            first = PRODUCTS.get(op.name, len(op.args))
            return Node(self._module(), x, of=operands, product=tuple(of[id(y)] for y in op.args[first : first + 2]))
        slots, func = {id(each): i for i, each in enumerate(linear)}, op.func
        if op.name.endswith("_"):  # no part is to be written over
            func = getattr(getattr(torch.ops.aten, op.name[:-1]), func._overloadname)

        def again(*parts: Tensor) -> Tensor:
            if op.name in VIEWS:  # of a part, whose strides may be others
                return parts[0].reshape(x.shape)
            made = func(*tree_map(lambda y: parts[slots[id(y)]] if id(y) in slots else y, op.args), **op.kwargs)
            return made if at is None else made[at]

        def norm(part: Tensor, *bias: Tensor) -> Tensor:
            over = tuple(range(-len(op.args[1]), 0))
            part = part - part.mean(over, keepdim=True) if op.name == "native_layer_norm" else part
            return sum(bias, part * op.out[-1] * (1.0 if op.args[2] is None else op.args[2]))

        do = norm if op.name in NORMS else again
        return Node(of=tuple(of[id(each)] for each in linear), do=do, frozen=self._module() if divides else "")

    def _linear(self, op: Op, of: dict[int, Node]) -> tuple[list[Tensor], bool]:
        """Return the operands in which an operation is linear together, and whether it divides by a number seen."""
        name, args = op.name, op.args
        fixed = [not isinstance(x, Tensor) or of[id(x)].fixed for x in args] if name not in ("cat", "stack") else []
        first = PRODUCTS.get(name, 0)  # where the factors begin
        if name in SUMS and (not fixed or isinstance(args[1], Tensor)):
            return list(tensors(args, {})), False
        if name in MOVES:
            return [args[0]], False
        if name in NORMS:
            return [args[0], *(x for x in args[3:4] if isinstance(x, Tensor))], True
        if (name in PRODUCTS or name == "convolution") and any(fixed[first : first + 2]):
            bias = args[2:3] if name == "convolution" else args[:first]
            return [*(x for x in bias if isinstance(x, Tensor)), args[first + fixed[first]]], False
        if name in TIMES | OVER:
            for i in (0, 1) if name in TIMES else (0,):
                x, by = args[i], args[1 - i]
                if not fixed[i] and (fixed[1 - i] or by.ndim == 0 or by.shape[-1] == 1 < x.shape[-1]):
                    return [x], not fixed[1 - i]
        return [], False


def place(x: Tensor) -> tuple:
    """Return what tells a tensor from all others that are alive: where it lies, and how."""
    return x.untyped_storage()._cdata, x.storage_offset(), x.shape, x.stride(), x.dtype


def product(*nodes: Node) -> tuple[Node, ...]:
    """Return q and k: the operands of the nearest product of two tensors that these were made of."""
    todo = dict.fromkeys(nodes)
    while todo:
        if found := next((node.product for node in todo if node.product), None):
            return found
        todo = dict.fromkeys(each for node in todo for each in node.of)
    return ()


def short(name: str) -> str:
    """Return the name of a parameter as that of a source: "token_embedding.weight" is "token"."""
    last = name.removesuffix(".weight").rpartition(".")[2]
    return last.removesuffix("_embeddings").removesuffix("_embedding")
