"""How a layer is called, found out by its signature and by trying: what runs, and gives an output, is the call.

Each way of calling is a record, an `Adapted`; they are tried in order, the likelier first. Names say what to try. Which
mask is meant in which way is not decided here: `masks` sees what each form does.
"""

import inspect
import math
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attention_doctor import argument_names as names
from attention_doctor.calling import (
    AXES,
    ORDER,
    Adapted,
    Mask,
    adapt,
    name_of,
    parameters_of,
    parts,
    picture,
    turned_back,
)
from attention_doctor.patient import Crash, Patient

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only
MOST = 200  # ways that are tried for each number of tokens
KINDS = ("allowed", "blocked", "float01", "additive")
OF_LENGTH = ("size", "shape", "length", "divisible", "index", "expected", "must")  # so errors speak of it
TIME_FIRST = "tokens meet along the first axis: taken for (T, B, d_model); if x is (B, T, d_model), say axes='B T d', "
TIME_FIRST += "and it mixes samples"
TRIES = 4000  # calls with the later numbers of tokens, all in all
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
        if patient.call.is_torch:
            call = adapt(target, "torch")
            call.masks["key_padding_mask"] = [Mask("key_padding_mask", "blocked", 2, "keys")]
            return patient.calling(call)
        searches.append(_Search(patient))
    few = searches[:2]  # the likelier widths
    ways = [(search.usual, ()) for search in searches]
    ways += [(search.step_by_step, ()) for search in few if search.unknown]
    ways += [(search.of_other_length, (TRIES // len(searches),)) for search in searches]
    ways += [(search.step_by_step, ()) for search in few if not search.unknown]
    for way, most in ways:
        if (found := way(*most)) is not None:
            called = way.__self__.patient.calling(found)
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
        self.widths = [patient.d_model, *(w for w in widths(self.module)[:5] if w != patient.d_model)]
        self.masks = [p for p in self.named if p not in [q for _, q in self.inputs] and self._is_mask(p)]
        # A function attend(x, mask), in which True = may attend, as in mhalib.
        self.our_form = not isinstance(target, nn.Module) and [p.name for p in self.named][1:] == ["mask"]
        self.unmerged, self.error, self.held = False, None, patient.kept()
        others = [p for p in self.named if p not in [q for _, q in self.inputs] + self.masks]
        self.needed = [p for p in others if p.default is p.empty]
        self.optional = [p for p in others if p.default is None or isinstance(p.default, Tensor)]
        self.unknown = [p for p in self.needed if not self._values(p)]
        self.reached, self.calls = (0, 0), 0  # how far the last call came, and how many there were
        self.tries = 1500  # step by step
        self.of_names: dict[str, list] = {}  # what is known to be meant by a name, as text or value
        self.wider: list[int] = []  # features of a second input that errors ask for
        self.hints: dict[int, tuple] = {}  # numbers of tokens that errors speak of, and how far they came at most

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
        if self.unknown:  # perhaps other tokens
            guess, known = [*self.inputs, ("context", *self.unknown)], [p for p in needed if p not in self.unknown]
            if alone and len(self.unknown) == 1:
                yield from ((guess, also, True) for also in self._filled(known, optional))
            return
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
                tried = {p.name: self._values(p, max(2, features)) for p in needed + more}
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
            if (guessed and axes == "T d") or ("," in axes and len(inputs) < 2):
                continue  # of a vector for each of T samples nobody could tell what no batch is
            gap = [p for _, p in inputs] != self.named[: len(inputs)]  # what is between them goes by name
            words = tuple((role, p.name if gap or p.kind is p.KEYWORD_ONLY else None) for role, p in inputs)
            call = self.patient.call  # of tokens by their place, where no argument has a name
            form = replace(call, inputs=words or call.inputs, axes=axes, also=also, guessed=guessed)
            none = {} if masked else dict.fromkeys(p.name for p in required)
            others = [*self.wider, *self.widths[1:4]][:6] if len(inputs) > 1 else []
            wide = [(self.d_model, *[w] * (len(inputs) - 1)) for w in others]
            wide += [(w, *[self.d_model] * (len(inputs) - 1)) for w in others]
            usual = [self.mask_forms(p, axes) for p in required if masked]  # a few of what may hide nothing
            usual = [[replace(m, always=True) for m in forms if m.kind != "blocked"][:14] for forms in usual]
            for given in dict.fromkeys((*zip(*usual, strict=False), *product(*usual))):  # all of one form first
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
        rows = [Mask(p.name, rank=rank, over="picture") for rank in (3, 2) if " H" in axes.upper() and "F" not in axes]
        keys = rows + [Mask(p.name, rank=rank, over="keys") for rank in (2, 3, 4)]
        first = [*keys, *ranks] if "pad" in p.name or "key" in p.name else [*ranks, *folded, *keys]
        first += [Mask(p.name, rank=1, over="keys")]
        if p not in self.masks:
            return [replace(mask, kind=kind, unsure=True) for mask in first for kind in KINDS[:2] if mask.rank < 4]
        return [*lengths, *(replace(mask, kind=kind) for mask in first for kind in KINDS)]

    # -------------------------------------------------------------------------------------------------- by trying

    def usual(self) -> Adapted | None:
        """Return the first call of a usual number of tokens that runs and gives an output; None where none does."""
        return next((form for T in LENGTHS[:3] if (form := self._first(T)) is not None), None)

    def of_other_length(self, most: int) -> Adapted | None:
        """Return the first call of another number of tokens, where that may be what is wrong; try no more than most."""
        if not any(word in str(self.error) for word in OF_LENGTH):
            return None
        for T in dict.fromkeys((*self._hinted(6), *LENGTHS[3:])):
            before = self.calls
            if (form := self._first(T)) is not None:
                return form
            most -= self.calls - before
            if most < 0:
                return None
        return None

    def _first(self, T: int) -> Adapted | None:
        """Return the first way to call it with so many tokens."""
        picked = (self._picked(form, T) for form in islice(self._forms(), MOST))
        return next((self._finished(form, T) for form in picked if form is not None), None)

    def _finished(self, form: Adapted, T: int) -> Adapted:
        """Return a form that runs with all that is to be known of it."""
        form = replace(form, lengths=self._lengths(form, T))
        if self._time_first(form, T):
            form = self._turned(replace(form, axes="T B d"), T)
            said = getattr(self.patient.call.target, "batch_first", None) is False
            self.patient.notes += [] if said else [TIME_FIRST]
        form.masks = {p.name: self.mask_forms(p, form.axes) for p in self.masks + self._unsure(form)}
        if self.our_form:
            form.masks = {"mask": [mask for mask in form.masks["mask"] if mask.kind == "allowed"]}
        return replace(form, stated=self.our_form)

    def step_by_step(self) -> Adapted | None:
        """Return a call found argument by argument: of each the first value with which the layer gets furthest.

        So nothing need be known of an argument. How far it got is the line of its `forward` that raised, and the number
        of operations till then.
        """
        required = [*(p for _, p in self.inputs), *(p for p in self.masks if p.default is p.empty)]
        wanted = [p for p in self.named if p in self.needed + required]
        if len(wanted) < 2:
            return None
        first, *others = wanted
        layouts = [axes for axes in AXES if axes not in ("T B d", "T d")]
        layouts.sort(key=lambda axes: (axes != "B T d", "," not in axes))
        usual, unusual = ["B T d", names.Filler("x[:, 0]")], [*layouts[1:], "T d"]
        pictures = ("B T d", "B d H W", "B H W d")  # of several rows, or so many as errors speak of
        stages = [(6, 0, usual), (6, 1, usual[:1]), (6, 0, unusual)]
        stages += [(n, 0, pictures) for n in (16, *self._hinted(2))]
        for T, skipped, starts in stages:
            tried = {p: self._anything(p, skipped) for p in others}
            for start in starts:
                if (form := self._from(start, first, tried, T)) is not None:
                    form = replace(form, made_up=(*form.made_up, *self._any_number(form, T)))
                    known = f"nothing is known of {', '.join(form.made_up)}: something that runs was made up"
                    self.patient.notes += [known] if form.made_up else []
                    return self._finished(form, T)
        return None

    def _from(self, start: object, first: inspect.Parameter, tried: dict, T: int) -> Adapted | None:
        """Return a call that runs, from where the first argument is known; None where nothing gets it further."""
        chosen, furthest, before = {first: start} | {p: values[0] for p, values in tried.items()}, (-1, 0), None
        mixing: Adapted | None = None
        while before != (before := furthest):
            for turn in self._turns(tried):
                form = self._made_of(chosen | turn)
                if form is None or not self.tries:
                    continue
                self.tries -= 1
                picked = self._picked(form, T)
                if picked is not None and self._runs_elsewhere(picked, T):
                    if self._mixes(picked, T):  # a number may say that these are parts of one sample
                        mixing = mixing or (None if picked.made_up else picked)
                    elif not (mixing and picked.made_up):
                        return picked
                elif self.reached > furthest:
                    chosen, furthest = chosen | turn, self.reached
        return mixing

    def _any_number(self, form: Adapted, T: int) -> list[str]:
        """Return the unknown arguments for which several numbers would do; then nobody knows which is meant."""

        def runs(name: str, number: names.Filler) -> bool:
            return not isinstance(self._answer(replace(form, also=form.also | {name: number}), 3, T), Exception)

        texts = [number.text for number in names.NUMBERS]
        those = [p.name for p in self.unknown if getattr(form.also.get(p.name), "text", "") in texts]
        tried = names.NUMBERS[:3]  # one, as many as samples, as many as tokens
        return [name for name in those if name not in form.made_up and sum(runs(name, n) for n in tried) > 1]

    def _runs_elsewhere(self, form: Adapted, T: int) -> bool:
        """Whether it runs with other numbers of samples, and what was made up with another number of tokens."""
        others = (T + 2, 36, 64) if form.made_up else ()
        if not all(self._is_output(form, batch, T) for batch in (2, 5)):
            return False
        finite = all(bool(part.isfinite().all()) for _, part in parts(self._answer(form, 2, T)))
        return not others or (finite and any(self._is_output(form, 2, n) for n in others))

    def _mixes(self, form: Adapted, T: int) -> bool:
        """Whether a change in one sample moves the outputs of another."""
        if form.axes == "T d" or self._time_first(form, T):
            return False
        patient = self.patient.calling(form)
        x = patient.tokens(3, T, 0.5)
        changed = torch.cat([x[:1] + patient.noise(1, T, 7), x[1:]])
        with suppress(Crash):
            return patient.differ(patient(changed)[1:], patient(x)[1:])
        return True

    def _widen(self, form: Adapted, said: str) -> None:
        """Note how many features a second input should have had, where it was laid beside the first."""
        wrong = re.search(r"to have (\d+) channels, but got (\d+)", said)
        turned = re.search(r"x(\d+) and (\d+)x", said)
        if len(form.roles) > 1 and (wrong or turned):
            wanted, got = map(int, wrong.groups() if wrong else turned.groups()[::-1])
            width = (form.widths[1] if form.widths else self.d_model) + wanted - got
            self.wider += [width] if width > 0 and width not in (*self.wider, *self.widths) else []

    def _hinted(self, most: int) -> list[int]:
        """Return the numbers of tokens of which those errors spoke that came latest."""
        return sorted(self.hints, key=self.hints.get, reverse=True)[:most]

    def _turns(self, tried: dict[inspect.Parameter, list]) -> Iterator[dict[inspect.Parameter, object]]:
        """Yield what to change: one argument after the other, and all masks together."""
        yield from ({p: value} for p, values in tried.items() for value in values)
        masks = [p for p in tried if p in self.masks]
        together = zip(*(tried[p] for p in masks), strict=False) if len(masks) > 1 else ()
        yield from (dict(zip(masks, values, strict=True)) for values in together)

    def _anything(self, p: inspect.Parameter, skipped: int) -> list:
        """Return what to try for an argument, what its name, words or annotation say first."""
        if p in [q for _, q in self.inputs]:
            return names.anything(self.widths + self.wider[:3])
        if p in self.masks:
            forms = [m for m in self.mask_forms(p, "B T d") if m.kind != "blocked"][:24]
            return [*forms, *names.anything(self.widths + self.wider[:3])]
        values, own = [*self._values(p), *names.anything(self.widths + self.wider[:3])], len(self._values(p))
        if skipped:  # behind tokens that are no places, such as one for the class
            values = [names.Filler(re.sub(r"\bx\b", "x[:, 1:]", v.text)) if callable(v) else v for v in values]
        known = values[:own] if own else names.NUMBERS
        self.of_names[p.name] = [getattr(value, "text", value) for value in known]
        if p.annotation in (int, "int"):
            return [*self._values(p), *names.NUMBERS]
        return values

    def _made_of(self, chosen: dict[inspect.Parameter, object]) -> Adapted | None:
        """Return the form with these arguments; None where none of them are tokens."""
        first, roles = next(iter(chosen)), {p: role for role, p in self.inputs}
        texts = {p: getattr(value, "text", "") for p, value in chosen.items()}
        tokens = [p for p, text in texts.items() if p is not first and re.match(r"x$|x\.repeat", text)]
        whole = isinstance(chosen[first], str)
        main = first if whole else next(iter(tokens), None)
        if main is None:  # nothing has all tokens
            return None
        left = sorted((p for p in tokens if p is not main), key=lambda p: texts[p] != "x")
        others = [p for p in tokens if p in roles and p is not main] or left[:1]
        inputs = [(roles.get(main, "queries") if others else "queries", main)]
        inputs += [(roles.get(p, "context"), p) for p in others]
        if len({role for role, _ in inputs}) < len(inputs) or (whole and "," in chosen[first] and not others):
            return None
        wide = {role: int((re.findall(r":(\d+)", texts[p]) or [self.d_model])[0]) for role, p in inputs}
        given = [p for p in chosen if p is not main and p not in others]
        also = {p.name: value.open if isinstance(value := chosen[p], Mask) else value for p in given}
        mask = next((value for value in chosen.values() if isinstance(value, Mask)), None)
        also = {name: value for name, value in also.items() if mask is None or name != mask.name}
        values = {p: getattr(chosen[p], "text", chosen[p]) for p in given}
        sure = [p for p in given if isinstance(chosen[p], Mask) or values[p] in self.of_names.get(p.name, ())]
        return replace(
            self.patient.call,
            inputs=tuple((role, p.name) for role, p in inputs),
            axes=chosen[first] if whole else "B T d",
            also=also,
            mask=mask and replace(mask, always=True),
            widths=tuple(wide[role] for role in sorted(wide, key=ORDER.index)) if len({*wide.values()}) > 1 else (),
            guessed=any(p in self.unknown for p in others),
            made_up=tuple(p.name for p in given if p not in sure),
        )

    def _counted(self, *args, **words) -> object:
        """Call the layer; keep how far it gets: the line of its forward, and the number of operations."""
        target, self.calls = self.patient.call.target, self.calls + 1
        own = inspect.unwrap(target.forward if isinstance(target, nn.Module) else target)
        with Counting() as operations:
            try:
                return target(*args, **words)
            except Exception as error:
                frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
                lines = [line for code, line in frames if code is getattr(own, "__code__", None)]
                self.reached = max(lines, default=0), operations.count
                raise

    def _answer(self, form: Adapted, batch: int, T: int) -> object:
        """Return whatever the layer returns, or what it raised."""
        form = replace(form, target=self._counted)
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
                if tokens == T:
                    self.error = self.error or result
                    for n in {*lengths_meant(result, T, self.d_model)} - {*LENGTHS[:3]}:
                        self.hints[n] = max(self.hints.get(n, (0, 0)), self.reached)
                    self._widen(form, str(result))
                elif form.guessed and "," in form.axes:  # it fitted by chance
                    return None
                break  # a layer of one number of tokens
            for output, part in parts(result):
                if part.is_floating_point():
                    shapes.setdefault(output, []).append((tuple(turned_back(part, form.axes).shape), tokens))
        first = {output: seen[0][0] for output, seen in shapes.items()}
        whole = [o for o, seen in shapes.items() if all(shape == (many, n, first[o][-1]) for shape, n in seen)]
        same = [o for o, seen in shapes.items() if len({shape for shape, _ in seen}) == 1]
        axes = max(3, len(form.axes.partition(",")[0].split()) - 1)
        few = [o for o in same if first[o][0] == many and len(first[o]) <= axes and first[o][1:-1] != (T,)]
        few += [o for o, seen in shapes.items() if o not in same and all(_more_tokens(*one, many) for one in seen)]
        pooled = few if form.axes not in ("T d", "T B d") else []
        fitting = whole or pooled
        if not fitting:
            sizes = [(torch.Size(shape).numel(), len(shape) > 3) for shape in first.values()]
            self.unmerged |= sizes == [(many * T * self.d_model, True)] and form.axes == "B T d"
            self.error = self.error or (ValueError(f"x gave {[*first.values()]}") if shapes else None)
            return None
        best = min(fitting, key=lambda output: first[output][-1] != self.d_model)
        usual = best in (None, 0) and best == next(iter(shapes))
        return replace(form, output=None if usual else best, pooled=not whole)

    def _lengths(self, form: Adapted, T: int) -> tuple[int, ...]:
        """Return the only numbers of tokens that it takes, where that is its design; () where it takes any."""

        def runs(n: int) -> bool:  # as new: what it kept of another length is no limit
            fresh = self.patient.calling(form).unused()
            return fresh is None or self._is_output(fresh.call, 2, n)

        if runs(3) and runs(T + 2) and runs(7):
            return ()
        ran = tuple(n for n in dict.fromkeys((*range(1, 13), T)) if runs(n)) or (T,)
        all_up_to_a_longest = {*ran} == {*range(1, max(ran) + 1)}
        by_chance = ran == (T,) and T in (self.head_dim, self.num_heads, self.d_model) and not self._room(T)
        return () if len(ran) > 10 or all_up_to_a_longest or by_chance else ran

    def _is_output(self, form: Adapted, batch: int, T: int) -> bool:
        """Whether its output for some samples of T tokens is one for each token, where that is what it gives."""
        result = self._answer(form, batch, T)
        if isinstance(result, Exception):
            return False
        out = dict(parts(result)).get(form.output, next((part for _, part in parts(result)), None))
        return out is not None and (form.pooled or turned_back(out, form.axes).shape[1:2] == (T,))

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


def _more_tokens(shape: tuple[int, ...], tokens: int, many: int) -> bool:
    """Whether these are all tokens and a few more, such as one for the class."""
    return len(shape) == 3 and shape[0] == many and tokens < shape[1] <= tokens + 2


class Counting(TorchFunctionMode):
    """Counts the operations of torch that are called."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def lengths_meant(error: Exception, T: int, d_model: int) -> list[int]:
    """Return the numbers of tokens that may be what an error of T tokens asks for."""
    said = str(error)
    if shape := re.search(r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)", said):
        sizes = [int(size) for size in shape[1].split(",")]
        wanted = math.prod(d_model if size == -1 else size for size in sizes) * T  # what is left are the features
        return [wanted // int(shape[2])] if wanted % int(shape[2]) == 0 else []
    numbers = [int(number) for number in re.findall(r"\d+", said)]
    return [n for n in numbers if T < n <= 128] + [n * n for n in numbers if 2 < n <= 8]


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
