"""Generating with a cache gives what the full pass gives, one new token after the other.

The first tokens are handed over, then one, one, and two more with the cache; each output is compared with that of a
call with all tokens so far and no cache. No causal mask is needed: the last token sees all that came before. Only where
each way of caching that runs is far off, something is found.
"""

import io
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass

import torch
from torch import Tensor

from attention_doctor.calls.caching import (
    Run,
    Way,
    copied,
    filled,
    grew,
    joined_on,
    keeps_something,
    kept,
    shapes,
    ways,
)
from attention_doctor.calls.pieces import Arguments, Form, NoCache, Pieces, arguments_of, forms
from attention_doctor.patient import Patient, amount
from attention_doctor.report import Report
from attention_doctor.setting import Setting

FAR = 1e-3  # of the largest difference between the outputs of tokens; less may be rounding, also in low precision


@dataclass(frozen=True)
class Outcome:
    """What came of one way of caching.

    Args:
        way: of handing the cache over.
        pieces: the layer and the tokens.
        n: tokens of the first piece.
        off: the difference from the full pass for each further piece, as a share of how much outputs differ.
        difference: the same in numbers, of the piece that is off first.
    """

    way: Way
    pieces: Pieces
    n: int
    off: tuple[float, ...]
    difference: Tensor

    @property
    def first_wrong(self) -> int:
        """Which piece of one token is off first; the number of pieces where none is."""
        return next((i for i, off in enumerate(self.off[:2]) if not off <= FAR), len(self.off))


def caches_as_the_full_pass(patient: Patient, setting: Setting, report: Report) -> None:
    """Look for a way of caching that gives what the full pass gives; without one, tell what went wrong."""
    attend = patient.attend
    arguments = arguments_of(attend.target)
    if not arguments.caches and not (arguments.starts or arguments.places or arguments.flags):
        return
    if not report.ok or attend.lengths or attend.axes not in ("B T d", "T B d") or attend.convention == "torch":
        return
    n = _first_length(patient)
    with _quietly():
        outcomes = []
        for batch in (2, 1) if arguments.caches else (2,):
            x = patient.noise(batch, n + 4, 40).to(patient.device, patient.dtype)
            outcomes = outcomes or _outcomes(Pieces(attend, arguments, x), n)
        _judge(outcomes, arguments, setting, report)


def _judge(outcomes: list[Outcome], arguments: Arguments, setting: Setting, report: Report) -> None:
    if not outcomes:
        if arguments.caches:
            report.skip("cache", f"no way of generating with {', '.join(arguments.caches)} was found that runs")
        return
    best = max(outcomes, key=lambda o: (o.first_wrong, -max(o.off[:2])))
    if best.first_wrong == len(best.off):
        if not best.off[2] <= FAR:
            report.skip("cache", "two new tokens at once differ from the full pass; one at a time does not")
    elif setting.sight == "window":
        report.skip("cache", "generating differs from the full pass; not judged in layers that see a window")
    else:
        seen = _seen(best)
        untold = [name for name in arguments.others if name not in best.pieces.attend.also]
        if untold:
            report.skip("cache", f"generating differs from the full pass; does it say places in {', '.join(untold)}?")
        else:
            report.find("cache-differs", _evidence(best, seen))


