"""Experiments that compare two calls, as code: a token, a sample or a mask is changed, and others must not move.

Each yields bodies of code, from the smallest sizes on; the first that fails is shown. Numbers in the messages are
worked out where the code runs. Here is also what all experiments share: sizes, tokens, tolerances, assertions.
"""

from collections.abc import Callable, Iterator
from itertools import product

import torch

from attention_doctor.examples.wording import Wording

Bodies = Iterator[list[str]]
LARGEST = 64  # tokens or samples in an example
# Nearly equal tokens show what sharp maps hide from different ones: what stands before the tokens and a change of one.
SPREADS = ("", "0.1 * ", "0.05 * ")
WIDTH = 116


def check(condition: str, message: str) -> list[str]:
    """Return an assertion as lines that are not too long; the message may hold `{…}`."""
    if len(line := f'assert {condition}, {"f" * ("{" in message)}"{message}"') <= WIDTH:
        return [line]
    words, rows = message.split(" "), [""]
    for word in words:
        if len(rows[-1]) + len(word) > WIDTH - 12:
            rows.append("")
        rows[-1] += f"{word} "
    rows[-1] = rows[-1][:-1]
    return [f"assert {condition}, (", *(f'    f"{row}"' if "{" in row else f'    "{row}"' for row in rows), ")"]


def tolerance(say: Wording, crosswise: bool = False) -> str:
    """Return up to which share outputs differ by rounding; `crosswise` for those of calls of other shapes."""
    dtype = say.case.dtype
    if dtype.itemsize >= 4:
        return "1e-4" if crosswise else "1e-5"
    return f"{(16 if crosswise else 4) * torch.finfo(dtype).eps:.2g}"


def sizes(say: Wording, legal: bool = True) -> list[tuple[int, int]]:
    """Return numbers of samples and of tokens, small ones first, and those that agree with a size of the layer.

    Where the layer takes only some numbers of tokens these, unless others are asked for, too.
    """
    h, head_dim, T = say.case.num_heads or 1, say.case.head_dim or 1, say.case.setting.T
    small = [(1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 2), (2, 3)]
    agreeing = [(1, h), (1, head_dim), (1, T), (2, T), (3, T), (h, 3), (h, T), (2, h), (h, h)]
    later = sorted((B, T) for B, T in {*agreeing} - {*small} if T > 1 and B <= LARGEST and T <= LARGEST)
    lengths = getattr(say.case.attend, "lengths", ()) if legal else ()
    return [(B, T) for B, T in [*small, *later] if (say.batched or B == 1) and (not lengths or T in lengths)]


def noted(line: str, note: str) -> list[str]:
    """Return a line of code and what is to be said of it, before it where both together are too long."""
    return [f"{line}  # {note}"] if len(line) + len(note) < WIDTH else [f"# {note}", line]


def tokens(say: Wording, B: int, T: int, spread: str = "") -> list[str]:
    """Return the line that draws the input."""
    near = f"{say.draw(1, 1)} + " if spread == SPREADS[-1] else ""
    return noted(f"x = {near}{say.draw(B, T, spread)}", say.axes)


def mask_line(say: Wording, kind: str, B: int, T: int, ndim: int | None = None) -> list[str]:
    """Return the line that makes the mask, if there is one."""
    if kind == "none":
        return []
    return noted(f"mask = {say.mask(kind, B, T, ndim)}", f"{say.mask_axes(ndim)}{say.form}: {say.says(kind)}")


def given(kind: str) -> str | None:
    """Return the name under which a mask of this kind is handed over."""
    return None if kind == "none" else "mask"


# ----------------------------------------------------------------------------------------- one token changed


def leak(*kinds: str, saying: str = "") -> Callable[[Wording, str], Bodies]:
    """Return the experiment that changes a token which a mask of these kinds hides; "none" in a causal layer."""

    def experiment(say: Wording, evidence: str) -> Bodies:
        taken = [kind for kind in kinds if kind in say.kinds or (kind == "none" and is_causal(say, evidence))]
        for spread, (B, T) in product(SPREADS, sizes(say)):
            for kind in taken:
                shows = "causal" if kind == "none" else kind
                # A query at a place that is hidden from all is nobody's business.
                hidden = [
                    (t, j) for j in reversed(range(T)) for t in range(T)
                    if not say.shows(shows, t, j, T) and say.shows(shows, t, t, T)
                ]  # fmt: skip
                for t, j in hidden[:30]:
                    yield _leak(say, kind, (B, T), (t, j), spread, saying)

    return experiment


