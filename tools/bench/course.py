"""Measure what a reader waits for before and between the lessons: imports, every lesson executed, a first `make lab`.

Part of `make bench`; `page.py` puts the tables into BENCHMARKS.md.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tools.notebooks.run import NOTEBOOKS, ROOT, execute
from tools.notebooks.which import lesson_files

IMPORTS = 5
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
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        log = Path(place, "log")
        environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        start = time.perf_counter()
        with open(log, "w", encoding="utf-8") as out:
            command = [shutil.which("make") or "make", "lab", "PORT=18999", "BROWSER=0"]
            server = subprocess.Popen(
                command, cwd=clone, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=environ
            )
        try:
            while server.poll() is None and time.perf_counter() - start < GUARD:
                address = re.search(r"http://127\.0\.0\.1:\d+/lab\S*", log.read_text(encoding="utf-8"))
                if address and _answers(address.group()):
                    return time.perf_counter() - start
                time.sleep(0.2)
            return None
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
