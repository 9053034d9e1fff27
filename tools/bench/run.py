"""Measure widgets and layer beside what a reader would use instead, in one run on one machine.

    python -m tools.bench.run [--runs 3] [--peers FOLDER]

The widgets are measured in `widgets.py`, the layer in `layer.py`, what a reader waits for in `course.py`; `report.py`
makes the page of it: BENCHMARKS.md, with the targets that are met and those that are not, and images/benchmarks.png.
The others' packages (requirements-bench.txt) go into .bench, never into .venv. bertviz loads three JavaScript
libraries from the network; here they come from the same folder, fetched once by npm, and its time to paint is left
out where npm is missing. The runs take turns, so that a busy machine is busy for all.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

from tools import make_images
from tools.bench.peers import ROOT, libraries, prepare
from tools.bench.report import about, load, readable, report
from tools.bench.widgets import Pages, browser_steps, draw_image, draw_subplots, entries, python_steps, take_turn
from tools.pictures import benchmarks

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]


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
                take_turn(entry, pages)
                paint = readable(entry.paints[-1]) if entry.paints else entry.problem
                print(f"{run + 1}/{options.runs}  {entry.name}: {readable(entry.made[-1])}, {paint}", file=sys.stderr)
        steps = browser_steps(pages)
        steps["`interact` + subplots"] = python_steps(draw_subplots)
        steps["`interact` + one image"] = python_steps(draw_image)
        page = report(done, steps, options.runs, about(browser.version, before))
        browser.close()
    benchmarks.PAGE.write_text(page, encoding="utf-8")
    make_images.main(make_images.IMAGES, ["benchmarks.png"])
    print(page)


if __name__ == "__main__":
    main()
