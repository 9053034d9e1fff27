"""Measure widgets and layer beside what a reader would use instead, in one run on one machine.

    python -m tools.bench.run [--runs 3] [--peers FOLDER]

The widgets are measured here, the layer in `layer.py`, what a reader waits for in `course.py`.

Prints a table and writes it to BENCHMARKS.md, with the targets that are met and those that are not, and draws
images/benchmarks.png from it. The others' packages (requirements-bench.txt) go into .bench, never into .venv. bertviz loads three JavaScript libraries from
the network; here they come from the same folder, fetched once by npm, and its time to paint is left out where
npm is missing. The runs take turns, so that a busy machine is busy for all.
"""

import argparse
import base64
import gc
import importlib.metadata
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from IPython.core.pylabtools import print_figure
from matplotlib.figure import Figure
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

import mhalib
from mhalib.plots import plot_attention
from mhalib.widgets import HeadLab, HeadView
from tools import make_images
from tools.bench import course as bench_course
from tools.bench import layer as bench_layer
from tools.bench.texts import PAGE, STEPS, WATCH

ROOT = Path(__file__).resolve().parents[2]
LAYERS, HEADS, TOKENS = 12, 12, 128
STEP_HEADS, STEP_TOKENS, STEP_FEATURES = 16, 32, 512
BROWSER_STEPS, PYTHON_STEPS = 300, 15
FRAME = 16  # milliseconds
SHORT = 3  # seconds; what takes less is repeated within its turn, so that one hiccup does not decide
GUARD = 300  # seconds after which a page that does not paint is given up
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]

# What bertviz asks for: the end of the address, the npm package, the file in it. npm has no jQuery 2.0.0.
LIBRARIES = {
    "/require.min.js": ("requirejs@2.3.6", "package/require.js"),
    "/d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    "/jquery.min.js": ("jquery@2.1.0", "package/dist/jquery.min.js"),
}


@dataclass
class Entry:
    """One way to look at attention, and what was measured of it."""

    name: str
    make: object  # () -> (body of a page, bytes that it costs)
    painted: str = "document.images[0].complete && document.images[0].naturalWidth > 0"  # is the picture complete?
    made: list[float] = field(default_factory=list)
    paints: list[float] = field(default_factory=list)
    size: int = 0
    problem: str = ""


# ---------------------------------------------------------------- what has to be there


