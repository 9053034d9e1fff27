"""Write BENCHMARKS.md: a table for each part, its goals, and a sentence on how it was measured."""

import importlib.metadata
import math
import os
import platform
import re
import statistics
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import mhalib
from tools.bench import course, large, layer, widgets

FRAME = 16  # milliseconds
HEAD = """# Benchmarks

Written by `make bench`. It is dated by the versions below, not by the calendar. The numbers in brackets are multiples
of our value. First paint: headless Chromium, from the start of the navigation to the frame after the picture is drawn.

{basis}
"""


@dataclass
class Part:
    """A section of the page: its table, what it says of it, and the goals that it decides."""

    title: str
    rows: list[list[str]]  # the first names the columns
    note: str
    goals: list[tuple[str, str, bool]] = field(default_factory=list)  # the goal, what came, whether it is met

    def row(self, name: str, spent: list[float], ours: Iterable[float] = ()) -> None:
        """Add the median of some milliseconds, how many times ours it is, the worst of them, and how many they are."""
        self.rows.append(
            [name, readable(median(spent)) + times(median(spent), median(ours)), readable(max(spent)), str(len(spent))]
        )

    def goal(self, name: str, value: float, most: float, told: str) -> None:
        self.goals.append((name, told, value <= most))


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


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


def median(values) -> float:
    values = list(values)
    return statistics.median(values) if values else 0.0


def readable(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms"


def times(value: float, ours: float) -> str:
    return f" ({value / ours:.3g} ×)" if value and ours else ""


def table(rows: list[list[str]]) -> str:
    line = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], line, *rows[1:]])


def page(parts: list[Part], basis: str) -> str:
    """Return the page: what the numbers depend on, the parts, and all their goals in one table."""
    goals = [[name, told, "met" if met else "**not met**"] for part in parts for name, told, met in part.goals]
    sections = [f"## {part.title}\n\n{table(part.rows)}\n\n{part.note}\n" for part in parts]
    foot = [f"## Goals\n\n{table([['goal', 'here', ''], *goals])}\n"] if goals else []
    return "\n".join([HEAD.format(basis=basis), *sections, *foot])


# ---------------------------------------------------------------- the parts


def widgets_part(done: list[widgets.Entry]) -> Part:
    """Return all ways to look at attention beside each other; `done` has ours first."""
    part = Part(
        f"{widgets.LAYERS} layers × {widgets.HEADS} heads × {widgets.TOKENS} tokens",
        [["", "time to make", "bytes", "first paint"]],
        "The libraries of bertviz and CircuitsVis are loaded from disk, which favours them. HeadView, bertviz's model "
        "view and CircuitsVis draw all heads; bertviz's head view and both kinds of `interact` draw one layer.",
    )
    numbers = {entry.name: (median(entry.made), entry.size, median(entry.paints)) for entry in done}
    ours = numbers[done[0].name]
    for entry in done:
        made, size, drawn = numbers[entry.name]
        shown = [readable(made), f"{size / 1e6:.2f} MB", readable(drawn) if drawn else "as above"]
        pairs = zip(shown, numbers[entry.name], ours, strict=True)
        part.rows.append([entry.name, *(text + times(value, mine) for text, value, mine in pairs)])
    for name, goal in (("CircuitsVis", 20), ("bertviz model view", 20), ("bertviz head view", 10)):
        for what, theirs, mine in zip(part.rows[0][1:], numbers[name], ours, strict=True):
            if theirs and mine:
                part.goal(f"{what} ≤ 1/{goal} of {name}", goal * mine, theirs, f"1/{theirs / mine:.3g}")
    shown = numbers[widgets.LIVE][0]
    part.goal(f"{widgets.LIVE}, displayed in ≤ 150 ms", shown, 150, readable(shown))
    return part


def steps_part(steps: dict[str, list[float]]) -> Part:
    part = Part(
        f"A step of a slider, {widgets.STEP_HEADS} heads, T = {widgets.STEP_TOKENS}",
        [["", "median", "worst", "steps"]],
        "Compute + draw: everything that the page does for one event. Until painted: up to the end of the frame that "
        "shows it. `interact`: computing, drawing and encoding in Python; the transfer to the browser and the "
        "browser's own work come on top.",
    )
    work, shown = (median(steps[f"HeadLab, heads: {what}"]) for what in ("compute + draw", "until painted"))
    for name, spent in steps.items():
        part.row(name, spent, () if name.startswith("HeadLab") else [work])
    for what, spent in (("compute + draw", work), ("until painted", shown)):
        part.goal(f"a step, {what}, within a frame of {FRAME} ms", spent, FRAME, readable(spent))
    for name in ("`interact` + subplots", "`interact` + one image"):
        factor = median(steps[name]) / work
        part.goal(f"a step, compute + draw, ≤ 1/30 of {name}", 30, factor, f"1/{factor:.3g}")
    return part


def huge_part(found: dict, shape: tuple[int, int, int], others: dict[str, float]) -> Part:
    """Return HeadView of billions of weights beside what the others would weigh, by what each weight more costs."""
    name, grown = f"HeadView, {' × '.join(f'{size:,}' for size in shape)} in half precision", found["memory"]
    part = Part(
        f"{math.prod(shape) * shape[-1] / 1e9:.1f} billion weights",
        [["", "Python", "first paint", "bytes", "memory beside the weights"]],
        "The weights are random, with one key taking most of each row; the view runs in a process of its own. Python: "
        "constructor, display bundle with its picture, and state. The others are not run: their bytes are what each "
        f"further weight adds, measured on maps of {large.SMALL} tokens, times the number of weights.",
    )
    share, size = f"{100 * grown:.1f} %", f"{found['size'] / 1e6:.2f} MB"
    part.rows.append([name, readable(found["python"]), readable(found["paint"]), size, share])
    part.rows += [[f"{who}, extrapolated", "–", "–", f"{size / 1e9:,.0f} GB", "–"] for who, size in others.items()]
    total = found["python"] + found["paint"]
    part.goal(f"{name}: first paint in ≤ 5 s", total, 5000, readable(total))
    part.goal(f"{name}: ≤ 5 MB", found["size"], 5e6, size)
    part.goal(f"{name}: memory ≤ 10 % of the weights", grown, 0.1, share)
    return part


