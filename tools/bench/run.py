"""Measure widgets, layer and course beside what a reader would use instead, in one run on one machine.

    python -m tools.bench.run [--runs 3] [--peers FOLDER] [--only large codes ...]

The widgets are measured in `widgets.py`, HeadView on large maps in `large.py`, what its codes keep in `codes.py`, the
maps of any model in `captured.py`, the layer in `layer.py`, what a reader waits for in `course.py`; `report.py` and
`report_large.py` make the page of it: BENCHMARKS.md, with the targets that are met and those that are not, and
images/benchmarks.png. Of `--only` some parts, the page is printed and nothing is written. The others' packages
(requirements-bench.txt) go into .bench, never into .venv. bertviz loads three JavaScript libraries from the network;
here they come from the same folder, fetched once by npm, and its time to paint is left out where npm is missing. The
runs take turns, so that a busy machine is busy for all.
"""

import argparse
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

from tools import make_images
from tools.bench import report
from tools.bench.peers import ROOT, libraries, prepare
from tools.bench.report import Part, load, readable
from tools.bench.report_large import capture_part, codes_part, large_part
from tools.bench.widgets import FLAGS, Pages, browser_steps, draw_image, draw_subplots, entries, python_steps, take_turn
from tools.pictures import benchmarks

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PARTS = ("widgets", "large", "codes", "capture", "layer", "course")  # in the order of the page
IN_A_BROWSER = {"widgets", "large"}  # beside the packages of others


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the widgets beside what a reader would use instead.")
    parser.add_argument("--runs", type=int, default=3, help="of each way to look at attention")
    parser.add_argument("--peers", type=Path, default=ROOT / ".bench", help="the folder for what is measured beside us")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="print these parts and write nothing")
    options = parser.parse_args()
    torch.manual_seed(0)
    before = load()
    if IN_A_BROWSER & set(options.only):
        chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
        if chromium is None:
            sys.exit("found no Chromium: install it, or name it in the environment variable CHROMIUM")
        prepare(options.peers)
        sys.path.append(str(options.peers))  # last: what .venv has comes from there
        with opened(chromium, libraries(options.peers)) as pages:
            parts = measure(options, pages, chromium)
            version = pages.browser.version
    else:
        parts, version = measure(options), ""
    page = report.page(parts, report.about(version, before))
    if set(options.only) == set(PARTS):
        benchmarks.PAGE.write_text(page, encoding="utf-8")
        make_images.main(make_images.IMAGES, ["benchmarks.png"])
    print(page)


@contextmanager
def opened(chromium: str, texts: dict[str, str]):
    """Open a browser that reaches nothing but the libraries in `texts`, by the ends of their addresses."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            yield Pages(browser, texts)
        finally:
            browser.close()


def measure(options: argparse.Namespace, pages: Pages | None = None, chromium: str = "") -> list[Part]:
    """Measure the parts that were asked for, in the order of the page."""
    how = {
        "widgets": lambda: widgets(pages, options.runs),
        "large": lambda: large_part(pages, chromium),
        "codes": codes_part,
        "capture": capture_part,
        "layer": report.layer_part,
        "course": report.course_part,
    }
    parts = []
    for name in PARTS:
        if name in options.only:
            print(name, file=sys.stderr)
            parts.append(how[name]())
    return parts


def widgets(pages: Pages, runs: int) -> Part:
    """Measure all ways to look at attention, in turns, and the steps of a slider."""
    done = entries()
    for run in range(runs):
        for entry in done:
            take_turn(entry, pages)
            paint = readable(entry.paints[-1]) if entry.paints else entry.problem
            print(f"{run + 1}/{runs}  {entry.name}: {readable(entry.made[-1])}, {paint}", file=sys.stderr)
    steps = browser_steps(pages)
    steps["`interact` + subplots"] = python_steps(draw_subplots)
    steps["`interact` + one image"] = python_steps(draw_image)
    return report.widgets_part(done, steps, runs)


if __name__ == "__main__":
    main()
