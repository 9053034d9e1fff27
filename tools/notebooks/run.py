"""Execute the notebooks and store their outputs, so that people can read them where nothing runs.

    python -m tools.notebooks.run [--all | --check | --clear] [notebooks/NN_name.ipynb …]

Without names, the notebooks in `notebooks/` whose source changed since they were executed. Each runs in a
fresh kernel of this Python that sees no settings of the user. A notebook that fails, or that must not be stored,
stays as it was. What happens to the outputs is said in `store.py`, what a lesson must look like in
`tests/lessons/test_notebooks.py`, not here.
"""

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import zmq
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.notebooks.store import NotebookError, make_storable, only_its_text_changed, stale, tidy
from tools.notebooks.which import chosen_by

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PACKAGES = ("mhalib", "headview", "attention_doctor", "mhacourse")  # ours, from the ground up
SEED = re.compile(r"^SEED = 0\b", re.MULTILINE)
EXERCISE = re.compile(r"check\.(\w+)\((\w+)\)")
# By these a user sets what a kernel does.
SETTINGS = ("MPLBACKEND", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS")
TIMEOUT = 600  # seconds a cell may take; a guard against hanging, no measure of speed


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def write(nb: NotebookNode, path: Path) -> None:
    text = nbformat.writes(nb) + "\n"
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)  # at once, so that an interruption leaves a whole notebook


