"""How a layer is called, found out by its signature and by trying: what runs, and gives an output, is the call.

Each way of calling is a record, an `Adapted`; they are tried in order, the likelier first. Names say what to try. Which
mask is meant in which way is not decided here: `masks` sees what each form does.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.calling import AXES, Adapted, Mask, adapt, parts, signature_of, turned_back
from attention_doctor.patient import Crash, Patient, on_the_table

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only
MOST = 200  # ways that are tried for each number of tokens
KINDS = ("allowed", "blocked", "float01", "additive")
OF_LENGTH = ("size", "shape", "length", "divisible", "index", "expected", "must")  # so errors speak of it
TIME_FIRST = "tokens meet along the first axis: taken for (T, B, d_model); if x is (B, T, d_model), say axes='B T d', "
TIME_FIRST += "and it mixes samples"
WRAP = "or wrap it: lambda x, mask=None: layer(x, ..., mask)"

Inputs = list[tuple[str, inspect.Parameter]]  # role and parameter


def find_call(
    target: Callable, sizes: list[int], num_heads: int | None, head_dim: int | None, module: nn.Module | None
) -> tuple[Adapted, int, list[str]]:
    """Return how a layer or function wants to be called, its features, and what is uncertain, a sentence each.

    Raises:
        TypeError: no way of calling it was found.
    """
    if isinstance(target, nn.MultiheadAttention):
        call = adapt(target, "torch")
        call.masks["key_padding_mask"] = [Mask("key_padding_mask", "blocked", 2, "keys")]
        return call, target.embed_dim, []
    with on_the_table(Adapted(target), module) as (twin, inner):
        searches = []
        for size in sizes:
            head = head_dim or max(1, size // (num_heads or 4))
            searches.append(search := _Search(Patient(twin, inner, size, num_heads, head)))
            if (found := search.found()) is not None:
                return replace(found, target=target), size, search.notes
    return searches[0].refused(target), sizes[0], []


class _Search:
    """Tries to call one layer with tokens of one width."""

    def __init__(self, patient: Patient):
        self.patient, self.module, target = patient, patient.module, patient.call.target
        self.d_model, self.num_heads, self.head_dim = patient.d_model, patient.num_heads, patient.head_dim
        signature = signature_of(target)
        named = [] if signature is None else signature.parameters.values()
        self.named = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.inputs = self._inputs()
        self.masks = [p for p in self.named if p not in [q for _, q in self.inputs] and self._is_mask(p)]
        # A function attend(x, mask), in which True = may attend, as in mhalib.
        self.our_form = not isinstance(target, nn.Module) and [p.name for p in self.named][1:] == ["mask"]
        self.unmerged, self.error, self.notes = False, None, []

    # ------------------------------------------------------------------------------------------- by the signature

    def _inputs(self) -> Inputs:
        """Return role and parameter of each input, in their order."""
        found = [("queries", p) for p in self.named[:1]]
        roles = [names.role_of(p.name) for p in self.named]
        for p, role in zip(self.named[1:], roles[1:], strict=True):
            needed = p.default is p.empty
            optional = roles[0] is not None and p.default is None and role in ("keys", "values")
            if role is not None and not self._is_mask(p) and len(found) < 3:
                found += [(role, p)] if needed or optional else []
            elif not needed:
                break
        of = [role for role, _ in found]
        if "queries" in of[1:]:  # the tokens are further back
            found[0] = roles[0] if roles[0] in ("keys", "values") else "context", found[0][1]
        elif len(found) == 2:
            found[1] = "context", found[1][1]
        return found

    def _is_mask(self, p: inspect.Parameter) -> bool:
        name = p.name.lower()
        if isinstance(p.default, (bool, str, int, float)) or p.annotation in (bool, int, float, "bool", "int"):
            return False  # a flag such as `mask=False` is none
        others = any(names.role_of(q.name) in ("context", "keys") for q in self.named[1:])
        of_others = others and names.OF_OTHERS.search(name)
        return bool(of_others or (names.MASK.search(name) and not names.NO_MASK.search(name)))

    def _rest(self) -> Iterator[tuple[Inputs, dict[str, object], bool]]:
        """Yield inputs, further arguments, and whether an input is a guess, the likelier first."""
        others = [p for p in self.named if p not in [q for _, q in self.inputs] + self.masks]
        needed = [p for p in others if p.default is p.empty]
        optional = [p for p in others if p.default is None or isinstance(p.default, Tensor)]
        unknown, alone = [p for p in needed if not self._values(p)], len(self.inputs) == 1
        if len(unknown) > 2:
            return
        if alone and len(unknown) == 1:  # perhaps other tokens
            guess = [*self.inputs, ("context", unknown[0])]
            yield from ((guess, also, True) for also in self._filled([p for p in needed if p not in unknown], optional))
        yield from ((self.inputs, also, False) for also in self._filled(needed, optional))
        for p in optional if alone else ():  # a context of other features, which cannot be left out
            if names.role_of(p.name) == "context":
                context = [*self.inputs, ("context", p)]
                yield from ((context, also, False) for also in self._filled(needed, []))

    def _filled(self, needed: list, optional: list) -> Iterator[dict[str, object]]:
        """Yield each filling of the further arguments."""

        def turns(values: tuple) -> bool:  # as many of the features of a head as are turned: all, a half, a quarter
            return any("outer" in getattr(value, "text", "") for value in values)

        angles = [p for p in optional if turns(names.further(p.name, 8))]
        places = [p for p in optional if names.PLACES.search(p.name)]
        owners = [] if self.module is None else [vars(m).items() for m in self.module.modules()]
        said = [v for own in owners for n, v in own if isinstance(v, int) and ("rope" in n or n == "head_dim")]
        turned = dict.fromkeys([self.head_dim, *said, self.head_dim // 2, self.head_dim // 4])
        for more in ([], angles, places, angles + places) if angles or places else ([],):
            for features in turned:
                tried = {p.name: self._values(p, max(2, features)) or names.ANYTHING for p in [*needed, *more]}
                yield from (dict(zip(tried, values, strict=True)) for values in product(*tried.values()))
                if not any(map(turns, tried.values())):
                    break

    def _values(self, p: inspect.Parameter, features: int = 8) -> tuple:
        tried = names.further(p.name, features)
        return tried or ((None,) if "None" in str(p.annotation) or "Optional" in str(p.annotation) else ())

    def _forms(self) -> Iterator[Adapted]:
        """Yield the ways to call it, the likelier first."""
        required = [p for p in self.masks if p.default is p.empty]
        rest = list(islice(self._rest(), 16))
        # Masks that have no default may be None all the same, and at the end are given. No shape tells "T B d" from
        # "B T d", but for a mask that is wanted for each sample.
        layouts = [(False, axes) for axes in AXES if axes != "T B d"]
        layouts += [(True, axes) for axes in AXES] if required else []
        for (masked, axes), (inputs, also, guessed) in product(layouts, rest):
            gap = [p for _, p in inputs] != self.named[: len(inputs)]  # what is between them goes by name
            words = tuple((role, p.name if gap or p.kind is p.KEYWORD_ONLY else None) for role, p in inputs)
            form = replace(self.patient.call, inputs=words, axes=axes, also=also, guessed=guessed)
            none = {} if masked else dict.fromkeys(p.name for p in required)
            others = [w for w in widths(self.module)[:4] if w != self.d_model] if len(inputs) > 1 else []
            wide = [(self.d_model, *[w] * (len(inputs) - 1)) for w in others]
            wide += [(w, *[self.d_model] * (len(inputs) - 1)) for w in others]
            for given in product(*(self._usual_forms(p, axes) for p in required if masked)):
                more = also | none | {m.name: m.open for m in given[1:]}
                whole = replace(form, mask=given[0] if given else None, also=more)
                yield from (replace(whole, widths=each) for each in [(), *wide])

    def _usual_forms(self, p: inspect.Parameter, axes: str) -> list[Mask]:
        """Return a few forms of a mask that hides nothing, for a layer that cannot do without one."""
        forms = [replace(mask, always=True) for mask in self.mask_forms(p, axes)]
        return [mask for mask in forms if mask.kind != "blocked"][:14]

    def mask_forms(self, p: inspect.Parameter, axes: str) -> list[Mask]:
        """Return the forms of a mask to try, the likelier first."""
        lengths = [Mask(p.name, "lengths", rank, left=left) for left in (False, True) for rank in (2, 1)]
        if "len" not in p.name:
            lengths = []
        elif "mask" not in p.name:
            return lengths
        ranks = [Mask(p.name, rank=rank) for rank in ((3, 4, 2) if axes != "T d" else (2, 3))]
        folded = [Mask(p.name, folded=self.num_heads)] if (self.num_heads or 1) > 1 else []
        keys = [Mask(p.name, rank=rank, over="keys") for rank in (2, 3, 4)]
        first = [*keys, *ranks] if "pad" in p.name or "key" in p.name else [*ranks, *folded, *keys]
        return [*lengths, *(replace(mask, kind=kind) for mask in first for kind in KINDS)]

    # -------------------------------------------------------------------------------------------------- by trying

    def found(self) -> Adapted | None:
        """Return the first call that runs and gives an output; None where none does."""
        for T in LENGTHS:
            for form in islice(self._forms(), MOST):
                picked = self._picked(form, T)
                if picked is None:
                    continue
                form = replace(picked, lengths=self._lengths(picked, T))
                if self._time_first(form, T):
                    form = replace(form, axes="T B d")
                    said = getattr(self.patient.call.target, "batch_first", None) is False
                    self.notes += [] if said else [TIME_FIRST]
                form.masks = {p.name: self.mask_forms(p, form.axes) for p in self.masks}
                if self.our_form:
                    form.masks = {"mask": [mask for mask in form.masks["mask"] if mask.kind == "allowed"]}
                return replace(form, stated=self.our_form)
            if T == LENGTHS[2] and self.error and not any(word in str(self.error) for word in OF_LENGTH):
                return None  # no other number of tokens mends this
        return None

    def _answer(self, form: Adapted, batch: int, T: int) -> object:
        """Return whatever the layer returns, or what it raised."""
        patient = self.patient.calling(form)
        x = patient.tokens(1 if form.axes == "T d" else batch, T, 0.5).to(patient.device, patient.dtype)
        with patient.quietly(), torch.no_grad():
            try:
                return form.result(patient.inputs(x))
            except Exception as error:
                return error

    def _picked(self, form: Adapted, T: int) -> Adapted | None:
        """Return the form with the part of the result that is the output; None where none may be."""
        batch = 2 if self.num_heads == 3 else 3
        many, shapes = 1 if form.axes == "T d" else batch, {}
        for tokens in (T, T + 2):
            result = self._answer(form, batch, tokens)
            if isinstance(result, Exception):
                self.error = self.error or (result if tokens == T else None)
                break  # a layer of one number of tokens
            for output, part in parts(result):
                if part.is_floating_point():
                    shapes.setdefault(output, []).append((tuple(turned_back(part, form.axes).shape), tokens))
        first = {output: seen[0][0] for output, seen in shapes.items()}
        whole = [o for o, seen in shapes.items() if all(shape == (many, n, first[o][-1]) for shape, n in seen)]
        same = [o for o, seen in shapes.items() if len({shape for shape, _ in seen}) == 1]
        pooled = [o for o in same if _is_pooled(first[o], many, T)] if form.axes not in ("T d", "T B d") else []
        fitting = whole or pooled
        if not fitting:
            sizes = [(torch.Size(shape).numel(), len(shape) > 3) for shape in first.values()]
            self.unmerged |= sizes == [(many * T * self.d_model, True)]
            self.error = self.error or (ValueError(f"x gave {[*first.values()]}") if shapes else None)
            return None
        best = min(fitting, key=lambda output: first[output][-1] != self.d_model)
        usual = best in (None, 0) and best == next(iter(shapes))
        return replace(form, output=None if usual else best, pooled=not whole)

    def _lengths(self, form: Adapted, T: int) -> tuple[int, ...]:
        """Return the only numbers of tokens that it takes, where that is its design; () where it takes any."""

        def runs(n: int) -> bool:  # as new: what it kept of another length is no limit
            fresh = self.patient.calling(form).unused()
            return fresh is None or not isinstance(self._answer(fresh.call, 2, n), Exception)

        if self.module is None or (runs(3) and runs(T + 2) and runs(7)):
            return ()
        ran = tuple(n for n in dict.fromkeys((*range(1, 13), T)) if runs(n)) or (T,)
        all_up_to_a_longest = {*ran} == {*range(1, max(ran) + 1)}
        by_chance = ran == (T,) and T in (self.head_dim, self.num_heads, self.d_model)
        return () if len(ran) > 10 or all_up_to_a_longest or by_chance else ran

    def _time_first(self, form: Adapted, T: int) -> bool:
        """Whether tokens meet along the first axis of x and along no other, as in a layer for (T, B, d_model)."""
        patient = self.patient.calling(form)
        if form.axes != "B T d" or form.pooled or patient.docs.first == "batch":
            return False
        x = patient.tokens(2 if self.num_heads == 3 else 3, T, 0.5)
        changed = x.clone()
        changed[0, 0] += changed[0, 0].roll(1)
        try:
            before, after = patient(x), patient(changed)
        except Crash:
            return False
        moved = (after - before).abs().amax(-1) > 1e-6 * before.abs().max()  # (B, T)
        return bool(moved[1:, 0].any() and not moved[0, 1:].any() and not moved[1:, 1:].any())

    def refused(self, target: Callable) -> Adapted:
        """Return the usual call of a layer that is known to fit, for the laws to show what it does; else ask."""
        if self.our_form or self.unmerged:
            return Adapted(target, masks={p.name: [Mask(p.name)] for p in self.masks})
        name, wanted = getattr(target, "__name__", type(target).__name__), ", ".join(p.name for p in self.named)
        taken = [p for _, p in self.inputs] + self.masks
        unknown = [p.name for p in self.named if p.default is p.empty and p not in taken and not self._values(p)]
        no_way = f"no way of calling {name}({wanted}) was found"
        if unknown:
            missing = ", ".join(f"{n!r}: ..." for n in unknown)
            no_way += f", and nothing is known of {', '.join(unknown)}; say adapt(layer, also={{{missing}}}), {WRAP}"
            raise TypeError(no_way)
        said = f"{type(self.error).__name__}: {self.error}".splitlines()[0]
        with_tokens = f"with tokens (B, T, {self.d_model}) it raised {said}"
        raise TypeError(f"{no_way}; {with_tokens}. Say how it is called with adapt(...), {WRAP}")


def _is_pooled(shape: tuple[int, ...], batch: int, T: int) -> bool:
    return shape[0] == batch and (len(shape) == 2 or (len(shape) == 3 and shape[1] != T))


# ----------------------------------------------------------------------------------------------------------- sizes


def widths(module: nn.Module | None) -> list[int]:
    """Return the numbers of features that a layer may take, the likelier first."""
    if module is None:
        return []
    said = [value for value in _said(module, "d_model") if isinstance(value, int)]
    linear = [m.in_features for m in module.modules() if isinstance(m, nn.Linear)]
    shapes = [size for p in module.parameters() for size in p.shape]
    order = [*linear[:1], *said, *(size for size, _ in Counter(linear).most_common()), *shapes]
    return [size for size in dict.fromkeys(order) if 1 < size <= 8192][:8]


def heads_stated(module: nn.Module | None) -> int | None:
    """Return how many heads the layer itself says that it has; None where it does not say."""
    found = [] if module is None else _said(module, "num_heads")
    return next((v for v in found if isinstance(v, int) and not isinstance(v, bool) and 0 < v <= 1024), None)


def _said(module: nn.Module, kind: str) -> list[object]:
    """Return what a module, its config, or its only child says under the names of a size."""
    inner = list(module.children())
    owners = [module, *(getattr(module, config, None) for config in ("config", "cfg", "args"))]
    owners += inner if len(inner) == 1 else []
    owners = [o if isinstance(o, dict) else {n: getattr(o, n, None) for n in names.SIZES[kind]} for o in owners]
    return [owner.get(name) for name in names.SIZES[kind] for owner in owners]
