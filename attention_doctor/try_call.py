"""What a way of calling a layer gives: an output or an error, how far it came, for which numbers of tokens it runs."""

import inspect
import math
import re
import traceback
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from attention_doctor.argument_names import Filler
from attention_doctor.calling import BATCH_BEHIND, Adapted, parts, picture, turned_back
from attention_doctor.look import seeing
from attention_doctor.patient import Crash, Patient

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only


class Tries:
    """Calls one layer in the ways that are tried, with tokens of one width, and keeps what is learned of it."""

    def __init__(self, patient: Patient):
        self.patient, self.module, self.held = patient, patient.module, patient.kept()
        self.d_model, self.num_heads, self.head_dim = patient.d_model, patient.num_heads, patient.head_dim
        self.batch = 2 if patient.num_heads == 3 else 3
        self.widths: list[int] = []  # features that inputs may have
        self.error: Exception | None = None  # the first one
        self.unmerged = False  # whether it gave heads
        self.reached = 0, 0  # how far the last call came
        self.hints: dict[int, tuple] = {}  # numbers of tokens that errors speak of, and how far they came at most

    def _counted(self, *args, **words) -> object:
        """Call the layer; keep how far it gets: the line of its forward, and the number of operations."""
        target = self.patient.call.target
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
        x = patient.tokens(1 if form.axes == "T d" else batch, T, 0.5).to(patient.dtype)
        with patient.quietly(), torch.no_grad():
            try:
                return form.result(patient.inputs(x))
            except Exception as error:
                if patient.kept() != self.held:  # what it kept of this try is not to spoil the next
                    self.patient = self.patient.unused() or self.patient
                return error

    def _picked(self, form: Adapted, T: int) -> Adapted | None:
        """Return the form with the part of the result that is the output; None where none may be."""
        many, shapes = 1 if form.axes == "T d" else self.batch, {}
        for tokens in (T, T + 2):
            result = self._answer(form, self.batch, tokens)
            if isinstance(result, Exception):
                if tokens == T:
                    self.error = self.error or result
                    for n in {*lengths_meant(result, T, self.d_model)} - {*LENGTHS[:3]}:
                        self.hints[n] = max(self.hints.get(n, (0, 0)), self.reached)
                elif form.guessed and "," in form.axes:  # it fitted by chance
                    return None
                break  # a layer of one number of tokens
            for output, part in parts(result):
                if part.is_floating_point() and part.ndim:
                    shapes.setdefault(output, []).append((tuple(turned_back(part, form.axes).shape), tokens))
        first = {output: seen[0][0] for output, seen in shapes.items()}
        whole = [o for o, seen in shapes.items() if all(shape == (many, n, *first[o][-1:]) for shape, n in seen)]
        same = [o for o, seen in shapes.items() if len({shape for shape, _ in seen}) == 1]
        axes = max(3, len(form.axes.partition(",")[0].split()) - 1)
        few = [o for o in same if first[o][0] == many and len(first[o]) <= axes and first[o][1:-1] != (T,)]
        few += [o for o, seen in shapes.items() if o not in same and all(_more_tokens(*one, many) for one in seen)]
        one = form.inputs[0][1] is not None  # a query stands before the tokens
        pooled = few if form.axes != "T d" and (form.axes != "T B d" or one) else []
        line = [o for o, seen in shapes.items() if all(shape == (many, n) for shape, n in seen)]  # a number each
        line = line if form.axes == "B T d" and not (whole or pooled) and self._weighs(form, T) else []
        fitting = whole or pooled or line
        fitting = [o for o in [*whole, *pooled] if not _is_weights(o)] or fitting  # such as {"attention": ...}
        if not fitting:
            sizes = [(torch.Size(shape).numel(), len(shape) > 3) for shape in first.values()]
            self.unmerged |= sizes == [(many * T * self.d_model, True)] and form.axes == "B T d"
            self.error = self.error or (ValueError(f"x gave {[*first.values()]}") if shapes else None)
            return None
        best = min(fitting, key=lambda output: first[output][-1] != self.d_model)
        usual = best in (None, 0) and best == next(iter(shapes))
        return replace(form, output=None if usual else best, pooled=best in pooled, bare=best in line)

    def _weighs(self, form: Adapted, T: int) -> bool:
        """Whether weights meet values in it, so that its output is no map."""
        with seeing(self.module) as seen:
            self._answer(form, self.batch, T)
        return bool(seen.steps)

    def _lengths(self, form: Adapted, T: int) -> tuple[int, ...]:
        """Return the only numbers of tokens that it takes, where that is its design; () where it takes any."""

        def runs(n: int) -> bool:  # as new: what it kept of another length is no limit
            fresh = self.patient.calling(form).unused()
            return fresh is None or self._is_output(fresh.call, 2, n)

        if runs(3) and runs(T + 2) and runs(7):
            return ()
        ran = tuple(n for n in dict.fromkeys((*range(1, 13), T)) if runs(n)) or (T,)
        ran += (64,) * (ran == (16,) and " H" in form.axes and runs(64))  # several windows of a picture
        all_up_to_a_longest = {*ran} == {*range(1, max(ran) + 1)}
        by_chance = ran == (T,) and form.axes != "B d T" and T in (self.head_dim, self.num_heads) and not self._room(T)
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
        pictured = pictured or any(T in x.shape[:-1] for x in self.module.buffers())  # as angles of each place
        return pictured or {T * T, T + 1} & sizes or any([*shape].count(T) > 1 for shape in shapes)

    def _turned(self, form: Adapted, T: int) -> Adapted:
        """Return the form with what is made of the tokens turned as they are, where it does not run as it is."""
        if not isinstance(self._answer(form, self.batch, T), Exception):
            return form
        x, made = self.patient.tokens(2, T, 0.5), [(n, v) for n, v in form.also.items() if callable(v)]
        those = [(n, v) for n, v in made if getattr(v(x), "shape", ())[:2] == x.shape[:2]]
        return replace(form, also=form.also | {n: Filler(f"({v.text}).transpose(0, 1)") for n, v in those})

    def _batch_behind(self, form: Adapted, T: int) -> bool:
        """Whether tokens meet along the first axis of x, and none along the last, as in a layer for (T, B, d_model)."""
        patient = self.patient.calling(form)
        if form.axes not in BATCH_BEHIND or form.pooled or patient.docs.batch_first:
            return False
        x = patient.tokens(self.batch, 6 if "H" in form.axes else T, 0.5)
        changed = x.clone()
        changed[0, 0] += changed[0, 0].roll(1)
        try:
            before, after = patient(x), patient(changed)
        except Crash:
            return False
        moved = (after - before).abs().amax(-1) > 1e-6 * before.abs().max()  # (B, T)
        last = moved.view(len(x), -1, 3 if "H" in form.axes else T)
        return bool(moved[1:].any() and last[..., 0].any() and not last[..., 1:].any())

    def _runs_elsewhere(self, form: Adapted, T: int) -> bool:
        """Whether it runs with other numbers of samples, and what was made up with another number of tokens."""
        others = (T + 2, 36, 64) if form.made_up or form.guessed else ()
        runs = all(self._is_output(form, batch, T) for batch in (2, 5))
        finite = runs and all(bool(part.isfinite().all()) for _, part in parts(self._answer(form, 2, T)))
        return (runs and not others) or (finite and any(self._is_output(form, 2, n) for n in others))


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
    return [n for n in numbers if T < n <= 256] + [n * n for n in numbers if 2 < n <= 16]


def _is_weights(output: int | str | None) -> bool:
    """Whether the name of a part of the result says that it is the weights."""
    return isinstance(output, str) and bool(
        re.search(r"^a$|att(entio)?n(?!.*out)|alpha|weight|map|prob|score|sim", output)
    )
