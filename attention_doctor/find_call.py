"""How a layer is called, found out by its signature and by trying: what runs, and gives an output, is the call.

Each way of calling is a record, an `Adapted`; they are tried in order, the likelier first. Names say what to try. Which
mask is meant in which way is not decided here: `masks` sees what each form does.
"""

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, product

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.calling import AXES, Adapted, Mask, adapt, name_of, parameters_of, parts, picture, turned_back
from attention_doctor.patient import Crash, Patient

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only
MOST = 200  # ways that are tried for each number of tokens
KINDS = ("allowed", "blocked", "float01", "additive")
OF_LENGTH = ("size", "shape", "length", "divisible", "index", "expected", "must")  # so errors speak of it
TIME_FIRST = "tokens meet along the first axis: taken for (T, B, d_model); if x is (B, T, d_model), say axes='B T d', "
TIME_FIRST += "and it mixes samples"
WRAP = "or wrap it: lambda x, mask=None: layer(x, ..., mask)"

Inputs = list[tuple[str, inspect.Parameter]]  # role and parameter


def find_call(patients: Iterable[Patient]) -> Patient:
    """Return the first of some patients, one layer with tokens of several widths, for which a call is found.

    Raises:
        TypeError: no way of calling it was found.
    """
    searches = []
    for patient in patients:
        target = patient.call.target
        if isinstance(target, nn.MultiheadAttention):
            call = adapt(target, "torch")
            call.masks["key_padding_mask"] = [Mask("key_padding_mask", "blocked", 2, "keys")]
            return patient.calling(call)
        searches.append(search := _Search(patient))
        if (found := search.found()) is not None:
            called = patient.calling(found)
            return called.unused() or called
    return searches[0].patient.calling(searches[0].refused())


