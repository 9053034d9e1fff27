"""Measure widgets, layer and course beside what a reader would use instead, in one run on one machine.

    python -m tools.bench.run [--only large capture ...]

What is measured stands in `widgets.py`, `large.py`, `layer.py` and `course.py`; `page.py` makes BENCHMARKS.md of it,
with the goals that are met and those that are not. Of `--only` some parts, the page is printed and nothing is written.
The others' packages (requirements-bench.txt) go into .bench, never into .venv. bertviz loads three JavaScript libraries
from the network; here they come from the same folder, fetched once by npm. The runs take turns, so that a busy machine
is busy for all.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import torch
from playwright.sync_api import sync_playwright

from tools.bench import large, page, widgets
from tools.bench.peers import PEERS, ROOT, libraries, prepare

PARTS = ("widgets", "large", "capture", "layer", "course")  # in the order of the page
IN_A_BROWSER = {"widgets", "large"}  # beside the packages of others
RUNS = 3  # of each way to look at attention


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


if __name__ == "__main__":
    main()