def long_part(looks: list[float], fresh: list, there: list, first: float, plotted: list[float]) -> Part:
    part = Part(
        f"One head of {large.LONG:,} tokens",
        [["", "median", "worst", "steps"]],
        "A step is one step of the wheel: the test zooms from the whole map to single weights and out again, and pans "
        "on the way. With tiles from the kernel: only the steps that ask for tiles, including the kernel's work, but "
        "not the transfer between kernel and page. "
        "`imshow`: matplotlib's Agg, `set_xlim`, `set_ylim` and `draw`; encoding and the browser come on top.",
    )
    work = [step.work for step in there]
    tiles = [step.work + step.kernel for step in fresh if step.asked]
    for name, spent, most in (
        ("first paint", looks, 1000),
        ("a step, work in the page", work, FRAME),
        ("a step with tiles from the kernel", tiles, 50),
        ("a step, until painted", [step.shown for step in there], None),
    ):
        part.row(f"HeadView, {name}", spent)
        if most:
            goal = f"one head of {large.LONG:,} tokens: {name} ≤ {most} ms"
            part.goal(goal, median(spent), most, readable(median(spent)))
    part.row("`imshow`, first picture", [first], looks)
    part.row("`imshow`, a step", plotted, work)
    return part


def capture_part() -> Part:
    part = Part(
        "Capture overhead: the maps of any model, BERT base with random weights",
        [["", *(f"{tokens} tokens" for tokens in layer.CAPTURED)]],
        f"A forward pass by one thread, medians of {layer.CAPTURED_TURNS} turns. `capture` takes maps from the inputs "
        'of the fused kernel; `output_attentions` needs the model loaded as "eager".',
    )
    spent = [layer.forwards(tokens) for tokens in layer.CAPTURED]
    for name in spent[0]:
        part.rows.append([name, *(readable(each[name]) + times(each[name], each[layer.PLAIN]) for each in spent)])
    for tokens, each in zip(layer.CAPTURED, spent, strict=True):
        factor = each[layer.OURS] / each[layer.PLAIN]
        part.goal(f"`capture` ≤ 1.25 × a plain forward, {tokens} tokens", factor, 1.25, f"{factor:.2f} ×")
    return part


def layer_part() -> Part:
    measured = layer.layers()
    part = Part(
        f"The layer, d_model {layer.D_MODEL}, {layer.HEADS} heads, {layer.BATCH} × {layer.TOKENS} tokens",
        [["", *next(iter(measured.values()))]],
        f"One thread, medians of {layer.TURNS} turns, float32, no mask, no bias. d2l's layer always makes its "
        "weights. Forward: `eval()` and `no_grad()`. A factor within some 5 % of 1 may be above 1 in one run and below "
        "it in the next.",
    )
    for what, spent in measured.items():
        part.rows.append([what, *(f"{ms:.1f} ms ({ms / spent['mhalib']:.2f} ×)" for ms in spent.values())])
        for name, most in (("nn.MultiheadAttention", 1.1), ("d2l", 1.0)):
            factor = spent["mhalib"] / spent[name]
            part.goal(f"layer, {what}, ≤ {most} × {name}", factor, most, f"{factor:.2f} ×")
    return part


def pruning_part() -> Part:
    part = Part(
        f"Pruned heads, {layer.PRUNED_HEADS} heads at first",
        [["heads left", "operations", "time", "time, masked only"]],
        "`prune_heads` on the layer alone, forward pass; torch counts the operations. Masked: the same heads switched "
        "off by a gate, which saves nothing.",
    )
    for row in layer.pruning():
        part.rows.append([str(row["kept"]), *(f"{row[key]:.2f} ×" for key in ("operations", "time", "masked"))])
        off = row["time"] / row["operations"]
        what = f"{row['kept']} of {layer.PRUNED_HEADS} heads left: time within 20 % of the operations"
        part.goal(what, max(off, 1 / off), 1.2, f"{off:.2f} ×")
    return part


def course_part() -> Part:
    lessons, start = course.lesson_seconds(), course.first_start()
    torch_alone, all_of_it = course.import_costs()
    part = Part(
        "The course",
        [["lesson", "seconds"], *([name, f"{spent:.0f}"] for name, spent in lessons.items())],
        f"`import torch` takes {torch_alone:.2f} s, `import mhalib` {all_of_it:.2f} s. "
        + (f"`make lab` in a fresh clone answers after {start:.0f} s." if start else "`make lab`: not measured."),
    )
    total, slowest = sum(lessons.values()), max(lessons, key=lessons.get)
    part.rows.append(["all", f"{total:.0f}"])
    part.goal("the slowest lesson ≤ 30 s", lessons[slowest], 30, f"{slowest}: {lessons[slowest]:.0f} s")
    extra = all_of_it - torch_alone
    part.goal("`import mhalib` ≤ torch + 0.2 s", extra, 0.2, f"+ {extra:.2f} s")
    if start:
        part.goal("a first `make lab` in ≤ 2 minutes", start, 120, f"{start:.0f} s")
    return part
