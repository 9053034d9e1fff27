"""How a layer is called, written as code that runs without mhalib: inputs, masks, the call.

`adapt` calls a layer for the doctor; here the same call is text, in the layer's own terms, for those who have only the
layer. Nothing is called here.
"""

import inspect

import torch
from torch import nn

from attention_doctor.examples.case import Case, making, owner, pick_in_words

LITERALS = (bool, int, float, str, type(None))

# Of each kind of mask that the examples use: who sees whom, in words and, for T tokens, as an expression (T, T).
PAIRS = {
    "own": ("each token sees itself alone", "torch.eye({T}, dtype=torch.bool)"),
    "causal": ("each token sees itself and those before it", "torch.ones({T}, {T}, dtype=torch.bool).tril()"),
    "first": ("all see token 0 alone", "(torch.arange({T}) < 1).repeat({T}, 1)"),
    "short": ("the last token is hidden from all", "(torch.arange({T}) < {n}).repeat({T}, 1)"),
    "all": ("nothing is hidden", "torch.ones({T}, {T}, dtype=torch.bool)"),
}
SEEN_KEYS = {"first": "1", "short": "{n}", "all": "{T}"}  # where all queries see the same first keys: how many


class Wording:
    """A case in code: every method returns an expression or lines.

    Args:
        case: the layer.
        result: what a call of it returned, or None where it raised; it says how the output is picked.
        copies: whether every call is given copies, because the layer writes into what it gets.
    """

    def __init__(self, case: Case, result: object, copies: bool = False):
        attend = case.attend
        self.case, self.copies = case, copies
        self.kind = attend.mask
        self.over_keys = attend.masks == "keys"
        self.order = getattr(attend, "axes", "") or ("B T d" if attend.batch_first else "T B d")
        self.batched = "B" in self.order
        self.also = dict(getattr(attend, "also", None) or {})
        self.tail = pick_in_words(result, attend.output)
        self.method = attend.target.__name__ if attend.target is not owner(attend.target) else ""
        self.uniform = self.kind == "lengths" or self.over_keys

    # ------------------------------------------------------------------------------------------------------- the layer

    def making(self) -> list[str]:
        """Return the lines that import torch and make the layer, which is all that a reader has to fill in."""
        lines = ["import torch", *making(owner(self.case.attend.target), self.case)]
        return [*lines, *(f"{name} = ...  # as you make it" for name in self.handed_over())]

    def handed_over(self) -> dict[str, object]:
        """Return the further arguments of the call that cannot be written down as code, by name."""
        return {n: it for n, it in self.also.items() if not isinstance(it, LITERALS) and not hasattr(it, "text")}

    def start(self) -> list[str]:
        """Return the lines that come next: further arguments that depend on x, and the seed."""
        lines = [""]
        for name, value in self.also.items():
            if hasattr(value, "text"):
                lines += [f"def {name}(x):  # x (B, T, d_model)", *_returning(value.text), ""]
        return [*lines, "g = torch.Generator().manual_seed(0)"]

    def call(self, x: str, mask: str | None = None, *, B: object = 1, T: object = 2) -> str:
        """Return the call on `x`; without a mask as the layer takes that, for `B` samples of `T` tokens."""
        attend = self.case.attend
        if mask is None and self.kind and (self.case.needs_mask or getattr(attend, "mask_always", False)):
            mask = self.mask("all", B, T)
        x = f"{x}.clone()" if self.copies else x
        args = [x] * {"plain": 1, "cross": 2}.get(attend.convention, 3)
        left_out = mask is None and (attend.mask_name in self.also or self._mask_may_be_left_out(len(args)))
        further = {name: self._argument(name, x) for name in self.also}
        if self.kind is not None and not left_out:
            given = f"{mask}.clone()" if self.copies and mask is not None else str(mask)
            if attend.mask_name is None:
                args.append(given)
            else:
                further = {attend.mask_name: given} | {n: it for n, it in further.items() if n != attend.mask_name}
        further |= {"need_weights": "False"} if attend.convention == "torch" else {}
        args += [f"{name}={value}" for name, value in further.items()]
        return f"layer{'.' * bool(self.method)}{self.method}({', '.join(args)}){self.tail}"

    def _argument(self, name: str, x: str) -> str:
        value = self.also[name]
        if isinstance(value, LITERALS):
            return repr(value)
        turned = {"T B d": ".transpose(0, 1)", "B d T": ".mT", "B d H W": ".flatten(2).mT", "T d": "[None]"}
        return f"{name}({x}{turned.get(self.order, '')})" if callable(value) else name

    def _mask_may_be_left_out(self, inputs: int) -> bool:
        target = self.case.attend.target
        try:
            signature = inspect.signature(target.forward if isinstance(target, nn.Module) else target)
            signature.bind(*[None] * inputs, **self.also)
        except (TypeError, ValueError):
            return False
        name = self.case.attend.mask_name
        left = list(signature.parameters.values())[inputs:] if name is None else [signature.parameters.get(name)]
        return bool(left) and left[0] is not None and left[0].default is None

    # ---------------------------------------------------------------------------------------------------------- inputs

    def draw(self, B: object, T: object, scale: str = "") -> str:
        """Return an expression for random tokens, in the axes that the layer takes."""
        return f"{scale}torch.randn({self.shape(B, T)}, {self._numbers()}generator=g){self.on()}"

    def token(self, scale: str = "") -> str:
        """Return an expression for one random token `(d_model,)`."""
        return f"{scale}torch.randn({self.case.d_model}, {self._numbers()}generator=g){self.on()}"

    def _numbers(self) -> str:
        return "" if self.case.dtype == torch.float32 else f"dtype={self.case.dtype}, "

    def on(self) -> str:
        """Return what brings a tensor to the device of the layer."""
        return "" if self.case.device.type == "cpu" else f'.to("{self.case.device}")'

    def shape(self, B: object, T: object) -> str:
        """Return the shape of the input as arguments."""
        sizes = {"B": B, "T": T, "d": self.case.d_model, "H": 1, "W": T}  # a picture of one row
        return ", ".join(str(sizes[axis]) for axis in self.order.split())

    @property
    def axes(self) -> str:
        """The axes of the input, in words."""
        return "(" + self.order.replace(" ", ", ").replace("d", "d_model") + ")"

    @property
    def time(self) -> int:
        """Which axis is the tokens."""
        return self.order.split().index("W" if "W" in self.order else "T")

    def at(self, name: str, b: object, t: object = ":") -> str:
        """Return what `name` holds for sample b and token t."""
        row = ":" if ":" in str(t) else "0"
        places = {"B": str(b), "T": str(t), "d": ":", "H": row, "W": str(t)}
        index = [places[axis] for axis in self.order.split()]
        while index[-1] == ":" and len(index) > 1:
            index.pop()
        return f"{name}[{', '.join(index)}]"

    # ----------------------------------------------------------------------------------------------------------- masks

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of masks that the layer can be given."""
        return () if self.kind is None else ("first", "short") if self.uniform else ("own", "causal", "first", "short")

    def shows(self, kind: str, t: int, j: int, T: int) -> bool:
        """Whether a mask of this kind lets query t see key j."""
        return {"own": j == t, "causal": j <= t, "first": j == 0, "short": j < T - 1, "all": True}[kind]

    def says(self, kind: str) -> str:
        """Return what a mask of this kind is, in words."""
        return PAIRS[kind][0]

    def mask(self, kind: str, B: object, T: object, ndim: int | None = None) -> str:
        """Return an expression for a mask, the same for all samples, in the form that the layer takes."""
        keys = SEEN_KEYS.get(kind, "").format(T=T, n=_less(T))
        if self.kind == "lengths":
            full = f"({B},)" if self.case.attend.mask_rank == 1 else f"({B}, {T})"
            return f"torch.full({full}, {keys}){self.on()}"
        if self.over_keys:
            return self.native(f"(torch.arange({T}) < {keys})", B, T, "keys")
        return self.native(PAIRS[kind][1].format(T=T, n=_less(T)), B, T, "shared", ndim)

    def native(self, allowed: str, B: object, T: object, of: str, ndim: int | None = None) -> str:
        """Return a boolean expression, True = may attend, in the form that the layer takes.

        `of` says what it holds: "shared" `(T, T)`, "keys" `(T,)`, "each" one per sample, `(B, T, T)` or `(B, T)`.
        """
        allowed += self._axes_for(of, B, ndim)
        if self.kind == "blocked":
            allowed = f"~{allowed}"
        if self.kind == "float01":
            allowed += f".to({self.case.dtype})"
        if self.kind == "additive":
            number = "" if self.case.dtype == torch.float32 else f", dtype={self.case.dtype}"
            return (
                f"torch.zeros({self._shape_of_mask(B, T, ndim)}{number}).masked_fill(~{allowed}, -torch.inf){self.on()}"
            )
        return f"({allowed}){self.on()}" if self.on() and self.kind == "blocked" else allowed + self.on()

    def _rank(self, ndim: int | None) -> int:
        attend = self.case.attend
        if not self.batched and not self.over_keys:
            return 2
        if self.over_keys and getattr(attend, "mask_over", "pairs") != "keys":
            return 2
        if self.over_keys or (attend.declared and (attend.convention != "torch" or attend.mask_rank == 2)):
            return attend.mask_rank
        return ndim or self.case.mask_ndim

    def _axes_for(self, of: str, B: object, ndim: int | None) -> str:
        """Return what makes a mask of the rank that is taken out of one `(T, T)`, or out of one for each sample."""
        rank, heads = self._rank(ndim), self._heads
        if of == "each":
            if self.over_keys:
                return {2: "", 3: "[:, None]", 4: "[:, None, None]"}[rank]
            return f".repeat_interleave({heads}, 0)" if heads and rank == 3 else "[:, None]" if rank == 4 else ""
        more = rank - (1 if of == "keys" else 2)  # axes
        if not more:
            return ""
        if B == 1 and not heads:
            return f"[{', '.join(['None'] * more)}]"
        return f".repeat({B if not heads else f'{B} * {heads}'}, {'1, ' * (rank - 2)}1)"

    def _shape_of_mask(self, B: object, T: object, ndim: int | None) -> str:
        rank, heads = self._rank(ndim), self._heads
        if self.over_keys:
            return ", ".join([str(B), *["1"] * (rank - 2), str(T)]) if rank > 1 else str(T)
        first = [] if rank == 2 else [str(B) if not heads else f"{B} * {heads}"] + ["1"] * (rank - 3)
        return ", ".join([*first, str(T), str(T)])

    @property
    def _heads(self) -> int:
        attend = self.case.attend
        return attend.target.num_heads if attend.convention == "torch" and self._rank(3) != 2 else 0

    def mask_axes(self, ndim: int | None = None) -> str:
        """Return the axes of a mask in words, followed by a comma; "" for lengths."""
        if self.kind == "lengths":
            return ""
        if self.over_keys:
            return {2: "(B, T), ", 3: "(B, 1, T), ", 4: "(B, 1, 1, T), "}[self._rank(ndim)]
        first = f"B * {self._heads}" if self._heads else "B"
        return {2: "(T, T), ", 3: f"({first}, T, T), ", 4: "(B, 1, T, T), "}[self._rank(ndim)]

    @property
    def form(self) -> str:
        """What a mask of this layer looks like, in words."""
        if self.kind == "lengths":
            return "how many keys each sample sees"
        polarity = {"allowed": "True = may attend", "blocked": "True = hidden", "additive": "added to the scores"}
        return polarity.get(self.kind, "1 = may attend")


def _returning(text: str) -> list[str]:
    """Return the body of a function that returns an expression, in lines that are not too long."""
    if len(text) < 100:
        return [f"    return {text}"]
    return ["    return (", *(f"        {row}" for row in _rows(text)), "    )"]


def _rows(text: str) -> list[str]:
    rows = [""]
    for word in text.split(" "):
        if len(rows[-1]) + len(word) > 100:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return rows


def _less(T: object) -> object:
    """Return one less than T, which is a number or a name."""
    return T - 1 if isinstance(T, int) else f"{T} - 1"
