"""How a layer is called, found out by its signature and by trying: what runs, and gives an output, is the call.

Each way of calling is a record, an `Adapted`; they are tried in order, the likelier first. Names say what to try. Which
mask is meant in which way is not decided here: `masks` sees what each form does.
"""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.cache import empty_caches
from attention_doctor.calling import AXES, BATCH_BEHIND, ORDER, Adapted, Mask, adapt, name_of, parameters_of
from attention_doctor.docs import docs_of
from attention_doctor.look import seeing
from attention_doctor.patient import Crash, Patient
from attention_doctor.try_call import LENGTHS, Tries

KINDS = ("allowed", "blocked", "float01", "additive")
OF_LENGTH = ("size", "shape", "length", "divisible", "index", "expected", "must")  # so errors speak of it
BEHIND = "tokens meet along the first axis: taken for ({0}); if x is ({1}), say axes={2!r}, and it mixes samples"
BESIDE = r"_(pos|embed)\w*$|^pos(ition)?_"  # in the name of what is added to an argument of the rest of the name
SIDE_BY_SIDE = r"\bcat\(|concat|hstack"
ONE_QUERY = r"(\.unsqueeze\([01]\)|\[:, None\])"  # an axis for tokens is made of a vector for each sample
NUMBERS = r"(\.unsqueeze\(-1\)|\[\.\.\., None\])"  # and one for features of a number for each token
TRIES = 1500  # calls by names with one number of tokens, or step by step
WRAP = "or wrap it: lambda x, mask=None: layer(x, ..., mask)"

Inputs = list[tuple[str, inspect.Parameter]]  # role and parameter


def find_call(patients: Iterable[Patient]) -> Patient:
    """Return the first of some patients, one layer with tokens of several widths, for which a call is found.

    Raises:
        TypeError: no way of calling it was found.
        ValueError: nor may one be, of a layer for other features, or for as many as its heads do not divide.
    """
    searches = []
    for patient in patients:
        target = patient.call.target
        if patient.call.is_torch:
            call, widths = adapt(target, "torch"), (target.embed_dim, target.kdim, target.vdim)
            call.widths = widths if len({*widths}) > 1 else ()
            call.masks["key_padding_mask"] = [Mask("key_padding_mask", "blocked", 2, "keys")]
            return patient.calling(call)
        searches.append(_Search(patient))
    few = searches[:2]  # the likelier widths
    whole = [search for search in searches if not search.own] or few[:1]
    shares = [search for search in searches if search not in whole and search.patient.docs.says(SIDE_BY_SIDE)]
    ways = [search.of_one_query for search in few + shares if search.says(ONE_QUERY)]
    ways += [way for search in whole for way in (search.of_numbers, search.usual)]
    ways += [search.step_by_step for search in few if search.unknown]
    ways += [search.of_other_length for search in whole]
    ways += [search.step_by_step for search in few if not search.unknown]
    ways += [search.of_one_query for search in whole if len(search.unknown) < 2]
    ways += [way for search in shares for way in (search.of_one_query, search.usual) if len(search.unknown) < 2]
    for way in ways:
        if (found := way()) is not None:
            if way.__self__.own and found.axes.partition(",")[0][-1] != "d":  # other features fitted as tokens
                searches[0].refused()
            called = way.__self__.patient.calling(found)
            return called.unused() or called
    return searches[0].patient.calling(searches[0].refused())


def unpacked(layer: object) -> nn.Module | None:
    """Return a layer as one that takes one by one what it reads out of its only argument, a dict or a list of tensors.

    By the keys, or the names, that its own source has for them; None where it has none.
    """
    needed = [p.name for p in parameters_of(layer).values() if p.default is p.empty]
    if not isinstance(layer, nn.Module) or len(needed) != 1:
        return None
    code, (batch,), kind = docs_of(layer).code, needed, type(layer)
    keys = re.findall(rf"\b{batch}(?:\.get\(|\[)['\"](\w+)['\"]", code)
    listed = re.findall(rf"^\s*(\w+\s*,[\w, ]+)=\s*{batch}\s*$", code, re.MULTILINE)[:1]
    taken = [*dict.fromkeys(keys or re.findall(r"\w+", "".join(listed)))]
    if not taken:
        return None
    order = sorted(taken, key=lambda name: bool(names.MASK.search(name)))  # tokens come before masks of them

    @functools.wraps(kind.forward)  # whose words are its own
    def forward(self, *args, **given):
        held = dict(zip(order, args, strict=False)) | given
        return kind.forward(self, held if keys else [held[name] for name in taken])

    held = ", ".join(f"{name!r}: {name}" if keys else name for name in taken)
    said = f"lambda {', '.join(order)}: batched({f'{{{held}}}' if keys else f'[{held}]'})"
    return _with_forward(layer, forward, order, said)


