"""How a layer is called, found out by its signature and by trying: what runs, and gives an output, is the call.

Names say what to try first. Which mask is meant in which way is not decided here: `masks` sees what each form does.
"""

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.calling import AXES, ROLES, Adapted, Mask, adapt, parts, signature_of, turned_back
from attention_doctor.docs import docs_of
from attention_doctor.patient import Crash, Patient, on_the_table

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only
MOST = 200  # ways that are tried for each number of tokens
KINDS = ("allowed", "blocked", "float01", "additive")


def find_call(
    target: Callable, d_model: int | None, num_heads: int | None, head_dim: int | None, module: nn.Module | None
) -> tuple[Adapted, int, list[str]]:
    """Return how a layer or function wants to be called, its features, and what is uncertain, a sentence each.

    Raises:
        TypeError: no way of calling it was found.
        ValueError: the number of features cannot be seen.
    """
    if isinstance(target, nn.MultiheadAttention):
        return _torch(target), d_model or target.embed_dim, []
    with on_the_table(Adapted(target), module) as (twin, inner):
        sizes = [d_model] if d_model else widths(inner)
        if not sizes:
            raise ValueError("the number of features cannot be seen in a function; give d_model=...")
        first = None
        for size in sizes:
            trials = _Trials(twin.target, inner, size, num_heads, head_dim or max(1, size // (num_heads or 4)))
            found = trials.found()
            if found is not None:
                notes = trials.notes
                return replace(found, target=target), size, notes
            first = first or trials
    return _refused(target, first, sizes[0]), sizes[0], []


def _torch(target: nn.MultiheadAttention) -> Adapted:
    call = adapt(target, "torch")
    return replace(call, masks={**call.masks, "key_padding_mask": [Mask("key_padding_mask", "blocked", 2, "keys")]})


class _Unmerged(Exception):
    """All numbers of the output are there, in another shape."""


class _Trials:
    """Tries to call one layer with tokens of one width."""

    def __init__(self, target: Callable, module: nn.Module | None, d_model: int, num_heads: int | None, head_dim: int):
        self.target, self.module, self.d_model = target, module, d_model
        self.num_heads, self.head_dim, self.unused = num_heads, head_dim, target
        with suppress(Exception):  # what cannot be copied is tried as it is
            self.unused = copy.deepcopy(target)
        signature = signature_of(target)
        named = [] if signature is None else signature.parameters.values()
        self.named = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.inputs = self._inputs()
        self.error: Exception | None = None
        self.notes: list[str] = []

    # ------------------------------------------------------------------------------------------- by the signature

    def _inputs(self) -> list[tuple[str, inspect.Parameter]]:
        """Return role and parameter of each input, in their order."""
        found = [("queries", p) for p in self.named[:1]]
        roles = [names.role_of(p.name) for p in self.named]
        asked = bool(roles) and roles[0] is not None
        for p, role in zip(self.named[1:], roles[1:], strict=True):
            needed = p.default is p.empty
            if role is None or self._is_mask(p) or len(found) == 3:
                if needed:
                    continue
                break
            if needed or (asked and p.default is None and role in ("keys", "values")):
                found.append((role, p))
        if len(found) > 1 and "queries" in [role for role, _ in found[1:]]:  # the tokens stand further back
            first = roles[0] if roles[0] in ("keys", "values") else "context"
            found[0] = first, found[0][1]
        of = [role for role, _ in found]
        if len(found) == 2 and of[0] == "queries":
            found[1] = "context", found[1][1]
        if len(found) == 3 and sorted(of) != ["keys", "queries", "values"]:
            found = [(role, p) for role, (_, p) in zip(ROLES["qkv"], found, strict=True)]
        return found

    def _is_mask(self, p: inspect.Parameter) -> bool:
        name = p.name.lower()
        if isinstance(p.default, (bool, str, int, float)) or p.annotation in (bool, int, float, "bool", "int"):
            return False  # a flag such as `mask=False` is none
        others = any(names.role_of(q.name) in ("context", "keys") for q in self.named[1:])
        if others and names.OF_OTHERS.search(name):
            return True
        return bool(names.MASK.search(name) and not names.NO_MASK.search(name))

    @property
    def our_form(self) -> bool:
        """Whether it is a function `attend(x, mask)`, in which True = may attend, as in `mhalib`."""
        return not isinstance(self.target, nn.Module) and [p.name for p in self.named][1:] == ["mask"]

    @property
    def masks(self) -> list[inspect.Parameter]:
        """The arguments that may be masks."""
        taken = [p for _, p in self.inputs]
        return [p for p in self.named if p not in taken and self._is_mask(p)]

    def _rest(self) -> Iterator[tuple[list[tuple[str, inspect.Parameter]], dict[str, object], bool]]:
        """Yield inputs, further arguments, and whether an input is a guess, the likelier first."""
        taken = [p for _, p in self.inputs] + self.masks
        needed = [p for p in self.named if p not in taken and p.default is p.empty]
        optional = [p for p in self.named if p not in taken and (p.default is None or isinstance(p.default, Tensor))]
        known = {p.name: self._values(p) for p in needed}
        guessed = [p for p in needed if not known[p.name]]
        inputs = self.inputs
        if len(guessed) > 2:
            return
        if guessed and len(inputs) == 1 and len(guessed) == 1:  # perhaps other tokens
            for filled in self._filled([*inputs, ("context", guessed[0])], known, needed, optional):
                yield (*filled, True)
        known |= {p.name: names.ANYTHING for p in guessed}
        yield from ((*filled, False) for filled in self._filled(inputs, known, needed, optional))
        for p in optional if len(inputs) == 1 else ():  # a context of other features, which cannot be left out
            if names.role_of(p.name) == "context":
                yield from ((*filled, False) for filled in self._filled([*inputs, ("context", p)], known, needed, []))

    def _filled(self, inputs: list, known: dict, needed: list, optional: list) -> Iterator[tuple[list, dict]]:
        """Yield these inputs with each filling of the further arguments."""
        known = {name: values for name, values in known.items() if values}
        # As many of the features of a head as are turned: all, a half, a quarter.
        angles = [p for p in optional if any("outer" in getattr(v, "text", "") for v in names.further(p.name, 8))]
        places = [p for p in optional if names.PLACES.search(p.name)]
        for more in ([], angles, places, angles + places) if angles or places else ([],):
            for head_dim in self._turned_features():
                tried = known | {p.name: names.further(p.name, max(2, head_dim)) for p in more}
                tried |= {p.name: self._values(p, max(2, head_dim)) or tried[p.name] for p in needed if p.name in known}
                for values in product(*tried.values()):
                    yield inputs, dict(zip(tried, values, strict=True))
                if not any("outer" in getattr(v, "text", "") for values in tried.values() for v in values):
                    break

    def _turned_features(self) -> list[int]:
        """Return how many features of a head may be turned: as many as a layer says, all, a half, a quarter."""
        said = [] if self.module is None else [
            v for m in self.module.modules() for name, v in vars(m).items()
            if isinstance(v, int) and ("rope" in name or name == "head_dim")
        ]  # fmt: skip
        return list(dict.fromkeys([self.head_dim, *said, self.head_dim // 2, self.head_dim // 4]))

    def _values(self, p: inspect.Parameter, head_dim: int | None = None) -> tuple:
        tried = names.further(p.name, head_dim or self.head_dim)
        if not tried and p.annotation in (bool, "bool"):
            return (False,)
        optional = "None" in str(p.annotation) or "Optional" in str(p.annotation)
        return tried or ((None,) if optional else ())

    # -------------------------------------------------------------------------------------------------- by trying

    def found(self) -> Adapted | None:
        """Return the first call that runs and gives an output; None where none does."""
        for T in LENGTHS:
            for form in islice(self._forms(T), MOST):
                picked = self._picked(form, T)
                if picked is None or (form.guessed and not self._all_used(picked, T)):
                    continue
                form = replace(picked, lengths=self._lengths(picked, T))
                if form.axes == "B T d" and self._time_first(form, T) and docs_of(self.target).first != "batch":
                    form = replace(form, axes="T B d")
                    if getattr(self.target, "batch_first", None) is not False:
                        self.notes.append(
                            "tokens meet along the first axis: taken for (T, B, d_model); if x is (B, T, d_model), say "
                            "axes='B T d', and it mixes samples"
                        )
                forms = {p.name: self._mask_forms(p, form) for p in self.masks}
                if self.our_form:
                    forms = {"mask": [form for form in forms["mask"] if form.kind == "allowed"]}
                    form = replace(form, stated=True)
                return replace(form, masks=forms)
            if T == LENGTHS[2] and not _by_length(self.error):
                return None  # no other number of tokens mends this
        return None

    def _forms(self, T: int) -> Iterator[Adapted]:
        required = [p for p in self.masks if p.default is p.empty]
        stages = (False, True) if required else (False,)
        rest = list(islice(self._rest(), 16))
        # No shape tells "T B d" from "B T d", but for a mask that is wanted for each sample.
        layouts = [(stage, axes) for stage in stages for axes in AXES if stage or axes != "T B d"]
        for (masked, axes), (inputs, also, guessed) in product(layouts, rest):
            words = [(role, p.name if p.kind is p.KEYWORD_ONLY else None) for role, p in inputs]
            gap = [i for i, p in enumerate(self.named) if p in [q for _, q in inputs]] != [*range(len(inputs))]
            if gap:  # what stands between them goes by name
                words = [(role, p.name) for role, p in inputs]
            form = Adapted(self.target, tuple(words), None, {}, axes, None, also=also, guessed=guessed)
            if not masked:  # those that have no default may be None all the same
                form.also = {**also, **dict.fromkeys(p.name for p in required)}
            usual = [self._usual_forms(p, form) for p in required] if masked else []
            for given in product(*usual):
                whole = replace(form, mask=given[0] if given else None)
                whole.also = {**form.also, **{m.name: m.open for m in given[1:]}}
                others = [w for w in widths(self.module)[:4] if w != self.d_model] if len(inputs) > 1 else []
                yield whole
                yield from (replace(whole, widths=(self.d_model, *[w] * (len(inputs) - 1))) for w in others)
                yield from (replace(whole, widths=(w, *[self.d_model] * (len(inputs) - 1))) for w in others)

    def _usual_forms(self, p: inspect.Parameter, form: Adapted) -> list[Mask]:
        """Return a few forms of a mask that hides nothing, for a layer that cannot do without one."""
        forms = [replace(mask, always=True) for mask in self._mask_forms(p, form)]
        return [mask for mask in forms if mask.kind in ("allowed", "additive", "lengths", "float01")][:14]

    def _mask_forms(self, p: inspect.Parameter, form: Adapted) -> list[Mask]:
        """Return the forms of a mask to try, the likelier first."""
        base = Mask(p.name)
        lengths = [replace(base, kind="lengths", rank=rank) for rank in (2, 1)] if "len" in p.name else []
        lengths += [replace(form, left=True) for form in lengths]
        if lengths and "mask" not in p.name:
            return lengths
        ranks = [replace(base, rank=rank) for rank in ((3, 4, 2) if form.axes != "T d" else (2, 3))]
        folded = [replace(base, folded=self.num_heads)] if (self.num_heads or 1) > 1 else []
        keys = [replace(base, rank=rank, over="keys") for rank in (2, 3, 4)]
        first = [*keys, *ranks] if "pad" in p.name or "key" in p.name else [*ranks, *folded, *keys]
        return [*lengths, *(replace(mask, kind=kind) for mask in first for kind in KINDS)]

    def _tokens(self, form: Adapted, batch: int, T: int, seed: int = 3) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        wide = form.widths or [self.d_model] * len(form.inputs)
        parameters = () if self.module is None else self.module.parameters()
        kind = next((p for p in parameters if p.is_floating_point()), torch.zeros(()))
        return [
            (torch.randn(1, 1, w, generator=generator) + 0.5 * torch.randn(batch, T, w, generator=generator)).to(
                kind.device, kind.dtype
            )
            for w in wide
        ]

    def _answer(self, form: Adapted, inputs: list[Tensor]) -> object:
        """Return whatever the layer returns, or what it raised."""
        with Patient.quietly(), torch.no_grad():
            try:
                if form.axes == "T d":
                    inputs = [x[:1] for x in inputs]
                return form.result([x.clone() for x in inputs])
            except Exception as error:
                return error

    def _picked(self, form: Adapted, T: int) -> Adapted | None:
        """Return the form with the part of the result that is the output; None where none may be."""
        batch, shapes = 2 if self.num_heads == 3 else 3, {}
        for tokens in (T, T + 2):
            result = self._answer(form, self._tokens(form, batch, tokens))
            if isinstance(result, Exception):
                if tokens == T:
                    self.error = self.error or result
                break  # a layer of one number of tokens
            for output, part in parts(result):
                if isinstance(part, Tensor) and part.is_floating_point():
                    out = turned_back(part, form.axes)
                    shapes.setdefault(output, []).append((tuple(out.shape), tokens))
        many = 1 if form.axes == "T d" else batch
        whole = {o: s[0][0][-1] for o, s in shapes.items() if all(len(x) == 3 and x[:2] == (many, n) for x, n in s)}
        whole = {o: w for o, w in whole.items() if len({x[-1] for x, _ in shapes[o]}) == 1}
        pooled = {
            o: s[0][0][-1] for o, s in shapes.items() if len({x for x, _ in s}) == 1 and _is_pooled(s[0][0], many, T)
        }
        fitting = whole or (pooled if form.axes in ("B T d", "B d T", "B d H W", "B H W d") and len(shapes) else {})
        if not fitting:
            sizes = [torch.Size(s[0][0]).numel() for s in shapes.values()]
            if sizes == [many * T * self.d_model] and len(next(iter(shapes.values()))[0][0]) > 3:
                self.error = _Unmerged("the heads are not merged")
            elif not self.error and shapes:
                self.error = ValueError(f"x gave {', '.join(str(s[0][0]) for s in shapes.values())}")
            return None
        best = min(fitting, key=lambda o: (fitting[o] != self.d_model, list(fitting).index(o)))
        usual = best in (None, 0) and best == next(iter(shapes))
        return replace(form, output=None if usual else best, pooled=not whole)

    def _all_used(self, form: Adapted, T: int) -> bool:
        """Whether the output changes with each of the inputs: one that was guessed to be tokens may be none."""
        inputs = self._tokens(form, 2, T)
        before = self._answer(form, inputs)
        for i in range(len(inputs)):
            other = [x.roll(1, -1) if i == j else x for j, x in enumerate(inputs)]
            after = self._answer(form, other)
            tensors = [[p for _, p in parts(r) if isinstance(p, Tensor)] for r in (before, after)]
            if all(torch.equal(a, b) for a, b in zip(*tensors, strict=False)):
                return False
        return True

    def _lengths(self, form: Adapted, T: int) -> tuple[int, ...]:
        """Return the only numbers of tokens that it takes, where that is its design; () where it takes any."""

        def runs(n: int) -> bool:
            with suppress(Exception):  # as new: what it kept of another length is no limit
                fresh = replace(form, target=copy.deepcopy(self.unused))
                return not isinstance(self._answer(fresh, self._tokens(form, 2, n)), Exception)
            return True

        if runs(3) and runs(T + 2) and runs(7):
            return ()
        ran = tuple(n for n in dict.fromkeys((*range(1, 13), T)) if runs(n)) or (T,)
        if len(ran) > 10 or set(ran) == set(range(1, max(ran) + 1)):  # all, or all up to a longest
            return ()
        by_chance = ran == (T,) and T in (self.head_dim, self.num_heads, self.d_model)
        return () if by_chance or self.module is None else ran

    def _time_first(self, form: Adapted, T: int) -> bool:
        """Whether tokens meet along the first axis of x and along no other, as in a layer for (T, B, d_model)."""
        x = self._tokens(form, 2 if self.num_heads == 3 else 3, T)
        changed = [one.clone() for one in x]
        for one, other in zip(changed, self._tokens(form, 1, 1, 4), strict=True):
            one[0, 0] += other[0, 0]
        try:
            before, after = (_output(form, self._answer(form, inputs)) for inputs in (x, changed))
            moved = (after - before).abs().amax(-1) > 1e-6 * before.abs().max()  # (B, T)
        except (Crash, RuntimeError, IndexError):
            return False
        return moved.ndim == 2 and bool(moved[1:, 0].any() and not moved[0, 1:].any() and not moved[1:, 1:].any())


def _output(form: Adapted, result: object) -> Tensor:
    if isinstance(result, Exception):
        raise Crash(str(result))
    return (
        dict(parts(result))[form.output]
        if form.output is not None
        else next(p for _, p in parts(result) if isinstance(p, Tensor))
    )


def _is_pooled(shape: tuple[int, ...], batch: int, T: int) -> bool:
    return shape[0] == batch and (len(shape) == 2 or (len(shape) == 3 and shape[1] != T))


def _by_length(error: Exception | None) -> bool:
    """Whether an error may come from the number of tokens: it speaks of sizes."""
    return error is None or any(
        w in str(error) for w in ("size", "shape", "length", "divisible", "index", "expected", "must")
    )


def _refused(target: Callable, trials: _Trials, d_model: int) -> Adapted:
    """Return the usual call of a layer that is known to fit, for the probes to show what it raises; else ask."""
    name = getattr(target, "__name__", type(target).__name__)
    wanted = ", ".join(p.name for p in trials.named)
    unknown = [p.name for p in trials.named if p.default is p.empty and not trials._values(p)]
    unknown = [n for n in unknown if n not in [p.name for _, p in trials.inputs] + [p.name for p in trials.masks]]
    if unknown:
        missing = ", ".join(f"{name!r}: ..." for name in unknown)
        raise TypeError(
            f"expected attend(x, mask=None), got {name}({wanted}), and nothing is known of {', '.join(unknown)}; say "
            f"adapt(layer, also={{{missing}}}), or wrap it, for example as lambda x, mask=None: layer(x, ..., mask)"
        )
    error = trials.error
    said = f"{type(error).__name__}: {error}".splitlines()[0] if error else "no tensor with one output for each token"
    if not (trials.our_form or isinstance(error, _Unmerged)):
        raise TypeError(
            f"no way of calling {name}({wanted}) was found; with tokens (B, T, {d_model}) it raised {said}. Say how it "
            "is called with adapt(...), or wrap it: lambda x, mask=None: layer(x, ..., mask)"
        )
    forms = {p.name: [Mask(p.name)] for p in trials.masks}
    return Adapted(target, masks=forms)


# ----------------------------------------------------------------------------------------------------------- sizes


def widths(module: nn.Module | None) -> list[int]:
    """Return the numbers of features that a layer may take, the likelier first."""
    if module is None:
        return []
    said = [value for name in names.D_MODEL for value in _values(module, name) if isinstance(value, int)]
    linear = [m.in_features for m in module.modules() if isinstance(m, nn.Linear)]
    shapes = [size for p in module.parameters() for size in p.shape]
    order = [*linear[:1], *said, *(size for size, _ in Counter(linear).most_common()), *shapes]
    return [size for size in dict.fromkeys(order) if 1 < size <= 8192][:8]


def heads_stated(module: nn.Module | None) -> int | None:
    """Return how many heads the layer itself says that it has; None where it does not say."""
    found = [] if module is None else [v for name in names.NUM_HEADS for v in _values(module, name)]
    return next((v for v in found if isinstance(v, int) and not isinstance(v, bool) and 0 < v <= 1024), None)


def _values(module: nn.Module, name: str) -> list[object]:
    """Return what a module, its config, or its only child says under a name."""
    inner = list(module.children())
    owners = [module, *(getattr(module, config, None) for config in ("config", "cfg", "args"))]
    owners += inner if len(inner) == 1 else []
    return [o.get(name) if isinstance(o, dict) else getattr(o, name, None) for o in owners if o is not None]