def _leak(say: Wording, kind: str, size: tuple[int, int], pair: tuple[int, int], spread: str, saying: str) -> list[str]:
    (B, T), (t, j), mask = size, pair, given(kind)
    why = f"token {j} comes later" if kind == "none" else f"the mask hides token {j} from it"
    after = say.call("changed", mask, B=B, T=T)
    return [
        *tokens(say, B, T, spread),
        *mask_line(say, kind, B, T),
        f"before = {say.call('x', mask, B=B, T=T)}",
        "changed = x.clone()",
        f"{say.at('changed', 0, j)} += {say.token(spread)}  # another token {j}, and nothing else",
        f"moved = {say.at(f'({after} - before)', 0, t)}.abs().max()",
        *check(
            f"moved <= {tolerance(say)} * {say.at('before', 0, t)}.abs().max()",
            f"output {t} moved by {{moved:.2g}} with token {j}, although {why}{saying}",
        ),
    ]


def is_causal(say: Wording, evidence: str) -> bool:
    case = say.case
    said = "causal expected" in evidence or "future" in evidence
    return case.attend.causal or case.setting.sight == "causal" or said or "without a mask; " in evidence


def still(say: Wording, evidence: str) -> Bodies:
    """Change the first token, or the last one: another output has to move."""
    for (B, T), j in product(sizes(say), (0, -1)):
        if j == -1 and is_causal(say, evidence):
            continue
        j, others = (0, f"1:{T}") if j == 0 else (T - 1, f":{T - 1}")
        after = say.call("changed", B=B, T=T)
        yield [
            *tokens(say, B, T),
            f"before = {say.call('x', B=B, T=T)}",
            "changed = x.clone()",
            f"{say.at('changed', 0, j)} += {say.token('10 * ')}  # another token {j}, and nothing else",
            f"moved = {say.at(f'({after} - before)', 0, others)}.abs().max()",
            *check(
                "moved > 1e-7 * before.abs().max()",
                f"token {j} changed, and none of the other outputs moved: they do not see it",
            ),
        ]


# --------------------------------------------------------------------------------------------------- samples


def samples(say: Wording, evidence: str) -> Bodies:
    """Change one sample, look at the others; then take a sample out of its batch."""
    for spread, (B, T) in product(SPREADS, [size for size in sizes(say) if size[0] > 1]):
        after = say.call("changed", B=B, T=T)
        draws = [*tokens(say, B, T, spread), f"before = {say.call('x', B=B, T=T)}"]
        yield [
            *draws,
            "changed = x.clone()",
            f"{say.at('changed', 0)} += {say.at(say.draw(1, T, spread), 0)}  # another sample 0, and nothing else",
            f"moved = {say.at(f'({after} - before)', '1:')}.abs().max()",
            *check(
                f"moved <= {tolerance(say)} * before.abs().max()",
                "sample 0 changed, and the outputs of the other samples moved by up to {moved:.2g}",
            ),
        ]
        for i in (0, B - 1):
            part = say.at("x", f"{i}:{i + 1}")
            yield [
                *draws,
                f"alone = {say.call(part, B=1, T=T)}",
                f"off = (alone - {say.at('before', f'{i}:{i + 1}')}).abs().max()",
                *check(
                    f"off <= {tolerance(say, True)} * before.abs().max()",
                    f"sample {i} alone and the same sample in a batch of {B} differ by up to {{off:.2g}}",
                ),
            ]


def another_mask(say: Wording, evidence: str) -> Bodies:
    """Give one sample another mask: the outputs of the others stay."""
    for spread, (B, T) in product(SPREADS, [size for size in sizes(say) if size[0] > 1]):
        for i in (0, B - 1):
            if say.kind == "lengths":
                shape, rest = (f"({B},)", "") if say.case.attend.mask_rank == 1 else (f"({B}, {T})", ", :")
                usual, other = f"mask = torch.full({shape}, {T}){say.on()}", f"mask[{i}{rest}] = 1"
            else:
                full = f"{B}, {T}" if say.over_keys else f"{B}, {T}, {T}"
                usual, other = f"mask = torch.ones({full}, dtype=torch.bool)", f"mask[{i}, ..., 1:] = False"
            native = f"mask{say.on()}.clone()" if say.kind == "lengths" else say.native("mask", B, T, "each")
            others = "1:" if i == 0 else f":{B - 1}"
            yield [
                *tokens(say, B, T, spread),
                f"{usual}  # True = may attend" if say.kind != "lengths" else usual,
                f"before = {say.call('x', native, B=B, T=T)}",
                f"{other}  # sample {i} alone sees token 0 only",
                f"after = {say.call('x', native, B=B, T=T)}",
                f"moved = {say.at('(after - before)', others)}.abs().max()",
                *check(
                    f"moved <= {tolerance(say)} * before.abs().max()",
                    f"another mask for sample {i} alone moved the outputs of other samples by up to {{moved:.2g}}",
                ),
            ]
