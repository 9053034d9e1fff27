"""Execute the lessons under harder conditions than a reader's, and say which of them hold.

    python -m tools.notebooks.harden [--only VARIANT] [--seeds N] [notebooks/NN_name.ipynb …]

Prints a table, variant by lesson: "ok", or how many of its tries failed, and below it what failed. Each try runs a
copy of the lesson by `run.execute`; the repository stays as it is. All of it takes hours, so no test calls
it. What a lesson must do for every reader is tested in `tests/test_notebooks.py`, not here.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from tools.notebooks import changes
from tools.notebooks.run import NOTEBOOKS, ROOT, execute, play, read, write
from tools.notebooks.store import NotebookError, clean
from tools.notebooks.which import chosen_by, short


class Try(NamedTuple):
    """One execution: what it is called, what failed in it, and which claims did not hold and were told."""

    name: str
    failed: str | None
    told: tuple[str, ...] = ()


Tries = Iterable[Try]
TOLD = "✗ not here: "
_COLOURED = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"^(?:File (.+?):\d+|Cell In)", re.MULTILINE)  # the file of a line in a traceback; none for a cell
TELL = {"MHALIB_CLAIMS": "tell"}  # as a reader has it

# In a first cell, because IPython sets filters of its own while it starts.
WARNINGS_AS_ERRORS = """
import warnings
warnings.simplefilter("error")
# Sockets and event loops of the kernel are collected whenever they are, and it warns of itself while it ends.
warnings.filterwarnings("ignore", category=ResourceWarning)
warnings.filterwarnings("ignore", category=PendingDeprecationWarning, module="ipykernel")
"""
NOT_UTF8 = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ASCII = {"LC_ALL": "C", "LANG": "C", **NOT_UTF8}
SWEEP_FOLDER = re.compile(r"^folder = tempfile\.TemporaryDirectory\(\)$", re.MULTILINE)
# Root may write anywhere; without these rights it may not.
AS_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def put_first(path: Path, source: str) -> None:
    nb = read(path)
    nb.cells.insert(0, nbformat.v4.new_code_cell(source))
    write(nb, path)


def plainly(path: Path, env: dict[str, str] | None = None) -> str | None:
    """Execute the lesson at `path`, a copy that nobody stores, and return what failed, or None."""
    try:
        clean(execute(path, env=env))  # refuses an error that a widget shows
    except NotebookError as error:
        return str(error)
    return None


def read_only(path: Path, env: dict[str, str] | None = None) -> str | None:
    """The same in a checkout in which nothing may be written, with HOME and the temporary files elsewhere."""
    checkout = path.parent.parent
    everything = [checkout, *checkout.rglob("*")]
    for item in everything:
        item.chmod(item.stat().st_mode & ~0o222)
    code = (
        "import os, pathlib\nfrom tools.notebooks import harden\n"
        f"path = pathlib.Path({str(path)!r})\n"
        "assert not any(os.access(p, os.W_OK) for p in (path, path.parent)), 'this user may write anyway'\n"
        f"raise SystemExit(harden.plainly(path, {dict(env or {}, PYTHONPATH=str(checkout))!r}))"
    )
    prefix = AS_ANYBODY if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    command = [*prefix, sys.executable, "-c", code]
    try:
        with tempfile.TemporaryDirectory() as home:
            env = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT)}
            ran = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True)
    finally:
        for item in everything:
            item.chmod(item.stat().st_mode | 0o200)
    return ran.stderr.strip() or "it ended without a word" if ran.returncode else None


# Each variant takes a copy of a lesson and the number of seeds.


def seeds(path: Path, number: int) -> Tries:
    """SEED = 100, 200, …: the lesson runs to its end, and what does not hold there is told."""
    for seed in range(100, 100 * number + 1, 100):
        yield as_a_reader(path, f"SEED = {seed}", seed=seed)


def sizes(path: Path, number: int) -> Tries:
    """Each size that the lesson invites to change, alone."""
    nb = read(path)
    for cell, line, other in changes.sizes_offered(nb):
        before, cell.source = cell.source, cell.source.replace(line, other)
        write(nb, path)
        cell.source = before
        yield as_a_reader(path, other)


def numbers(path: Path, number: int) -> Tries:
    """A walk through the lesson with one number changed in every third cell; see `changes.walk`."""
    nb = changes.walk(read(path))
    try:
        play(nb, path.parent, TELL)
    except NotebookError as error:
        yield Try("the walk", str(error))
        return
    for cell in nb.cells:
        if "after" in cell.metadata or "changed" in cell.metadata:
            failed = next((traceback_of(output) for output in cell.outputs if output.output_type == "error"), None)
            if what := cell.metadata.get("changed"):
                failed = None  # where the number was typed, an error is the reader's own
            yield Try(what or f"after {cell.metadata.after}", failed, told_in([cell]))


def as_a_reader(path: Path, name: str, seed: int = 0) -> Try:
    """Execute the lesson as a reader does, whom a claim that does not hold is told."""
    try:
        nb = execute(path, env=TELL, seed=seed)
    except NotebookError as error:
        return Try(name, str(error))
    return Try(name, None, told_in(nb.cells))


def told_in(cells: Iterable[NotebookNode]) -> tuple[str, ...]:
    """Return the claims that did not hold in these cells."""
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    return tuple(line.removeprefix(TOLD) for text in texts for line in text.splitlines() if line.startswith(TOLD))


def traceback_of(output: NotebookNode) -> str | None:
    """Return an error that a reader would not take for an answer; what mhalib refuses in words is one."""
    places = _FRAME.findall(_COLOURED.sub("", "\n".join(output.traceback)))
    refused = output.ename in ("ValueError", "TypeError") and places and "mhalib" in Path(places[-1]).parts
    return None if refused else f"{output.ename}: {output.evalue}"


def warnings(path: Path, number: int) -> Tries:
    put_first(path, WARNINGS_AS_ERRORS)
    yield Try("warnings as errors", plainly(path))


def hashseed(path: Path, number: int) -> Tries:
    for value in "12":
        yield Try(f"PYTHONHASHSEED={value}", plainly(path, {"PYTHONHASHSEED": value}))


def threads(path: Path, number: int) -> Tries:
    for value in "12":
        yield Try(f"OMP_NUM_THREADS={value}", plainly(path, {"OMP_NUM_THREADS": value, "MKL_NUM_THREADS": value}))


def locale(path: Path, number: int) -> Tries:
    """Python that reads and writes ASCII, and Latin-1, where nobody says otherwise."""
    yield Try("LC_ALL=C", plainly(path, ASCII))
    with tempfile.TemporaryDirectory() as folder:  # many systems bring UTF-8 only, so it is made
        make = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", f"{folder}/en_US"]
        if shutil.which(make[0]) and subprocess.run(make, capture_output=True).returncode == 0:
            yield Try("Latin-1", plainly(path, {"LOCPATH": folder, "LC_ALL": "en_US", "LANG": "en_US", **NOT_UTF8}))


def readonly(path: Path, number: int) -> Tries:
    yield Try("read-only", read_only(path))


def together(path: Path, number: int) -> Tries:
    """What can be combined, in one run: for lessons that take long."""
    put_first(path, WARNINGS_AS_ERRORS)
    env = {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", **ASCII}
    yield Try("read-only, LC_ALL=C, 2 threads, PYTHONHASHSEED=1, warnings as errors", read_only(path, env))


def kill(path: Path, number: int) -> Tries:
    """Kernel, tool, sweep: each is killed in the middle, and what was finished must still be there, and whole."""
    whole, tool = path.read_bytes(), [sys.executable, "-m", "tools.notebooks.run", str(path)]
    for who, pid in (("the kernel", "os.getpid()"), ("the tool", "os.getppid()")):
        path.write_bytes(whole)
        nb = read(path)
        cells = [cell for cell in nb.cells if cell.cell_type == "code"]
        middle = cells[len(cells) // 2]
        middle.source = f"import os, signal, time\nos.kill({pid}, signal.SIGKILL)\ntime.sleep(60)\n{middle.source}"
        write(nb, path)
        before = path.read_bytes()
        ran = subprocess.run(tool, capture_output=True, text=True)
        died = ran.returncode == (1 if who == "the kernel" else -signal.SIGKILL)
        intact = path.read_bytes() == before and not list(path.parent.glob("*.partial"))
        yield Try(
            f"{who} killed", None if died and intact else f"exit {ran.returncode}, intact: {intact}\n{ran.stdout}"
        )
    path.write_bytes(whole)
    if any(SWEEP_FOLDER.search(cell.source) for cell in nb.cells):
        yield Try("a sweep killed and called again", _sweep_goes_on(path))


def _sweep_goes_on(path: Path) -> str | None:
    """Kill the kernel when 3 runs of its sweep are stored; they must be there, untouched, after the next call."""
    with tempfile.TemporaryDirectory() as folder:
        kept = f"from types import SimpleNamespace\nfolder = SimpleNamespace(name={folder!r})"
        nb = read(path)
        for cell in nb.cells:
            cell.source = SWEEP_FOLDER.sub(lambda _: kept, cell.source)
        write(nb, path)
        put_first(
            path,
            "import os, pathlib, signal, threading, time\ndef _watch():\n"
            f"    while len(list(pathlib.Path({folder!r}).glob('*.json'))) < 3:\n        time.sleep(0.05)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "threading.Thread(target=_watch, daemon=True).start()",
        )
        if "Kernel died" not in (first := plainly(path) or "no failure"):
            return f"expected a dead kernel, got: {first}"
        stored = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in Path(folder).glob("*.json")}
        write(nb, path)
        failure = plainly(path)
        lost = [p.name for p, was in stored.items() if not p.exists() or (p.read_bytes(), p.stat().st_mtime_ns) != was]
        return failure or (f"{len(lost)} of {len(stored)} finished runs were made again" if lost else None)


VARIANTS = {
    f.__name__: f for f in (seeds, sizes, numbers, warnings, hashseed, threads, locale, readonly, together, kill)
}


def order(paths: list[Path]) -> dict[str, Tries]:
    """Run the lessons in random order in one kernel, up to the first failure."""
    shuffled = random.Random(0).sample(paths, len(paths))
    with copied_checkout() as notebooks:
        nb, owners = nbformat.v4.new_notebook(), []
        for path in shuffled:
            cells = read(path).cells
            for cell in cells:
                cell.id = f"{short(path)}-{cell.id}"[:64]  # two lessons may have used one id
            nb.cells += cells
            owners += [path] * len(cells)
        write(nb, notebooks / "all.ipynb")
        failure = plainly(notebooks / "all.ipynb")
    found = re.match(r"cell (\d+)", failure or "")
    failed = shuffled.index(owners[int(found[1]) - 1]) if found else 0 if failure else len(shuffled)
    said: list[str | None] = [None] * failed + [failure] + ["not reached"] * len(shuffled)
    label = " ".join(short(path) for path in shuffled)
    return {path.stem: [Try(label, what)] for path, what in zip(shuffled, said, strict=False)}


@contextlib.contextmanager
def copied_checkout() -> Iterator[Path]:
    """Give the notebooks folder of a copy of what a lesson may see of the repository."""
    with tempfile.TemporaryDirectory(prefix="harden-") as folder:
        for name in ("notebooks", "images", "mhalib", "tools"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__", ".ipynb*"))
        shutil.copy(ROOT / "requirements.txt", folder)
        yield Path(folder, "notebooks")


def one_by_one(variant: str, paths: list[Path], number: int) -> dict[str, Tries]:
    outcomes = {}
    for path in paths:
        with copied_checkout() as notebooks:
            outcomes[path.stem] = list(VARIANTS[variant](Path(shutil.copy(path, notebooks)), number))
        print(variant, path.stem, *outcomes[path.stem], file=sys.stderr, flush=True)
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the lessons under hard conditions; print which hold.")
    parser.add_argument("paths", nargs="*", help="these notebooks only: files, or 05, or torch")
    parser.add_argument("--only", action="append", choices=[*VARIANTS, "order"], help="this variant; may be repeated")
    parser.add_argument("--seeds", type=int, default=10, help="how many other seeds (10)")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in chosen_by(parser, options.paths, NOTEBOOKS)]
    table, failures = [["variant", *(short(path) for path in paths)], ["---"] * (len(paths) + 1)], []
    remarks: list[str] = []  # claims that did not hold, and said so
    for variant in options.only or [*VARIANTS, "order"]:
        outcomes = order(paths) if variant == "order" else one_by_one(variant, paths, options.seeds)
        table.append([variant])
        for path in paths:
            tries = outcomes[path.stem]
            where = f"{variant}, {path.stem}"
            failed = [f"**{where}, {one.name}**: {one.failed}" for one in tries if one.failed is not None]
            told = [f"{where}, {one.name}: told: {text}" for one in tries for text in one.told]
            table[-1].append(f"{len(failed)} of {len(tries)} failed" if failed else "ok")
            table[-1][-1] += f", {len(told)} told" if told else ""
            failures += failed
            remarks += told
    print(*("| " + " | ".join(row) + " |" for row in table), "", *failures, *remarks, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
