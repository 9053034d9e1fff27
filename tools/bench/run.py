"""Measure widgets, layer and course beside what a reader would use instead, in one run on one machine.

    python -m tools.bench.run [--only large capture ...]

What is measured stands in `widgets.py`, `large.py`, `layer.py` and `course.py`; `page.py` makes BENCHMARKS.md of it,
with the goals that are met and those that are not. Of `--only` some parts, the page is printed and nothing is written.
The others' packages (requirements-bench.txt) go into .bench, never into .venv. bertviz loads three JavaScript libraries
from the network; here they come from the same folder, fetched once by npm. The runs take turns, so that a busy machine
is busy for all.
"""

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import torch
from playwright.sync_api import sync_playwright

from tools.bench import large, page, widgets
from tools.notebooks.run import ROOT

PARTS = ("widgets", "large", "capture", "layer", "course")  # in the order of the page
IN_A_BROWSER = {"widgets", "large"}  # beside the packages of others
RUNS = 3  # of each way to look at attention
PEERS = ROOT / ".bench"
# What bertviz asks for: the end of the address, the npm package, the file in it. npm has no jQuery 2.0.0.
LIBRARIES = {
    "/require.min.js": ("requirejs@2.3.6", "require.js"),
    "/d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "/jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the widgets beside what a reader would use instead.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="print these parts and write nothing")
    options = parser.parse_args()
    torch.manual_seed(0)
    before, pages, chromium, version = page.load(), None, "", ""
    with ExitStack() as stack:
        if IN_A_BROWSER & set(options.only):
            chromium = widgets.find_chromium()
            prepare()
            sys.path.append(str(PEERS))  # last: what .venv has comes from there
            playwright = stack.enter_context(sync_playwright())
            browser = playwright.chromium.launch(executable_path=chromium, args=widgets.FLAGS)
            stack.callback(browser.close)
            pages, version = widgets.Pages(browser, libraries()), browser.version
        parts = list(measure(options.only, pages, chromium))
    text = page.page(parts, page.about(version, before))
    if set(options.only) == set(PARTS):
        (ROOT / "BENCHMARKS.md").write_text(text, encoding="utf-8")
    print(text)


def measure(only: list[str], pages: widgets.Pages | None, chromium: str) -> Iterator[page.Part]:
    """Measure the parts that were asked for, in the order of the page."""
    for name in (name for name in PARTS if name in only):
        print(name, file=sys.stderr)
        if name == "widgets":
            yield from looks(pages)
        elif name == "large":
            shape = large.shape_that_fits()
            others = large.bytes_of_others(shape[0] * shape[1] * shape[2] ** 2)
            yield page.huge_part(large.huge(shape, chromium), shape, others)
            yield page.long_part(*large.long_head(pages), *large.imshow_steps())
        elif name == "layer":
            yield from (page.layer_part(), page.pruning_part())
        else:
            yield {"capture": page.capture_part, "course": page.course_part}[name]()


def looks(pages: widgets.Pages) -> Iterator[page.Part]:
    """Measure all ways to look at attention, in turns, and the steps of a slider."""
    done = widgets.entries()
    for run in range(RUNS):
        for entry in done:
            widgets.take_turn(entry, pages)
            print(f"{run + 1}/{RUNS}  {entry.name}: {page.readable(entry.made[-1])}", file=sys.stderr)
    yield page.widgets_part(done)
    steps = widgets.browser_steps(pages)
    steps["`interact` + subplots"] = widgets.python_steps(widgets.draw_subplots)
    steps["`interact` + one image"] = widgets.python_steps(widgets.draw_image)
    yield page.steps_part(steps)


def prepare() -> None:
    """Install the peers, once for each state of the requirement file and version of Python."""
    wanted = (ROOT / "requirements-bench.txt").read_text(encoding="utf-8") + platform.python_version()
    stamp = PEERS / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"Installing what is measured beside us into {PEERS.name}", flush=True)
    shutil.rmtree(PEERS, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--target", str(PEERS), "-r", str(ROOT / "requirements-bench.txt")]
    if subprocess.run(command).returncode:
        sys.exit("pip could not install requirements-bench.txt; the lines above say why")
    stamp.write_text(wanted, encoding="utf-8")


def libraries() -> dict[str, str]:
    """Return the JavaScript that bertviz asks for, by the end of its address."""
    if not (PEERS / "node_modules").is_dir():
        command = [shutil.which("npm") or "npm", "install", "--no-save", "--ignore-scripts", "--prefix", str(PEERS)]
        subprocess.run([*command, *(package for package, _ in LIBRARIES.values())], check=True, capture_output=True)
    return {
        ending: (PEERS / "node_modules" / package.partition("@")[0] / file).read_text(encoding="utf-8")
        for ending, (package, file) in LIBRARIES.items()
    }


if __name__ == "__main__":
    main()