def clear(nb: NotebookNode) -> NotebookNode:
    """Remove all outputs in place; the hash goes with them, since nothing is executed any more."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    for stamp in ("source_sha256", "code_sha256"):
        nb.metadata.get("mhalib", {}).pop(stamp, None)
    return nb


def put_in_solutions(nb: NotebookNode) -> list[str]:
    """Let every exercise cell check its stub, then the solution in its place; return the exercises' names.

    An exercise cell is one whose last line is `check.name(answer)`. The notebook is changed in place and then
    stops with an error where a stub passes, or a solution does not.
    """
    names = []
    for cell in nb.cells:
        before, _, last = cell.source.rpartition("\n")
        if cell.cell_type == "code" and (found := EXERCISE.fullmatch(last)):
            name, answer = found.groups()
            names.append(name)
            solved = f"assert not {last}.passed\n{answer} = check.{name}.answer\nassert {last}.passed\n"
            cell.source = f"{before}\n{solved}{last}"
    return names


def put_in_seed(nb: NotebookNode, seed: int) -> None:
    """Let the lesson begin with another seed than 0, in place."""
    places = [cell for cell in nb.cells if cell.cell_type == "code" and SEED.search(cell.source)]
    if len(places) != 1:
        raise ValueError(f"a lesson sets its seed once, in a line `SEED = 0`; found {len(places)} such cells")
    places[0].source = SEED.sub(f"SEED = {seed}", places[0].source)


def execute(path: Path, env: dict[str, str] | None = None) -> NotebookNode:
    """Return the notebook at `path` as it ran in its folder in a fresh kernel, its widgets still there.

    To store it, `make_storable` of `store.py` comes next. The file itself is left alone.
    """
    nb = clear(read(path))
    play(nb, path.parent, env, to_the_end=False)
    return nb


def play(nb: NotebookNode, folder: Path, env: dict[str, str] | None = None, *, to_the_end: bool = True) -> None:
    """Execute a notebook in place, in a fresh kernel that works in `folder` and has the variables `env` on top of ours.

    With `to_the_end`, a cell that fails keeps its error as an output, and the next one runs.

    Raises:
        NotebookError: a cell fails, the kernel dies or takes too long.
    """
    running = []  # the numbers of the code cells that were sent to the kernel; it may die before it answers
    # force_raise_errors: a lesson that shows an error catches it, so that Restart & Run All gets to the end.
    client = _Client(
        nb,
        kernel_name="python3",
        timeout=TIMEOUT,
        record_timing=False,
        allow_errors=to_the_end,
        force_raise_errors=not to_the_end,
        coalesce_streams=True,
        on_cell_execute=lambda cell, cell_index: running.append(cell_index),
        extra_arguments=["--log-level=ERROR"],  # else each start warns that the kernel listens on this machine
        resources={"metadata": {"path": str(folder)}},
    )
    with own_settings(env or {}):
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise NotebookError(_describe_failure(nb, running[-1] if running else 0, error)) from None


class _Client(NotebookClient):
    """An nbclient that starts on a busy machine, and does not wait for an answer which has come.

    For the output areas of `interact`, nbclient sends on the very socket on which it waits for the end of the cell,
    past asyncio, which may then never be told of an answer that came at that moment; more so on a busy machine.
    """

    async def async_start_new_kernel_client(self):
        """Start a second kernel where the first could not: another program took a port that had just been free."""
        try:
            return await super().async_start_new_kernel_client()
        except RuntimeError:
            self.km = self.kc = None
            self.create_kernel_manager()
            await self.async_start_new_kernel()
            return await super().async_start_new_kernel_client()

    async def _async_check_alive(self) -> None:  # is called each second while a cell runs
        self.kc.shell_channel.socket.get(zmq.EVENTS)  # asking tells asyncio as well
        await super()._async_check_alive()


@contextlib.contextmanager
def own_settings(env: dict[str, str]):
    """Let the kernel start without any settings of the user: Jupyter's, IPython's, matplotlib's, Python's."""
    before = dict(os.environ)
    # Windows removes no file that is open, and a kernel that ends may hold its history for a moment longer.
    with tempfile.TemporaryDirectory(prefix="mhalib-", ignore_cleanup_errors=True) as folder:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            os.environ[name] = os.path.join(folder, name)
        # It stays, for the list of fonts is slow; in .venv, since the user's may be of an environment that is gone.
        os.environ["MPLCONFIGDIR"] = os.path.join(sys.prefix, "share", "matplotlib")
        os.environ["PYTHONHASHSEED"] = "0"  # the order of a set is the same on every run
        os.environ["MHALIB_CLAIMS"] = "raise"  # what a reader is told, stops the tools
        for name in SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(env)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _describe_failure(nb: NotebookNode, number: int, error: Exception) -> str:
    source = "\n".join("    " + line for line in nb.cells[number].source.splitlines()[:12])
    if isinstance(error, CellExecutionError):
        what = f"{error.ename}: {error.evalue}"
    else:
        what = str(error).strip().splitlines()[0]
    return f"cell {number + 1} failed: {what}\n\n{source}\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the notebooks whose source changed; store their outputs.")
    parser.add_argument("paths", nargs="*", help="these notebooks only: files, or 05, or torch")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--all", action="store_true", help="execute them even if nothing changed")
    choice.add_argument("--check", action="store_true", help="execute nothing; name those that should be")
    choice.add_argument("--clear", action="store_true", help="execute nothing; remove the outputs")
    options = parser.parse_args(arguments)
    failures = 0
    paths = chosen_by(parser, options.paths, NOTEBOOKS)
    for path in paths:
        nb = read(path)
        reason = stale(nb)
        if options.clear:
            write(clear(nb), path)
        elif options.check:
            if reason:
                print(f"{path.name}: {reason}; run `make notebooks`")
            failures += bool(reason)
        elif reason and only_its_text_changed(nb) and not (options.all or options.paths):
            write(make_storable(nb), path)
            print(f"{path.name}: only its text changed; its outputs stay")
        elif reason or options.all or options.paths:
            start = time.perf_counter()
            print(f"{path.name} …", end=" ", flush=True)
            try:
                write(make_storable(execute(path.resolve())), path)
                print(f"{time.perf_counter() - start:.1f} s, {path.stat().st_size / 1000:.0f} KB")
            except NotebookError as error:
                failures += 1
                print(f"not stored\n{path.name}, {error}")
        elif tidy(nb):
            write(nb, path)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