def embedded(layer: object) -> nn.Module | None:
    """Return a layer of token ids as one of what its embedding makes of these; None where none takes its first input.

    Only where it wants no other input: what is numbered may be anything else, then.
    """
    needed = [p.name for p in parameters_of(layer).values() if p.default is p.empty]
    if not isinstance(layer, nn.Module) or len(needed) != 1:
        return None
    ids, kind, taken = torch.tensor([[1, 2, 3, 4]] * 2), type(layer), {}
    with suppress(Exception), Patient.quietly(), torch.no_grad():  # whatever another's code raises
        trial = copy.deepcopy(layer).eval()
        for path, part in trial.named_modules():
            if isinstance(part, nn.Embedding):
                part.register_forward_pre_hook(lambda _, given, path=path: taken.setdefault(path, given[0]))
        trial(ids)
    path = next((path for path, given in taken.items() if torch.equal(given, ids)), None)
    if path is None:
        return None

    @functools.wraps(kind.forward)
    def forward(self, x, **given):
        self.get_submodule(path).forward = lambda ids: x
        return kind.forward(self, 1 + torch.arange(x.shape[1]).expand(len(x), -1), **given)

    ids = "1 + torch.arange(x.shape[1]).expand(len(x), -1)"
    said = f"lambda x: (setattr(batched.{path}, 'forward', lambda ids: x), batched({ids}))[1]"
    return _with_forward(layer, forward, ["x"], said)


