"""Measure what a reader waits for before and between the lessons: imports, every lesson executed, a first `make lab`.

Part of `make bench`; `page.py` puts the tables into BENCHMARKS.md.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress

from tools.notebooks.run import NOTEBOOKS, ROOT, execute
from tools.notebooks.which import lesson_files

IMPORTS, PORT = 5, 18999
GUARD = 1800  # seconds after which a first start is given up


def import_costs() -> tuple[float, float]:
    """Return the median seconds in which a fresh Python imports torch, and mhalib, in turns."""
    spent = {"torch": [], "mhalib": []}
    for _ in range(IMPORTS):
        for name, values in spent.items():
            code = f"import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"
            values.append(float(subprocess.check_output([sys.executable, "-c", code], text=True)))
    return statistics.median(spent["torch"]), statistics.median(spent["mhalib"])


def lesson_seconds() -> dict[str, float]:
    """Return how long each lesson takes from the start of its kernel to its last cell, exercises untouched."""
    spent = {}
    for path in lesson_files(NOTEBOOKS):
        start = time.perf_counter()
        execute(path)
        spent[path.stem] = time.perf_counter() - start
        print(f"{path.stem}: {spent[path.stem]:.1f} s", file=sys.stderr)
    return spent


def first_start() -> float | None:
    """Return the seconds from `make lab` in a fresh clone until the server answers; None where that fails.

    Packages come from pip's cache as far as it has them; what is left is unpacking and installing.
    """
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    with tempfile.TemporaryDirectory() as clone:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), clone], check=True)
        start = time.perf_counter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = ["make", "lab", f"PORT={PORT}", "BROWSER=0"]
        server = subprocess.Popen(command, cwd=clone, env=environ, start_new_session=True, **quiet)
        try:
            while server.poll() is None and time.perf_counter() - start < GUARD:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api", timeout=5):
                    return time.perf_counter() - start
                time.sleep(0.2)
            return None
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait()
