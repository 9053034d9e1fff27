"""The tables of BENCHMARKS.md on large maps, on what coded weights keep, and on the maps of any model.

What is measured stands in `large.py`, `codes.py` and `captured.py`, the words in `texts.py`.
"""

import math

from tools.bench import captured, codes, large, layer
from tools.bench.live import Step
from tools.bench.report import FRAME, Part, Rows, median, readable, table, times, verdict
from tools.bench.texts import CAPTURE, CODES, LARGE
from tools.bench.widgets import Pages

FIRST, MOST_BYTES, BESIDE = 5000, 5e6, 0.1  # goals at 4.3 billion weights: milliseconds, bytes, share of the weights
WEIGHTS = math.prod(large.HUGE) * large.HUGE[-1]
LONG_FIRST, WITH_TILES = 1000, 50  # goals at one head of 8,192 tokens: milliseconds

# ---------------------------------------------------------------- 4.3 billion weights, and 8,192 tokens


def large_part(pages: Pages, chromium: str) -> Part:
    """Measure HeadView on large maps; return the words with the tables, and the rows of the targets."""
    shape = large.shape_that_fits(large.free_bytes())
    huge, of_huge = huge_table(large.huge(shape, chromium), shape, large.bytes_of_others(WEIGHTS))
    one, of_one = one_table(*large.long_head(pages), *large.imshow_steps())
    sizes = dict(zip(("layers", "heads", "tokens"), (f"{size:,}" for size in large.HUGE), strict=True))
    words = LARGE.format(
        billions=f"{WEIGHTS / 1e9:.1f} billion",
        huge=huge,
        stand_in=stand_in(shape),
        small=large.SMALL,
        one=one,
        long=f"{large.LONG:,}",
        **sizes,
    )
    return words, [*of_huge, *of_one]


def stand_in(shape: tuple[int, int, int]) -> str:
    """Return the sentence that says what was measured instead of the whole, where it was."""
    if shape == large.HUGE:
        return ""
    layers, heads, tokens = shape
    return (
        f"Measured on {layers} × {heads} × {tokens:,} instead, by the same code: the weights take 8.6 GB, and "
        f"{large.NEEDS_FREE / 1e9:.0f} GB of memory were not free.\n\n"
    )


def huge_table(found: dict, shape: tuple[int, int, int], others: dict[str, float]) -> tuple[str, Rows]:
    """Return the table of HeadView beside what others would weigh, and the rows of its targets."""
    total, grown = found["python"] + found["paint"], found["memory"]
    name = "HeadView" if shape == large.HUGE else f"HeadView, {' × '.join(f'{size:,}' for size in shape)}"
    share = f"{100 * grown:.1f} %" if grown is not None else "not measured"
    rows = [
        ["", "Python", "first paint", "bytes", "memory beside the weights"],
        [name, readable(found["python"]), readable(found["paint"]), f"{found['size'] / 1e6:.2f} MB", share],
    ]
    for name, size in others.items():
        rows.append([f"{name}, extrapolated", "–", "–", f"{size / 1e9:,.0f} GB", "–"])
    what = f"HeadView, {' × '.join(f'{size:,}' for size in shape)} in half precision"
    targets = [
        verdict(f"{what}: first paint in ≤ {FIRST / 1000:.0f} s", readable(total), total <= FIRST),
        verdict(f"{what}: ≤ {MOST_BYTES / 1e6:.0f} MB", f"{found['size'] / 1e6:.2f} MB", found["size"] <= MOST_BYTES),
    ]
    name = f"{what}: memory ≤ {100 * BESIDE:.0f} % of the weights"
    targets.append([name, share, ""] if grown is None else verdict(name, share, grown <= BESIDE))
    return table(*rows), targets


def one_table(
    looks: list[float], fresh: list[Step], there: list[Step], first: float, plotted: list[float]
) -> tuple[str, Rows]:
    """Return the table of one long head beside `imshow`, and the rows of its targets."""
    asking = [step for step in fresh if step.asked]
    work, with_tiles = [step.work for step in there], [step.work + step.kernel for step in asking]
    tiles = f"a step, with {median([step.asked for step in asking]):.0f} tiles from the kernel"
    rows = [["", "median", "worst", "steps"]]
    for name, spent, ours in (
        ("HeadView, first paint", looks, None),
        ("HeadView, a step, work in the page", work, None),
        (f"HeadView, {tiles}", with_tiles, None),
        ("HeadView, a step, until painted", [step.shown for step in there], None),
        ("`imshow`, first picture", [first], looks),
        ("`imshow`, a step", plotted, work),
    ):
        ratio = times(median(spent), median(ours)) if ours else ""
        rows.append([name, readable(median(spent)) + ratio, readable(max(spent)), str(len(spent))])
    what = f"one head of {large.LONG:,} tokens"
    goals = (
        (f"first paint in ≤ {LONG_FIRST / 1000:.0f} s", looks, LONG_FIRST),
        (f"a step of zoom or pan, work in the page ≤ {FRAME} ms", work, FRAME),
        (f"a step of zoom or pan with tiles from the kernel ≤ {WITH_TILES} ms", with_tiles, WITH_TILES),
    )
    targets = [
        verdict(f"{what}: {goal}", readable(median(spent)), median(spent) <= most) for goal, spent, most in goals
    ]
    return table(*rows), targets


# ---------------------------------------------------------------- what coded weights keep


def codes_part() -> Part:
    """Measure what is left of coded weights where one key takes nearly all."""
    text, targets = codes_table(codes.losses())
    return CODES.format(codes=text, layers=codes.LAYERS, heads=codes.HEADS, tokens=codes.TOKENS), targets


def codes_table(losses: dict[str, codes.Loss]) -> tuple[str, Rows]:
    rows, targets = [["", "weights above .0001 that read 0", "median error above .001", "row sums"]], []
    for name, loss in losses.items():
        cells = [f"{100 * loss.zero:.2g} %", f"{100 * loss.error:.2g} %", "{:.3f} – {:.3f}".format(*loss.sums)]
        rows.append([name, *cells])
        if name.startswith("HeadView"):
            goals = ("none above .0001 reads 0", "median error above .001 ≤ 3 %", "row sums 1 ± .01")
            met = (loss.zero == 0, loss.error <= 0.03, loss.sums[0] >= 0.99 and loss.sums[1] <= 1.01)
            targets += [verdict(f"{name}: {goal}", *found) for goal, *found in zip(goals, cells, met, strict=True)]
    return table(*rows), targets


# ---------------------------------------------------------------- the maps of any model


def capture_part() -> Part:
    """Measure what it costs to take the maps out of a model."""
    text, targets = capture_table(captured.forwards())
    return CAPTURE.format(capture=text, tokens=captured.TOKENS, turns=layer.TURNS), targets


def capture_table(spent: dict[str, float]) -> tuple[str, Rows]:
    plain = spent[captured.PLAIN]
    rows = [["", "forward"], *([name, readable(ms) + times(ms, plain)] for name, ms in spent.items())]
    return table(*rows), []