def _with_forward(layer: nn.Module, forward: Callable, order: list[str], said: str) -> nn.Module:
    """Return a layer of the same name, and words, that is called in another way, which is said in code."""
    kind, twin = type(layer), copy.copy(layer)
    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *order)]
    forward.__signature__ = inspect.Signature(own)
    of = {"forward": forward, "unpacked_by": said, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    twin.__class__ = type(kind.__name__, (kind,), of)
    return twin


class _Search(Tries):
    """Looks for a way to call one layer with tokens of one width."""

    def __init__(self, patient: Patient):
        super().__init__(patient)
        target = patient.call.target
        named = parameters_of(target).values()
        self.named = [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.named = self.named or [inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)]
        self.inputs = self._inputs()
        fits = any(patient.d_model in p.shape for p in self.module.parameters())
        self.own = [] if fits else names.widths(self.module)[:1]  # its features, where none are as many as was said
        self.widths = [patient.d_model, *(w for w in names.widths(self.module)[:5] if w != patient.d_model)]
        absent = [p.name for p in self.named if p.default is None and p not in [q for _, q in self.inputs]]
        # Masks of what is not there, such as mem_mask where mem may be left out.
        bare = [re.sub(r"_(hidden|states?|outputs?|input).*", "", n) for n in absent if names.CONTEXT.search(n)]
        stems = [*absent, *(name[:-1] for name in absent), *(rf"{stem}\w*" for stem in bare)]
        apart = any(names.role_of(name) in ("context", "keys") for name in absent)  # other keys, which are not there
        stems += [r"(context|memory|encoder|cross)\w*"] * (apart and len(self.inputs) == 1)
        of_absent = rf"({'|'.join(stems)})_(mask|lens|lengths)"
        self.masks = [p for p in self.named if p not in [q for _, q in self.inputs] and self._is_mask(p)]
        self.masks = [p for p in self.masks if not re.fullmatch(of_absent, p.name)]
        # A function attend(x, mask), in which True = may attend, as in mhalib.
        self.our_form = not isinstance(target, nn.Module) and [p.name for p in self.named][1:] == ["mask"]
        others = [p for p in self.named if p not in [q for _, q in self.inputs] + self.masks]
        self.needed = [p for p in others if p.default is p.empty]
        self.optional = [p for p in others if p.default is None or isinstance(p.default, Tensor)]
        alone = len(self.inputs) == 1
        self.contexts = [p for p in self.optional if alone and names.role_of(p.name) == "context"]
        told = [p for p in self.optional if names.PLACES.search(p.name) or names.turns(p.name)]
        self.left_out = self.contexts + told  # where it may be, unless it runs with them alone
        held = [item for m in self.module.modules() for item in vars(m).items()]
        said = [v for n, v in held if isinstance(v, int) and ("rope" in n or n == "head_dim")]
        self.turned = [self.head_dim, *said, self.head_dim // 2, self.head_dim // 4]  # features of a head
        required = [*(p for _, p in self.inputs), *(p for p in self.masks if p.default is p.empty)]
        self.wanted = [p for p in self.named if p in self.needed + required]
        # Of q, k, v alone four axes are heads, and no picture.
        self.bare = len(self.inputs) == 3 and not [*self.module.parameters()]
        self.layouts = [axes for axes in AXES if axes != "B T" and not (self.bare and "H" in axes)]
        self.of_names: dict[str, list] = {}  # what is known to be meant by a name, as text or value
        self.tries = TRIES
        self.beside = {  # it has the shape of that one
            p: q for p in self.needed for q in self.named if p is not q and re.sub(BESIDE, "", p.name) == q.name
        }
        self.unknown = [p for p in self.needed if not self._values(p)]

    # ------------------------------------------------------------------------------------------- by the signature

    def _inputs(self) -> Inputs:
        """Return role and parameter of each input, in their order."""
        found = [("queries", p) for p in self.named[:1]]
        roles = [names.role_of(p.name) for p in self.named]
        if roles[0] == "context" and len(roles) > 1 and self.named[1].name in ("x", "hidden_states"):
            roles[1] = "queries"
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

    def says(self, pattern: str) -> bool:
        """Whether its source does this with its first argument."""
        return re.search(rf"\b{self.named[0].name}\)?{pattern}", self.patient.docs.code) is not None

    def _is_mask(self, p: inspect.Parameter) -> bool:
        name = p.name.lower()
        if isinstance(p.default, (bool, str, int, float)) or p.annotation in (bool, int, float, "bool", "int"):
            return False  # a flag such as `mask=False` is none
        if names.DOCUMENTS.search(name) or ("len" in name and re.search(rf"\b{p.name}\[:", self.patient.docs.code)):
            return True  # a number for each sample has an axis
        if names.PACKED.search(name):  # those of queries and of keys are one matter, and no mask of either
            return sum(bool(names.PACKED.search(q.name)) for q in self.named) == 1
        others = any(names.role_of(q.name) in ("context", "keys") for q in self.named[1:])
        of_others = others and names.OF_OTHERS.search(name)
        return bool(of_others or (names.MASK.search(name) and not names.NO_MASK.search(name)))

    def _values(self, p: inspect.Parameter, axes: str = "B T d") -> list:
        """Return what to try for an argument by its name, the likelier first; ... where it may be left out."""
        roles = {q: role for role, q in self.inputs}
        if p in self.masks:
            return [None, *[form for form in self.mask_forms(p, axes) if form.kind != "blocked"][:24]]
        if p in roles or p in self.contexts or self.beside.get(p) in roles:  # or one vector for each sample
            values = names.tokens(self.widths, roles.get(self.beside.get(p, p)) not in ("keys", "values"))
        else:
            sizes = dict.fromkeys(max(2, size) for size in self.turned)
            values = [value for size in sizes for value in names.further(p.name, size)]
            values = list({getattr(value, "text", value): value for value in values}.values())
        if names.CACHE.search(p.name) and values == [None]:  # or it wants one, however empty
            values += empty_caches(self.patient.call.target, p.name)
        may_be_none = not values and ("None" in str(p.annotation) or "Optional" in str(p.annotation))
        values = [None] if may_be_none else values
        self.of_names[p.name] = [getattr(value, "text", value) for value in values or names.NUMBERS]
        return [..., *values] if p in self.left_out else values

    def mask_forms(self, p: inspect.Parameter, axes: str) -> list[Mask]:
        """Return the forms of a mask to try, the likelier first."""
        lengths = [Mask(p.name, "lengths", rank, left=left) for left in (False, True) for rank in (2, 1)]
        if names.PACKED.search(p.name) or names.DOCUMENTS.search(p.name):
            return [Mask(p.name, "documents", 1 if names.PACKED.search(p.name) else 2)]
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
        return [*lengths, *(replace(mask, kind=kind) for mask in first for kind in KINDS)]

    # -------------------------------------------------------------------------------------------------- by trying

    def usual(self) -> Adapted | None:
        """Return the first call of a usual number of tokens that runs and gives an output; None where none does."""
        self.tries = TRIES
        return next((form for T in LENGTHS[:3] if (form := self._by_names(T)) is not None), None)

    def of_other_length(self) -> Adapted | None:
        """Return the first call of another number of tokens, where that may be what is wrong."""
        if not any(word in str(self.error) for word in OF_LENGTH):
            return None
        self.tries = TRIES // 3  # there are many of these
        held = [v for m in self.module.modules() for v in vars(m).values() if isinstance(v, (tuple, list))]
        grids = [v[0] * v[1] for v in held if [*map(type, v)] == [int, int] and 9 < v[0] * v[1] <= 256]
        lengths = sorted(dict.fromkeys((*self._hinted(6), *grids, *LENGTHS[3:])), key=lambda T: not self._room(T))
        return next((form for T in lengths if (form := self._by_names(T)) is not None), None)

    def of_numbers(self) -> Adapted | None:
        """Return a call with one number for each token, as a cell of a table, where its source adds an axis to them."""
        if not self.says(NUMBERS):
            return None
        layouts, self.layouts = self.layouts, ["B T"]
        found = self.usual() or self.of_other_length()
        self.layouts = layouts
        return found

    def _by_names(self, T: int) -> Adapted | None:
        """Return the first way to call it with so many tokens and with what the names of arguments say."""
        first, *others = [p for p in self.named if p in self.wanted + self.left_out]
        # No shape tells "T B d" from "B T d", but for a mask that is wanted for each sample.
        # Of a vector for each of T samples nobody could tell what no batch is.
        not_here = ["H W B d"] + ["T B d"] * (not any(p in self.masks for p in others)) + ["T d"] * bool(self.unknown)
        not_here += [axes for axes in AXES if "H" in axes] * (T == LENGTHS[0])  # pictures have several rows
        for axes in [axes for axes in self.layouts if axes not in not_here]:
            tried = {p: self._values(p, axes) for p in others}
            if self.unknown and len(self.unknown) == 1 == len(self.inputs):  # perhaps other tokens
                tried[self.unknown[0]] = names.tokens(self.widths[:4])
            if not all(tried.values()):
                return None
            if (form := self._from(axes, first, tried, T, named=True)) is not None:
                return self._finished(form, T)
        return None

    def _finished(self, form: Adapted, T: int) -> Adapted | None:
        """Return a form that runs with all that is to be known of it; None where it ran by chance."""
        form = self._opened(replace(form, lengths=self._lengths(form, T)), T)
        of_heads = form.axes == "T d" and {*form.lengths} == {1, self.num_heads}
        widths = names.fed(self.module) if form.axes == "B d T" else [self.d_model] * self.bare
        widths += names.shares(widths) * (len(form.inputs) > 1)
        if of_heads or form.lengths in [(width,) for width in widths]:  # it fitted another axis by chance
            return None
        if self._batch_behind(form, T):
            before, form = form.axes, self._turned(replace(form, axes=BATCH_BEHIND[form.axes]), T)
            said = getattr(self.patient.call.target, "batch_first", None) is False
            taken, given = (", ".join(axes.replace("d", "d_model").split()) for axes in (form.axes, before))
            self.patient.notes += [] if said else [BEHIND.format(taken, given, before)]
        form.masks = {p.name: self.mask_forms(p, form.axes) for p in self.masks}
        if self.our_form:
            form.masks = {"mask": [mask for mask in form.masks["mask"] if mask.kind == "allowed"]}
        return replace(form, stated=self.our_form)

    def _opened(self, form: Adapted, T: int) -> Adapted:
        """Return the form with a wanted mask turned round, where it hides every other token as it is."""
        kind = {"allowed": "blocked", "float01": "additive"}.get(getattr(form.mask, "kind", ""))
        x = self.patient.tokens(1, T, 0.01).repeat(2, 1, 1)  # nearly equal: a sharp map hides the others, too
        x[1, T // 2] = x[0, T // 2].roll(1)

        def hides(form: Adapted) -> bool:
            out = self.patient.calling(form)(x)
            return not bool(out.isfinite().all()) or (not form.pooled and int((out[0] != out[1]).any(-1).sum()) < 2)

        with suppress(Crash):
            if kind and hides(form) and not hides(turned := replace(form, mask=replace(form.mask, kind=kind))):
                return turned
        return form

    def step_by_step(self) -> Adapted | None:
        """Return a call found argument by argument: of each the first value with which the layer gets furthest.

        So nothing need be known of an argument. How far it got is the line of its `forward` that raised, and the number
        of operations till then.
        """
        first, *others = self.wanted
        if not others:
            return None
        self.tries = TRIES
        layouts = [axes for axes in self.layouts if axes not in ("T B d", "H W B d", "T d")]
        layouts.sort(key=lambda axes: (axes != "B T d", "," not in axes))
        usual, unusual = ["B T d", names.Filler("x[:, 0]")], [*layouts[1:], "T d"]
        # Of several rows, or of so many as errors speak of.
        pictures = [axes for axes in ("B T d", "B d H W", "B H W d") if axes in self.layouts]
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

    def of_one_query(self) -> Adapted | None:
        """Return a call with one query for each sample, and a memory, that has perhaps its time first."""
        first, *others = self.wanted
        memory = [p for role, p in self.inputs if role == "context" and p is not first] or self.unknown
        one = [(axes, w, rows) for axes in ("T B d", "B T d") for w in self.widths[:4] for rows in ("", "1, ")]
        starts = [names.Filler(f"x.new_ones({rows}len(x), {width})", axes) for axes, width, rows in one]
        starts = starts if len(memory) == 1 else []
        self.tries = TRIES // 3
        tried = {p: self._values(p) or names.tokens(self.widths[:4]) for p in others}
        self.of_names[first.name] = [start.text for start in starts]
        found = (self._from(start, first, tried, 6) for start in starts)
        return next((self._finished(form, 6) for form in found if form is not None), None)

    def _from(
        self, start: object, first: inspect.Parameter, tried: dict, T: int, named: bool = False
    ) -> Adapted | None:
        """Return a call that runs, from where the first argument is known; None where nothing gets it further.

        What names say need not be doubted.
        """
        chosen, furthest, before = {first: start} | {p: values[0] for p, values in tried.items()}, (-1, 0), None
        done = set()
        while before != (before := furthest):
            for turn in self._turns(tried):
                form, these = self._made_of(chosen | turn), chosen | turn
                values = tuple(getattr(value, "text", value) for value in these.values())
                if form is None or not self.tries or values in done:
                    continue
                done.add(values)
                self.tries -= 1
                picked = self._picked(form, T)
                if picked is not None and ((named and not form.guessed) or self._runs_elsewhere(picked, T)):
                    return picked
                elif self.reached > furthest:
                    chosen, furthest = chosen | turn, self.reached
        return None

    def _any_number(self, form: Adapted, T: int) -> list[str]:
        """Return the unknown arguments for which several numbers would do; then nobody knows which is meant."""

        def runs(name: str, number: names.Filler) -> bool:
            return not isinstance(self._answer(replace(form, also=form.also | {name: number}), 3, T), Exception)

        texts = [number.text for number in names.NUMBERS]
        those = [p.name for p in self.unknown if getattr(form.also.get(p.name), "text", "") in texts]
        tried = names.NUMBERS[:3]  # one, as many as samples, as many as tokens
        return [name for name in those if name not in form.made_up and sum(runs(name, n) for n in tried) > 1]

    def _hinted(self, most: int) -> list[int]:
        """Return the numbers of tokens of which those errors spoke that came latest."""
        hinted = [n for n in self.hints if n >= len(self.inputs)]  # one query beside a memory: see of_one_query
        return sorted(hinted, key=self.hints.get, reverse=True)[:most]

    def _turns(self, tried: dict[inspect.Parameter, list]) -> Iterator[dict[inspect.Parameter, object]]:
        """Yield what to change: nothing, one argument after the other, and all masks together, or all angles."""
        yield {}
        yield from ({p: value} for p, values in tried.items() for value in values[1:])
        beside = ([*one] for one in self.beside.items() if one[1] in tried)
        for alike in (*beside, [p for p in tried if p in self.masks], [p for p in tried if names.turns(p.name)]):
            together = zip(*(tried[p] for p in alike), strict=False) if len(alike) > 1 else ()
            yield from (dict(zip(alike, values, strict=True)) for values in together)

    def _anything(self, p: inspect.Parameter, skipped: int) -> list:
        """Return what to try for an argument, what its name, words or annotation say first."""
        values = self._values(p)
        if p.annotation in (int, "int"):
            return [*values, *names.NUMBERS]
        values += names.anything(self.widths)
        if skipped and p not in [q for _, q in self.inputs] + self.masks:  # behind tokens that are no places
            known = len(self.of_names[p.name]) * (p not in self.unknown)
            values = [names.Filler(re.sub(r"\bx\b", "x[:, 1:]", v.text)) if callable(v) else v for v in values]
            self.of_names[p.name] += [getattr(value, "text", value) for value in values[:known]]
        return values

    def _made_of(self, chosen: dict[inspect.Parameter, object]) -> Adapted | None:
        """Return the form with these arguments; None where none of them are tokens."""
        chosen = {p: value for p, value in chosen.items() if value is not ...}
        first, roles = next(iter(chosen)), {p: role for role, p in self.inputs}
        texts = {p: getattr(value, "text", "") for p, value in chosen.items()}
        tokens = [p for p, text in texts.items() if p is not first and re.match(r"x$|x\.repeat", text)]
        whole = isinstance(chosen[first], str)
        main = first if whole else next(iter(tokens), None)
        if main is None:  # nothing has all tokens
            return None
        left = sorted((p for p in tokens if p is not main and p not in self.beside), key=lambda p: texts[p] != "x")
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
        sure = [p for p in given if isinstance(chosen[p], Mask) or values[p] in self.of_names.get(p.name, (None,))]
        gap = [p for _, p in inputs] != self.named[: len(inputs)]  # what is between them goes by name
        return replace(
            self.patient.call,
            inputs=tuple((role, p.name if gap or p.kind is p.KEYWORD_ONLY else None) for role, p in inputs),
            axes=chosen[first] if whole else chosen[first].axes,
            also=also,
            mask=mask and replace(mask, always=True),
            widths=tuple(wide[role] for role in sorted(wide, key=ORDER.index)) if len({*wide.values()}) > 1 else (),
            guessed=any(p in self.unknown for p in others),
            made_up=tuple(p.name for p in given if p not in sure),
        )

    def _attends(self) -> bool:
        """Whether the usual call shows anything that attention is made of."""
        with seeing(self.module) as seen:
            self._answer(self.patient.call, self.batch, LENGTHS[0])
        return seen.met

    def refused(self) -> Adapted:
        """Return the usual call of a layer that is known to fit, for the laws to show what it does; else ask."""
        if self.our_form or (self.unmerged and len(self.wanted) == len(self.inputs) and self._attends()):
            return replace(self.patient.call, masks={p.name: [Mask(p.name)] for p in self.masks})
        name, wanted = name_of(self.patient.call.target), ", ".join(p.name for p in self.named)
        no_way = f"no way of calling {name}({wanted}) was found"
        if unknown := [p.name for p in self.unknown]:
            missing = ", ".join(f"{n!r}: ..." for n in unknown)
            no_way += f", and nothing is known of {', '.join(unknown)}; say adapt(layer, also={{{missing}}}), {WRAP}"
            raise TypeError(no_way)
        said = f"{type(self.error).__name__}: {self.error}".splitlines()[0]
        if self.own:
            raise ValueError(f"{name} has weights for {self.own[0]} features, and d_model is {self.d_model}")
        if self.d_model % (self.num_heads or 1) and re.search("divi|invalid for", said):
            raise ValueError(f"{self.num_heads} heads do not divide {self.d_model} features: {said}")
        with_tokens = f"with tokens (B, T, {self.d_model}) it raised {said}"
        raise TypeError(f"{no_way}; {with_tokens}. Say how it is called with adapt(...), {WRAP}")
