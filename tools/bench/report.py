"""Write BENCHMARKS.md: what was measured as tables, and which of the targets are met.

The words of the page stand in `texts.py`.
"""

import importlib.metadata
import os
import platform
import re
import statistics
from contextlib import suppress
from pathlib import Path

import torch

import mhalib
from tools.bench import course, layer
from tools.bench import widgets as bench
from tools.bench.texts import COURSE, HEAD, LAYER, TARGETS, WIDGETS
from tools.bench.widgets import LIVE
from tools.pictures import benchmarks

FRAME = 16  # milliseconds
DISPLAY = 150  # milliseconds in which a notebook shows HeadView
Rows = list[list[str]]
Part = tuple[str, Rows]  # words with their tables, and the rows of the targets that they decide


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def about(chromium: str, before: str) -> str:
    """Return what the numbers depend on: the machine, busy or not, and the versions of what was there."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.+)", info.read_text(encoding="utf-8")) if info.is_file() else None
    cpu = model.group(1) if model else platform.processor() or platform.machine()
    versions = {"mhalib": mhalib.__version__, "Python": platform.python_version(), "Chromium": chromium}
    for name in ("torch", "matplotlib", "anywidget", "transformers", "bertviz", "circuitsvis"):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return (
        f"Machine: {cpu}, {os.cpu_count()} cores, no GPU; load average {before} before, {load()} after.\n"
        f"Versions: {told}."
    )


def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def readable(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms"


def times(value: float, ours: float) -> str:
    return f" ({value / ours:.3g} ×)" if value and ours else ""


def table(*rows: list[str]) -> str:
    line = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], line, *rows[1:]])


def verdict(name: str, here: str, met: bool) -> list[str]:
    return [name, here, "met" if met else "**not met**"]


# ---------------------------------------------------------------- the layer


def layer_table() -> tuple[str, Rows]:
    """Measure the layer beside torch's and d2l's; return its table and the rows of its targets."""
    measured, targets = layer.layers(), []
    rows = [["", *next(iter(measured.values()))]]
    for what, spent in measured.items():
        ours = spent["mhalib"]
        rows.append([what, *(f"{ms:.1f} ms ({ms / ours:.2f} ×)" for ms in spent.values())])
        factor = ours / spent["nn.MultiheadAttention"]
        targets.append(verdict(f"layer, {what}, ≤ 1.1 × `nn.MultiheadAttention`", f"{factor:.2f} ×", factor <= 1.1))
        factor = ours / spent["d2l"]
        targets.append(verdict(f"layer, {what}, faster than d2l", f"{factor:.2f} ×", factor < 1))
    return table(*rows), targets


def pruning_table() -> tuple[str, Rows]:
    rows, targets = [["heads left", "operations", "time", "time, masked only"]], []
    for row in layer.pruning():
        rows.append([str(row["kept"]), *(f"{row[key]:.2f} ×" for key in ("operations", "time", "masked"))])
        off = row["time"] / row["operations"]
        what = f"{row['kept']} of {layer.PRUNED_HEADS} heads left: time within 20 % of the operations"
        targets.append(verdict(what, f"{off:.2f} ×", 1 / 1.2 <= off <= 1.2))
    return table(*rows), targets


def lengths_table() -> str:
    found = layer.lengths()
    ways = [key for key in found[0] if key not in ("tokens", "maps") and not key.endswith("bytes")]
    rows = [["tokens", *ways, "the maps alone"]]
    for row in found:
        cells = []
        for way in ways:
            need = row[f"{way}, bytes"]
            cells.append("out of memory" if row[way] is None else readable(row[way]))
            cells[-1] += f", {need / 1e6:.0f} MB" if need else ""
        rows.append([f"{row['tokens']:,}", *cells, f"{row['maps'] / 1e6:,.0f} MB"])
    return table(*rows)


# ---------------------------------------------------------------- the course


def course_table() -> tuple[str, str, Rows]:
    """Measure what a reader waits for; return the table of the lessons, a sentence on the rest, and the targets."""
    lessons, start = course.lesson_seconds(), course.first_start()
    torch_alone, all_of_it = course.import_costs()
    total, extra = sum(lessons.values()), all_of_it - torch_alone
    rows = [
        ["lesson", "seconds"],
        *([name, f"{spent:.0f}"] for name, spent in lessons.items()),
        ["all", f"{total:.0f}"],
    ]
    opening = f"`import torch` takes {torch_alone:.2f} s, `import mhalib` {all_of_it:.2f} s. "
    opening += f"`make lab` in a fresh clone answers after {start:.0f} s." if start else "`make lab`: not measured."
    targets = [
        verdict("all lessons executed in ≤ 8 minutes", f"{total / 60:.1f} min", total <= 480),
        verdict("`import mhalib` ≤ torch + 0.2 s", f"+ {extra:.2f} s", extra <= 0.2),
    ]
    if start:
        targets.append(verdict("a first `make lab` in ≤ 2 minutes", f"{start:.0f} s", start <= 120))
    return table(*rows), opening, targets


# ---------------------------------------------------------------- the widgets


def widgets_table(done: list[bench.Entry]) -> tuple[str, Rows]:
    """Return the table of all ways to look at attention, and the rows of the targets that it decides."""
    numbers = {entry.name: (median(entry.made), entry.size, median(entry.paints)) for entry in done}
    ours = numbers[done[0].name]
    rows = [["", "time to make", "bytes", "first paint"]]
    for entry in done:
        made, size, drawn = numbers[entry.name]
        shown = [readable(made), f"{size / 1e6:.2f} MB", readable(drawn) if drawn else entry.problem or "as above"]
        pairs = zip(shown, numbers[entry.name], ours, strict=True)
        rows.append([entry.name, *(text + times(value, mine) for text, value, mine in pairs)])
    targets = []
    for name, goal in (("CircuitsVis", 20), ("bertviz model view", 20), ("bertviz head view", 10)):
        for what, theirs, mine in zip(rows[0][1:], numbers[name], ours, strict=True):
            target = f"{what} ≤ 1/{goal} of {name}"
            if theirs and mine:
                targets.append(verdict(target, f"1/{theirs / mine:.3g}", theirs >= goal * mine))
            else:
                targets.append([target, "not measured", ""])
    shown = numbers[LIVE][0]
    targets.append(verdict(f"{LIVE}, displayed in ≤ {DISPLAY} ms", readable(shown), shown <= DISPLAY))
    return table(*rows), targets


def steps_table(steps: dict[str, list[float]]) -> tuple[str, Rows]:
    """Return the table of the steps of a slider, and the rows of the targets that it decides."""
    # A new number of heads is the step that computes as much as the others do.
    work, shown = (median(steps[f"HeadLab, heads: {what}"]) for what in ("compute + draw", "until painted"))
    targets = [
        verdict(f"a step, {what}, within a frame of {FRAME} ms", readable(spent), spent <= FRAME)
        for what, spent in (("compute + draw", work), ("until painted", shown))
    ]
    for name in ("`interact` + subplots", "`interact` + one image"):
        factor = median(steps[name]) / work
        targets.append(verdict(f"a step, compute + draw, ≤ 1/30 of {name}", f"1/{factor:.3g}", factor >= 30))
    rows = [["", "median", "worst", "steps"]]
    for name, spent in steps.items():
        ratio = "" if name.startswith("HeadLab") else times(median(spent), work)
        rows.append([name, readable(median(spent)) + ratio, readable(max(spent)), str(len(spent))])
    return table(*rows), targets


# ---------------------------------------------------------------- the page


def widgets_part(done: list[bench.Entry], steps: dict[str, list[float]], runs: int) -> Part:
    whole, of_widgets = widgets_table(done)
    stepped, of_steps = steps_table(steps)
    sizes = {"layers": bench.LAYERS, "heads": bench.HEADS, "tokens": bench.TOKENS}
    sizes |= {"step_heads": bench.STEP_HEADS, "step_tokens": bench.STEP_TOKENS}
    return WIDGETS.format(whole=whole, steps=stepped, runs=runs, **sizes), [*of_widgets, *of_steps]


def layer_part() -> Part:
    """Measure the layer, alone, pruned and on long texts."""
    beside, of_layer = layer_table()
    pruned, of_pruning = pruning_table()
    where = "On a GPU; beside the times, the memory needed on top." if torch.cuda.is_available() else (
        f"GPU, fused kernels on it, up to {layer.LONG[-1]:,} tokens, memory: not measured, no GPU here."
    )  # fmt: skip
    sizes = {"d_model": layer.D_MODEL, "layer_heads": layer.HEADS, "batch": layer.BATCH, "layer_tokens": layer.TOKENS}
    sizes |= {"turns": layer.TURNS, "pruned_heads": layer.PRUNED_HEADS}
    words = LAYER.format(layer=beside, pruning=pruned, lengths=lengths_table(), where=where, **sizes)
    return words, [*of_layer, *of_pruning]


def course_part() -> Part:
    lessons, opening, targets = course_table()
    return COURSE.format(course=lessons, opening=opening), targets


def page(parts: list[Part], basis: str) -> str:
    """Return the page: what the numbers depend on, the parts, and all their targets, if any, in one table."""
    targets = [["target", "here", ""], *(row for _, rows in parts for row in rows)]
    foot = [TARGETS.format(targets=table(*targets))] if len(targets) > 1 else []
    head = HEAD.format(basis=basis, picture=benchmarks.ALT)
    return "\n".join([head, *(words for words, _ in parts), *foot])