class _Search:
    """Tries to call one layer with tokens of one width."""

    def __init__(self, patient: Patient):
        self.patient, self.module, target = patient, patient.module, patient.call.target
        self.d_model, self.num_heads, self.head_dim = patient.d_model, patient.num_heads, patient.head_dim
        named = parameters_of(target).values()
        self.named = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.inputs = self._inputs()
        self.masks = [p for p in self.named if p not in [q for _, q in self.inputs] and self._is_mask(p)]
        # A function attend(x, mask), in which True = may attend, as in mhalib.
        self.our_form = not isinstance(target, nn.Module) and [p.name for p in self.named][1:] == ["mask"]
        self.unmerged, self.error, self.held = False, None, patient.kept()
        others = [p for p in self.named if p not in [q for _, q in self.inputs] + self.masks]
        self.needed = [p for p in others if p.default is p.empty]
        self.optional = [p for p in others if p.default is None or isinstance(p.default, Tensor)]
        self.unknown = [p for p in self.needed if not self._values(p)]
        self.made_up: tuple = ()  # what is tried, at the end, for arguments of which nothing is known

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
        if names.PACKED.search(name):  # those of queries and of keys are one matter, and no mask of either
            return sum(bool(names.PACKED.search(q.name)) for q in self.named) == 1
        others = any(names.role_of(q.name) in ("context", "keys") for q in self.named[1:])
        of_others = others and names.OF_OTHERS.search(name)
        return bool(of_others or (names.MASK.search(name) and not names.NO_MASK.search(name)))

    def _unsure(self, form: Adapted) -> list[inspect.Parameter]:
        """Return the optional tensors whose names say nothing: one may be a mask."""
        tensors = [p for p in self.optional if p.annotation is p.empty or "Tensor" in str(p.annotation)]
        known = {p.name for p in tensors if any(words.search(p.name) for words in names.OTHERS)} | {*form.also}
        known |= {p.name for p in tensors if names.role_of(p.name) or names.further(p.name, 8)}
        return [p for p in tensors if p.name not in known]

    def _rest(self) -> Iterator[tuple[Inputs, dict[str, object], bool]]:
        """Yield inputs, further arguments, and whether an input is a guess, the likelier first."""
        needed, optional, alone = self.needed, self.optional, len(self.inputs) == 1
        if len(self.unknown) > 2:
            return
        if alone and len(self.unknown) == 1 and not self.made_up:  # perhaps other tokens
            guess, known = [*self.inputs, ("context", *self.unknown)], [p for p in needed if p not in self.unknown]
            yield from ((guess, also, True) for also in self._filled(known, optional))
        yield from ((self.inputs, also, False) for also in self._filled(needed, optional))
        for p in [p for role, p in self.inputs[1:] if role == "context"]:  # or one vector for each sample
            vectors = [{p.name: names.Filler(f"x.new_ones(len(x), {width})")} for width in widths(self.module)[:4]]
            filled = product(self._filled(needed, optional), vectors)
            yield from ((self.inputs[:1], also | vector, False) for also, vector in filled)
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
        held = [item for m in self.module.modules() for item in vars(m).items()]
        said = [v for n, v in held if isinstance(v, int) and ("rope" in n or n == "head_dim")]
        turned = dict.fromkeys([self.head_dim, *said, self.head_dim // 2, self.head_dim // 4])
        for more in ([], angles, places, angles + places) if angles or places else ([],):
            for features in turned:
                anything = self.made_up or names.ANYTHING
                tried = {p.name: self._values(p, max(2, features)) or anything for p in needed + more}
                yield from (dict(zip(tried, values, strict=True)) for values in product(*tried.values()))
                if not any(map(turns, tried.values())):
                    break

    def _values(self, p: inspect.Parameter, features: int = 8) -> tuple:
        tried = names.further(p.name, features)
        return tried or ((None,) if "None" in str(p.annotation) or "Optional" in str(p.annotation) else ())

    def _forms(self) -> Iterator[Adapted]:
        """Yield the ways to call it, the likelier first."""
        required = [p for p in self.masks if p.default is p.empty]
        rest = list(islice(self._rest(), 200 if self.made_up else 16))
        # Masks that have no default may be None all the same, and at the end are given. No shape tells "T B d" from
        # "B T d", but for a mask that is wanted for each sample.
        layouts = [(False, axes) for axes in AXES if axes != "T B d"]
        layouts += [(True, axes) for axes in AXES] if required else []
        layouts = [(bool(required), "B T d")] if self.made_up else layouts
        for (masked, axes), (inputs, also, guessed) in product(layouts, rest):
            gap = [p for _, p in inputs] != self.named[: len(inputs)]  # what is between them goes by name
            words = tuple((role, p.name if gap or p.kind is p.KEYWORD_ONLY else None) for role, p in inputs)
            call = self.patient.call  # of tokens by their place, where no argument has a name
            form = replace(call, inputs=words or call.inputs, axes=axes, also=also, guessed=guessed)
            none = {} if masked else dict.fromkeys(p.name for p in required)
            others = [w for w in widths(self.module)[:4] if w != self.d_model] if len(inputs) > 1 else []
            wide = [(self.d_model, *[w] * (len(inputs) - 1)) for w in others]
            wide += [(w, *[self.d_model] * (len(inputs) - 1)) for w in others]
            usual = [self.mask_forms(p, axes) for p in required if masked]  # a few of what may hide nothing
            most, not_so = (8, ()) if self.made_up else (14, ("blocked",))
            usual = [[replace(m, always=True) for m in forms if m.kind not in not_so][:most] for forms in usual]
            for given in product(*usual):
                more = also | none | {m.name: m.open for m in given[1:]}
                whole = replace(form, mask=given[0] if given else None, also=more)
                yield from (replace(whole, widths=each) for each in [(), *wide])

    def mask_forms(self, p: inspect.Parameter, axes: str) -> list[Mask]:
        """Return the forms of a mask to try, the likelier first."""
        lengths = [Mask(p.name, "lengths", rank, left=left) for left in (False, True) for rank in (2, 1)]
        if names.PACKED.search(p.name):
            return [Mask(p.name, "documents", 1)]
        if "len" not in p.name:
            lengths = []
        elif "mask" not in p.name:
            return lengths
        ranks = [Mask(p.name, rank=rank) for rank in ((3, 4, 2) if axes != "T d" else (2, 3))]
        folded = [Mask(p.name, folded=self.num_heads)] if (self.num_heads or 1) > 1 else []
        rows = [Mask(p.name, rank=rank, over="picture") for rank in (3, 2) if " H" in axes and "F" not in axes]
        keys = rows + [Mask(p.name, rank=rank, over="keys") for rank in (2, 3, 4)]
        first = [*keys, *ranks] if "pad" in p.name or "key" in p.name else [*ranks, *folded, *keys]
        first += [Mask(p.name, rank=1, over="keys")]
        if p not in self.masks:
            return [replace(mask, kind=kind, unsure=True) for mask in first for kind in KINDS[:2] if mask.rank < 4]
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
                    form = self._turned(replace(form, axes="T B d"), T)
                    said = getattr(self.patient.call.target, "batch_first", None) is False
                    self.patient.notes += [] if said else [TIME_FIRST]
                form.masks = {p.name: self.mask_forms(p, form.axes) for p in self.masks + self._unsure(form)}
                if self.our_form:
                    form.masks = {"mask": [mask for mask in form.masks["mask"] if mask.kind == "allowed"]}
                return replace(form, stated=self.our_form)
            if T == LENGTHS[2] and self.error and not any(word in str(self.error) for word in OF_LENGTH):
                break  # no other number of tokens mends this
        return self._made_up() if self.unknown else None

    def _made_up(self) -> Adapted | None:
        """Return a call with arguments of which nothing is known, by their shapes; its numbers must be finite."""
        self.made_up, unknown = names.anything(widths(self.module)[:5]), tuple(p.name for p in self.unknown)
        for form in islice(self._forms(), 4 * MOST):
            picked = self._picked(form, LENGTHS[0])
            made = [] if picked is None or picked.pooled else parts(self._answer(picked, 2, LENGTHS[0]))
            if made and all(bool(part.isfinite().all()) for _, part in made):
                self.patient.notes.append(f"nothing is known of {', '.join(unknown)}: something that runs was made up")
                return replace(picked, made_up=unknown)
        return None

    def _answer(self, form: Adapted, batch: int, T: int) -> object:
        """Return whatever the layer returns, or what it raised."""
        form = replace(form, target=self.patient.call.target)
        patient = self.patient.calling(form)
        x = patient.tokens(1 if form.axes == "T d" else batch, T, 0.5).to(patient.device, patient.dtype)
        with patient.quietly(), torch.no_grad():
            try:
                return form.result(patient.inputs(x))
            except Exception as error:
                if patient.kept() != self.held:  # what it kept of this try is not to spoil the next
                    self.patient = self.patient.unused() or self.patient
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
        few = [o for o in same if first[o][0] == many and len(first[o]) < 4 and first[o][1:-1] != (T,)]
        pooled = few if form.axes not in ("T d", "T B d") else []
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

        if runs(3) and runs(T + 2) and runs(7):
            return ()
        ran = tuple(n for n in dict.fromkeys((*range(1, 13), T)) if runs(n)) or (T,)
        all_up_to_a_longest = {*ran} == {*range(1, max(ran) + 1)}
        by_chance = ran == (T,) and T in (self.head_dim, self.num_heads, self.d_model) and not self._room(T)
        return () if len(ran) > 10 or all_up_to_a_longest or by_chance else ran

    def _room(self, T: int) -> bool:
        """Whether it has tables of its own for just so many places, such as one for each pixel of a picture."""
        own = (m for m in self.module.modules() if not type(m).__module__.startswith("torch."))
        shapes = [x.shape for m in own for x in (*m.parameters(recurse=False), *m.buffers(recurse=False))]
        sizes, (rows, columns) = {size for shape in shapes for size in shape}, picture(T)
        pictured = rows > 1 and any({*size} <= sizes for size in ((rows, columns), (2 * rows - 1, 2 * columns - 1)))
        return pictured or T * T in sizes or any([*shape].count(T) > 1 for shape in shapes)

    def _turned(self, form: Adapted, T: int) -> Adapted:
        """Return the form with what is made of the tokens turned as they are, where it does not run as it is."""
        if not isinstance(self._answer(form, 2 if self.num_heads == 3 else 3, T), Exception):
            return form
        x, made = self.patient.tokens(2, T, 0.5), [(n, v) for n, v in form.also.items() if callable(v)]
        those = [(n, v) for n, v in made if getattr(v(x), "shape", ())[:2] == x.shape[:2]]
        return replace(form, also=form.also | {n: names.Filler(f"({v.text}).transpose(0, 1)") for n, v in those})

    def _time_first(self, form: Adapted, T: int) -> bool:
        """Whether tokens meet along the first axis of x and along no other, as in a layer for (T, B, d_model)."""
        patient = self.patient.calling(form)
        if form.axes != "B T d" or form.pooled or patient.docs.batch_first:
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

    def refused(self) -> Adapted:
        """Return the usual call of a layer that is known to fit, for the laws to show what it does; else ask."""
        if self.our_form or self.unmerged:
            return replace(self.patient.call, masks={p.name: [Mask(p.name)] for p in self.masks})
        name, wanted = name_of(self.patient.call.target), ", ".join(p.name for p in self.named)
        no_way = f"no way of calling {name}({wanted}) was found"
        if unknown := [p.name for p in self.unknown]:
            missing = ", ".join(f"{n!r}: ..." for n in unknown)
            no_way += f", and nothing is known of {', '.join(unknown)}; say adapt(layer, also={{{missing}}}), {WRAP}"
            raise TypeError(no_way)
        said = f"{type(self.error).__name__}: {self.error}".splitlines()[0]
        with_tokens = f"with tokens (B, T, {self.d_model}) it raised {said}"
        raise TypeError(f"{no_way}; {with_tokens}. Say how it is called with adapt(...), {WRAP}")


# ----------------------------------------------------------------------------------------------------------- sizes


def widths(module: nn.Module) -> list[int]:
    """Return the numbers of features that a layer may take, the likelier first."""
    said = [value for value in _said(module, "d_model") if isinstance(value, int)]
    linear = [m.in_features for m in module.modules() if isinstance(m, nn.Linear)]
    shapes = [size for p in module.parameters() for size in p.shape]
    order = [*linear[:1], *said, *(size for size, _ in Counter(linear).most_common()), *shapes]
    return [size for size in dict.fromkeys(order) if 1 < size <= 8192][:8]


def heads_stated(module: nn.Module) -> int | None:
    """Return how many heads the layer itself says that it has; None where it does not say."""
    said = (v for v in _said(module, "num_heads") if isinstance(v, int) and not isinstance(v, bool))
    return next((v for v in said if 0 < v <= 1024), None)


def _said(module: nn.Module, kind: str) -> list[object]:
    """Return what a module, its config, or its only child says under the names of a size."""
    inner = list(module.children())
    owners = [module, *(getattr(module, config, None) for config in ("config", "cfg", "args"))]
    owners += inner if len(inner) == 1 else []
    owners = [o if isinstance(o, dict) else {n: getattr(o, n, None) for n in names.SIZES[kind]} for o in owners]
    return [owner.get(name) for name in names.SIZES[kind] for owner in owners]