def _first_length(patient: Patient) -> int:
    """Return a number of tokens so that it, and those that follow, are no other size of the layer."""
    head_dim = patient.head_dim
    others = {1, 2, patient.num_heads, head_dim, head_dim // 2, 2 * head_dim, patient.d_model}
    return next(n for n in range(5, 10**6) if not others & {n, n + 1, n + 2, n + 4})


@contextmanager
def _quietly():
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


# ----------------------------------------------------------------------------------------------------- with and without


def _outcomes(pieces: Pieces, n: int) -> list[Outcome]:
    """Return what came of each way that runs, up to the first that is right."""
    found, ran = [], set()
    for form in forms(pieces.attend, pieces.arguments):
        if (form.told, form.flags) in ran:  # as it runs without a mask, or with the places of each sample
            continue
        try:
            keeps = keeps_something(pieces, form, n)
            if not keeps and not pieces.arguments.caches:
                continue
            full = {b: pieces.output(_whole(pieces, form, b, keeps), b) for b in (n, n + 1, n + 2, n + 4)}
        except Exception:
            continue
        ran.add((form.told, form.flags))
        for way in ways(pieces, form, n, keeps):
            try:
                outcome = _outcome(pieces, way, n, full)
            except Exception:  # a way that does not run is none, whatever is raised
                continue
            found.append(outcome)
            if max(outcome.off) <= FAR:
                return found
    return found


def _outcome(pieces: Pieces, way: Way, n: int, full: dict[int, Tensor]) -> Outcome:
    run, last = Run(pieces, way), full[n + 4]
    spread = float((last - last.mean(1, keepdim=True)).abs().max())
    if not spread > 0 or not _near(run.feed(0, n), full[n], spread):
        raise NoCache("the first tokens have other outputs with a cache")
    if not way.name and not _remembers(pieces, way, n):
        raise NoCache("new tokens know nothing of earlier ones")
    off, differences = [], []
    for a, b in ((n, n + 1), (n + 1, n + 2), (n + 2, n + 4)):
        before = shapes(run.held), ([] if way.name else kept(run.target))
        try:
            out = run.feed(a, b)
        except Exception:
            if b == n + 4:  # one token at a time is all that it takes
                off.append(0.0)
                break
            raise
        if way.name:
            grown = grew(before[0], shapes(run.held), b - a) or joined_on(before[0], shapes(run.held))
        else:
            grown = filled(before[1], kept(run.target), a, b)
        if not grown:
            raise NoCache("it does not grow")
        differences.append(out - full[b][:, a:])
        off.append(float(differences[-1].abs().max()) / spread)
    coarse = max((torch.finfo(t.dtype).eps if t.is_floating_point() else 1.0 for t in run.tensors()), default=0.0)
    if 4 * coarse > FAR:
        raise NoCache("it is kept in low precision")
    wrong = next((d for d, o in zip(differences, off, strict=False) if not o <= FAR), differences[0])
    return Outcome(way, pieces, n, tuple(off), wrong)


def _remembers(pieces: Pieces, way: Way, n: int) -> bool:
    """Whether a new token sees anything of the first ones: what a module keeps may be something else than a cache."""
    outs = []
    for x in (pieces.x, torch.cat([pieces.x[:, :n].roll(1, -1), pieces.x[:, n:]], 1)):
        run = Run(Pieces(pieces.attend, pieces.arguments, x), way)
        run.feed(0, n)
        outs.append(run.feed(n, n + 1))
    return not torch.allclose(*outs)


def _near(a: Tensor, b: Tensor, spread: float) -> bool:
    return float((a - b).abs().max()) <= FAR * spread


# -------------------------------------------------------------------------------------------------------------- why


def _evidence(outcome: Outcome, seen: str) -> str:
    way, n, wrong = outcome.way, outcome.n, outcome.first_wrong
    where = f"in {way.name}" if way.name else "in the module"
    text = (
        f"{n} tokens, then one at a time with the cache {where}: the output of token {n + wrong} (counted from 0) "
        f"differs from the full pass by up to {amount(outcome.difference)}"
    )
    causes = [cause for cause in (seen, _kept_otherwise(outcome)) if cause]
    return "; ".join([text, *causes]) + "."


def _seen(outcome: Outcome) -> str:
    """Say which tokens a new one sees, where they are not those of the full pass."""
    n, pieces = outcome.n, outcome.pieces
    cached, full = torch.zeros(n + 1, dtype=torch.bool), torch.zeros(n + 1, dtype=torch.bool)
    for j in range(-1, n + 1):
        x = pieces.x.clone()
        if j >= 0:
            x[:, j] = x[:, j].roll(1, -1) - 0.5 * x[:, j]
        changed = Pieces(pieces.attend, pieces.arguments, x)
        run = Run(changed, outcome.way)
        run.feed(0, n)
        outs = run.feed(n, n + 1), changed.output(_whole(changed, outcome.way.form, n + 1), n + 1)[:, -1:]
        if j < 0:
            before = outs
            continue
        for seen, new, old in zip((cached, full), outs, before, strict=True):
            seen[j] = bool((new - old).abs().max() > 1e-5 * old.abs().max())
    # Its own token reaches it also by a residual connection.
    if torch.equal(cached[:n], full[:n]):
        return "" if cached[n] or not full[n] else "the new token does not see itself"
    text = f"the new token sees {_listed(cached)}, in the full pass {_listed(full)}"
    corner = bool(cached[0]) and not cached[1:n].any()
    return f"{text}: a causal mask or a range for the new tokens alone, which starts at key 0" if corner else text


def _whole(pieces: Pieces, form: Form, b: int, keeps: bool = True) -> object:
    target = pieces.attend.target
    return pieces.call(copied(target) if keeps else target, form, 0, b, {})


def _listed(seen: Tensor) -> str:
    places = seen.nonzero().flatten().tolist()
    if len(places) == len(seen):
        return "all"
    return "none" if not places else f"only {', '.join(map(str, places))}"


def _kept_otherwise(outcome: Outcome) -> str:
    """Say what the cache holds, where it is not what a call with all tokens puts into it."""
    n, pieces, way = outcome.n, outcome.pieces, outcome.way
    if not way.name:
        return ""
    try:
        step, whole, new = (Run(pieces, way) for _ in range(3))
        step.feed(0, n)
        step.feed(n, n + 1)
        whole.feed(0, n + 1)
        alone = Pieces(pieces.attend, pieces.arguments, pieces.x[:, n : n + 1])
        new = Run(alone, way)
        new.feed(0, 1)
    except Exception:
        return ""
    for part, (held, right, first) in enumerate(zip(step.tensors(), whole.tensors(), new.tensors(), strict=True)):
        axes = [i for i, (s, t) in enumerate(zip(first.shape, right.shape, strict=True)) if s != t]
        if held.shape != right.shape or len(axes) != 1 or _same(held, right):
            continue
        which = ("the keys", "the values")[part] if len(step.tensors()) == 2 else "it"
        held, right = held.movedim(axes[0], 0), right.movedim(axes[0], 0)
        first = first.movedim(axes[0], 0)
        if _same(held, right.roll(1, 0)):
            return f"of the cache, {which} hold the new token before the older ones"
        if _same(held[:n], right[:n]) and _same(held[n:], first):
            return f"of the cache, {which} hold the new token as if it stood at place 0: its place has to go on"
        return f"of the cache, {which} are not those of the full pass"
    return "what the cache holds is right, how it is used is not"


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-4)