def prepare(folder: Path) -> None:
    """Install the peers into `folder`, once for each state of the requirement file and version of Python."""
    wanted = (ROOT / "requirements-bench.txt").read_text(encoding="utf-8") + platform.python_version()
    stamp = folder / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    if folder.exists() and not stamp.is_file() and any(folder.iterdir()):
        sys.exit(f"{folder} holds other files; they would be lost, so name an empty or a new folder with --peers")
    print(f"Installing what is measured beside us into {folder.name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stamp.touch()  # from now on it is ours, also if the installation breaks off
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--target", str(folder), "-r", str(ROOT / "requirements-bench.txt")]
    if subprocess.run(command).returncode:
        sys.exit("pip could not install requirements-bench.txt; the lines above say why")
    stamp.write_text(wanted, encoding="utf-8")


def libraries(folder: Path) -> dict[str, str]:
    """Return the JavaScript that bertviz asks for, by the end of its address; empty where npm cannot bring it."""
    texts = {}
    for ending, (package, member) in LIBRARIES.items():
        kept = folder / (package.replace("@", "-") + ".js")
        if not kept.is_file():
            with tempfile.TemporaryDirectory() as place:
                try:
                    command = [shutil.which("npm") or "npm", "pack", "--silent", package]
                    subprocess.run(command, cwd=place, check=True, capture_output=True)
                    with tarfile.open(next(Path(place).glob("*.tgz"))) as archive:
                        kept.write_bytes(archive.extractfile(member).read())
                except (OSError, subprocess.CalledProcessError):
                    return {}
        texts[ending] = kept.read_text(encoding="utf-8")
    return texts


# ---------------------------------------------------------------- the ways to look at attention


def picture(png: bytes) -> str:
    """Return a picture as the output of a cell carries it."""
    return f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def draw_subplots(weights) -> bytes:
    """Draw one subplot per head, as most notebooks do, and return the PNG as the notebook's backend makes it."""
    figure = Figure(figsize=(12, 9), layout="tight")
    for head, (place, one) in enumerate(zip(figure.subplots(len(weights) // 4, 4).flat, weights, strict=True)):
        place.imshow(one, vmin=0, vmax=1)
        place.set_title(f"head {head}")
    return print_figure(figure, "png")


def draw_image(weights) -> bytes:
    return plot_attention(weights)._repr_mimebundle_()[0]["image/png"]


def entries() -> list[Entry]:
    """Return the ways to look at 12 layers of 12 heads, ours first."""
    sys.modules["importlib_metadata"] = importlib.metadata  # circuitsvis asks for its backport
    from bertviz import head_view, model_view
    from circuitsvis.attention import attention_heads

    weights = torch.softmax(2 * torch.randn(LAYERS, HEADS, TOKENS, TOKENS), -1)  # dense: no zeros to pack away
    layers, tokens = [layer[None] for layer in weights], [f"token{i}" for i in range(TOKENS)]
    names = [f"L{i}H{j}" for i in range(LAYERS) for j in range(HEADS)]

    def page():
        html = HeadView(layers, tokens).to_html()
        return html, len(html.encode())

    def notebook():
        widget = HeadView(layers, tokens)
        png = base64.b64encode(widget._repr_mimebundle_()[0]["image/png"])
        values = widget.get_state().values()  # buffers travel as they are, the rest as JSON
        return None, len(png) + sum(len(v if isinstance(v, bytes) else json.dumps(v).encode()) for v in values)

    def bertviz(view):
        html = view(layers, tokens, html_action="return").data
        return html, len(html.encode())

    def circuitsvis():
        made = attention_heads(weights.flatten(0, 1), tokens, attention_head_names=names, mask_upper_tri=False)
        # Painted with its library inside, weighed without it, as a notebook with a network would hold it.
        return made.local_src, len(made.cdn_src.encode())

    def one_layer(draw):
        html = picture(draw(weights[0]))
        return html, len(html)

    filled = "((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean))"
    groups = "document.querySelectorAll('#vis svg > g')"
    canvases = "document.querySelectorAll('canvas')"
    all_drawn = f"{canvases}.length > {LAYERS * HEADS} && {filled}({canvases}[0]) && {filled}([...{canvases}].at(-1))"
    return [
        Entry("HeadView, page", page, """document.querySelector('.mha canvas[aria-label^="Heat map"]')"""),
        Entry("HeadView, live notebook", notebook, ""),
        Entry("bertviz model view", lambda: bertviz(model_view), f"{groups}.length >= {LAYERS * HEADS}"),
        Entry("bertviz head view", lambda: bertviz(head_view), "document.querySelector('#vis svg line')"),
        Entry("CircuitsVis", circuitsvis, all_drawn),
        Entry("`interact` + subplots", lambda: one_layer(draw_subplots)),
        Entry("`interact` + one image", lambda: one_layer(draw_image)),
    ]


# ---------------------------------------------------------------- measuring


class Pages:
    """Headless Chromium, cut off from the network but for the libraries in `texts`."""

    def __init__(self, browser, texts: dict[str, str]):
        self.browser, self.texts = browser, texts

    @contextmanager
    def open(self, body: str, script: str = ""):
        """Open a page with this body from a file, after `script`."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "page.html"
            file.write_text(f'<!doctype html><meta charset="utf-8"><body>{body}</body>', encoding="utf-8")
            context = self.browser.new_context(viewport={"width": 1100, "height": 900})
            try:
                context.set_default_timeout(GUARD * 1000)
                context.route(re.compile(r"^https?:"), self.serve)
                context.add_init_script(script)
                page = context.new_page()
                page.goto(file.as_uri(), wait_until="commit")
                yield page
            finally:
                context.close()

    def serve(self, route) -> None:
        """Answer a request for a library from the disk."""
        text = next((text for ending, text in self.texts.items() if route.request.url.endswith(ending)), None)
        if text is None:
            route.abort()
        else:
            route.fulfill(body=text, content_type="text/javascript")

    def paint(self, body: str, painted: str) -> float:
        """Return the milliseconds from the start of the navigation to the frame after the picture is drawn."""
        with self.open(body, WATCH % painted) as page:
            return page.wait_for_function("window.paintedAt").json_value()


def measure(entry: Entry, pages: Pages) -> None:
    """Make and paint once, and say so."""
    gc.collect()
    start = time.perf_counter()
    body, entry.size = entry.make()
    entry.made.append(1000 * (time.perf_counter() - start))
    if body is None or entry.problem:
        return
    if "/require.min.js" in body and not pages.texts:
        entry.problem = "not painted: needs the network"
        return
    try:
        entry.paints.append(pages.paint(body, entry.painted))
    except PlaywrightError as error:  # too late, or the tab crashed
        entry.problem, entry.paints = f"not painted: {str(error).splitlines()[0]}", []


def browser_steps(pages: Pages) -> dict[str, list[float]]:
    """Return the milliseconds of slider steps of HeadLab: the temperature, and the number of heads."""
    lab = HeadLab(*torch.randn(2, STEP_TOKENS, STEP_FEATURES), num_heads=STEP_HEADS)
    at = lab.head_choices.index(STEP_HEADS)
    heat = [-1 + (n % 100) / 50 for n in range(BROWSER_STEPS)]
    heads = [at - 1 + n % 2 for n in range(2 * BROWSER_STEPS)]  # there and back; the way back counts
    steps = {}
    with pages.open(lab.to_html()) as page:
        page.wait_for_function("document.querySelector('.mha')?.headLab")
        for label, values, every in (("Heads", heads, 2), ("Temperature", heat, 1)):
            work, shown = page.evaluate(STEPS, [label, values, every])
            steps[f"HeadLab, {label.lower()}: compute + draw"] = work[10:]  # the first ones warm up
            steps[f"HeadLab, {label.lower()}: until painted"] = shown[10:]
    return steps


def python_steps(draw) -> list[float]:
    """Return the milliseconds of steps that the kernel makes: compute, draw, encode."""
    q, k = torch.randn(2, 1, STEP_TOKENS, STEP_FEATURES)
    spent = []
    for n in range(PYTHON_STEPS + 1):
        start = time.perf_counter()
        queries, keys = (mhalib.split_heads(x, STEP_HEADS) for x in (q, k))
        scale = (STEP_HEADS / STEP_FEATURES) ** 0.5 / (0.5 + n / PYTHON_STEPS)
        _, weights = mhalib.scaled_dot_product_attention(queries, keys, keys, scale=scale)
        picture(draw(weights[0]))
        spent.append(1000 * (time.perf_counter() - start))
    return spent[1:]  # the first one loads fonts


# ---------------------------------------------------------------- the report


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def about(chromium: str, before: str) -> str:
    """Return what the numbers depend on."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.+)", info.read_text()) if info.is_file() else None
    cpu = model.group(1) if model else platform.processor() or platform.machine()
    names = ("torch", "matplotlib", "anywidget", "bertviz", "circuitsvis")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return (
        f"Machine: {cpu}, {os.cpu_count()} cores, no GPU; load average {before} before, {load()} after.\n"
        f"Versions: mhalib {mhalib.__version__}, Python {platform.python_version()}, Chromium {chromium}, {versions}."
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


def layer_parts() -> tuple[dict[str, str], list[list[str]]]:
    """Measure the layer and the course; return what stands in the page and the rows of the targets."""
    targets = []
    layers = bench_layer.layers()
    rows = [["", *next(iter(layers.values()))]]
    for what, spent in layers.items():
        ours = spent["mhalib"]
        rows.append([what, *(f"{ms:.1f} ms ({ms / ours:.2f} ×)" for ms in spent.values())])
        factor = ours / spent["nn.MultiheadAttention"]
        targets.append(verdict(f"layer, {what}, ≤ 1.1 × `nn.MultiheadAttention`", f"{factor:.2f} ×", factor <= 1.1))
        factor = ours / spent["d2l"]
        targets.append(verdict(f"layer, {what}, faster than d2l", f"{factor:.2f} ×", factor < 1))
    pruned = [["heads left", "operations", "time", "time, masked only"]]
    for row in bench_layer.pruning():
        pruned.append([str(row["kept"]), *(f"{row[key]:.2f} ×" for key in ("operations", "time", "masked"))])
        off = row["time"] / row["operations"]
        what = f"{row['kept']} of {bench_layer.PRUNED_HEADS} heads left: time within 20 % of the operations"
        targets.append(verdict(what, f"{off:.2f} ×", 1 / 1.2 <= off <= 1.2))
    found = bench_layer.lengths()
    ways = [key for key in found[0] if key not in ("tokens", "maps") and not key.endswith("bytes")]
    long = [["tokens", *ways, "the maps alone"]]
    for row in found:
        cells = []
        for way in ways:
            need = row[f"{way}, bytes"]
            cells.append("out of memory" if row[way] is None else readable(row[way]))
            cells[-1] += f", {need / 1e6:.0f} MB" if need else ""
        long.append([f"{row['tokens']:,}", *cells, f"{row['maps'] / 1e6:,.0f} MB"])
    where = "On a GPU; beside the times, the memory needed on top." if torch.cuda.is_available() else (
        f"GPU, fused kernels on it, up to {bench_layer.LONG[-1]:,} tokens, memory: not measured, no GPU here."
    )  # fmt: skip
    lessons = bench_course.lesson_seconds()
    course = [["lesson", "seconds"]] + [[name, f"{spent:.0f}"] for name, spent in lessons.items()]
    total, start = sum(lessons.values()), bench_course.first_start()
    torch_alone, all_of_it = bench_course.import_costs()
    course.append(["all", f"{total:.0f}"])
    opening = f"`import torch` takes {torch_alone:.2f} s, `import mhalib` {all_of_it:.2f} s. "
    opening += f"`make lab` in a fresh clone answers after {start:.0f} s." if start else "`make lab`: not measured."
    targets.append(verdict("all lessons executed in ≤ 8 minutes", f"{total / 60:.1f} min", total <= 480))
    extra = all_of_it - torch_alone
    targets.append(verdict("`import mhalib` ≤ torch + 0.2 s", f"+ {extra:.2f} s", extra <= 0.2))
    if start:
        targets.append(verdict("a first `make lab` in ≤ 2 minutes", f"{start:.0f} s", start <= 120))
    parts = {"layer": table(*rows), "pruning": table(*pruned), "lengths": table(*long), "where": where}
    sizes = {"d_model": bench_layer.D_MODEL, "layer_heads": bench_layer.HEADS, "batch": bench_layer.BATCH}
    sizes |= {"layer_tokens": bench_layer.TOKENS, "turns": bench_layer.TURNS, "pruned_heads": bench_layer.PRUNED_HEADS}
    return parts | sizes | {"course": table(*course), "opening": opening}, targets


def report(done: list[Entry], steps: dict[str, list[float]], runs: int, basis: str) -> str:
    """Return the page with all tables and the targets."""
    numbers = {entry.name: (median(entry.made), entry.size, median(entry.paints)) for entry in done}
    ours = numbers[done[0].name]
    whole = [["", "time to make", "bytes", "first paint"]]
    for entry in done:
        made, size, drawn = numbers[entry.name]
        shown = [readable(made), f"{size / 1e6:.2f} MB", readable(drawn) if drawn else entry.problem or "as above"]
        whole.append(
            [entry.name, *(t + times(*pair) for t, *pair in zip(shown, numbers[entry.name], ours, strict=True))]
        )

    targets = [["target", "here", ""]]
    for name, goal in (("CircuitsVis", 20), ("bertviz model view", 20), ("bertviz head view", 10)):
        for what, theirs, mine in zip(whole[0][1:], numbers[name], ours, strict=True):
            met = "met" if theirs >= goal * mine else "**not met**"
            shown = [f"1/{theirs / mine:.3g}", met] if theirs and mine else ["not measured", ""]
            targets.append([f"{what} ≤ 1/{goal} of {name}", *shown])
    # A new number of heads is the step that computes as much as the others do.
    work, shown = (median(steps[f"HeadLab, heads: {what}"]) for what in ("compute + draw", "until painted"))
    for what, spent in (("compute + draw", work), ("until painted", shown)):
        met = "met" if spent <= FRAME else "**not met**"
        targets.append([f"a step, {what}, within a frame of {FRAME} ms", readable(spent), met])
    for name in ("`interact` + subplots", "`interact` + one image"):
        factor = median(steps[name]) / work
        met = "met" if factor >= 30 else "**not met**"
        targets.append([f"a step, compute + draw, ≤ 1/30 of {name}", f"1/{factor:.3g}", met])

    stepped = [["", "median", "worst", "steps"]]
    for name, spent in steps.items():
        ratio = "" if name.startswith("HeadLab") else times(median(spent), work)
        stepped.append([name, readable(median(spent)) + ratio, readable(max(spent)), str(len(spent))])
    parts, more = layer_parts()
    targets += more
    return PAGE.format(
        **parts, basis=basis, picture=make_images.ALT["benchmarks.png"], runs=runs, whole=table(*whole), steps=table(*stepped), targets=table(*targets),
        layers=LAYERS, heads=HEADS, tokens=TOKENS, step_heads=STEP_HEADS, step_tokens=STEP_TOKENS,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the widgets beside what a reader would use instead.")
    parser.add_argument("--runs", type=int, default=3, help="of each way to look at attention")
    parser.add_argument("--peers", type=Path, default=ROOT / ".bench", help="the folder for what is measured beside us")
    options = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        sys.exit("found no Chromium: install it, or name it in the environment variable CHROMIUM")
    prepare(options.peers)
    sys.path.append(str(options.peers))  # last: what .venv has comes from there
    torch.manual_seed(0)
    before, done = load(), entries()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        pages = Pages(browser, libraries(options.peers))
        for run in range(options.runs):
            for entry in done:
                start = time.monotonic()
                measure(entry, pages)
                while time.monotonic() - start < SHORT:
                    measure(entry, pages)
                paint = readable(entry.paints[-1]) if entry.paints else entry.problem
                print(f"{run + 1}/{options.runs}  {entry.name}: {readable(entry.made[-1])}, {paint}", file=sys.stderr)
        steps = browser_steps(pages)
        steps["`interact` + subplots"] = python_steps(draw_subplots)
        steps["`interact` + one image"] = python_steps(draw_image)
        page = report(done, steps, options.runs, about(browser.version, before))
        browser.close()
    (ROOT / "BENCHMARKS.md").write_text(page, encoding="utf-8")
    make_images.main(ROOT / "images", ["benchmarks.png"])
    print(page)


if __name__ == "__main__":
    main()
