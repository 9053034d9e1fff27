"""Simulated learners: kernels that work through a lesson in the order of a class, and what they take.

How the classes are chosen and what is printed of them stands in `load`.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from jupyter_client import BlockingKernelClient, KernelManager

from tools.notebooks.run import EXERCISE, TIMEOUT, own_settings, put_in_solutions, read

PHASES = ("open", "read", "train", "exercises")
TRAINS = re.compile(r"(?m)(?<![.\w])(?<!def )(?:fit|sweep|train(?:_\w+)?)\(")
# Learners have a home each, so that they do not wait for one history; a start needs no word of where it listens.
QUIET = ["--log-level=ERROR", "--HistoryManager.hist_file=:memory:"]
EVERY = 1.0  # seconds between two looks at the memory: the kernel counts pages for each
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")


class ClassroomError(RuntimeError):
    """The class cannot be held: a cell failed, or a kernel died."""


@dataclass
class Round:
    """What one size of class took: times in seconds, memory in MB (10⁶ bytes)."""

    learners: int
    machine: float = 0.0  # at its peak, of all together: what they share is counted once
    largest: float = 0.0  # at its peak, resident: of the learner who took most
    # For each phase, in which there are cells, of each learner.
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)


def phases(path: Path) -> dict[str, list[str]]:
    """Return the code cells of a lesson by the phase of a class in which they run; a phase without cells is left out.

    "open" is the first code cell; "train" goes from the first cell that trains to the first exercise.
    """
    nb = read(path)
    sources = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    asks = [bool(EXERCISE.search(source)) for source in sources]
    put_in_solutions(nb)
    solved = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    found = {phase: [] for phase in PHASES}
    now = "open"
    for source, runs, asked in zip(sources, solved, asks, strict=True):
        if asked or now == "exercises":
            now = "exercises"
        elif TRAINS.search(source) and found["open"]:
            now = "train"
        elif now == "open" and found["open"]:
            now = "read"
        found[now].append(runs)
    return {phase: cells for phase, cells in found.items() if cells}


class Learner:
    """One kernel, and the processes that it starts."""

    def __init__(self, number: int, folder: Path):
        self.number = number
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), extra_arguments=QUIET)
        self.process = psutil.Process(self.manager.provisioner.pid)
        self.client: BlockingKernelClient = self.manager.client()

    def begin(self) -> None:
        """Wait until the kernel answers."""
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def run(self, source: str) -> None:
        """Run a cell to its end.

        Raises:
            ClassroomError: it fails, or the kernel dies in it.
        """
        try:
            reply = self.client.execute_interactive(
                source, timeout=TIMEOUT, allow_stdin=False, output_hook=lambda message: None
            )["content"]
        except (RuntimeError, TimeoutError) as error:
            raise ClassroomError(f"learner {self.number}: {error or 'the kernel does not answer'}") from error
        if reply["status"] != "ok":
            first = source.strip().splitlines()[0]
            raise ClassroomError(f"learner {self.number}: {reply['ename']}: {reply['evalue']}, in the cell {first!r}")

    def processes(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def cpu(self) -> float:
        """Return the seconds of processor time so far, with those of processes that have ended."""
        with suppress(psutil.Error):
            alive = [process.cpu_times() for process in self.processes()]
            ended = alive[0].children_user + alive[0].children_system if alive else 0.0
            return sum(times.user + times.system for times in alive) + ended
        return 0.0

    def memory(self) -> list[tuple[float, float]]:
        """Return for each of its processes the MB that are its own, and those that others may hold as well."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):  # it may have ended in between
                told = process.memory_full_info()
                found.append((told.uss / 1e6, (told.rss - told.uss) / 1e6))
        return found

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def hold(lesson: dict[str, list[str]], learners: int, folder: Path, threads: int | None = None) -> Round:
    """Return what a class takes: `learners` kernels through the phases of a lesson.

    Args:
        lesson: what `phases` returns.
        learners: how many, at least one.
        folder: where the kernels work: the folder of the notebook.
        threads: for each kernel; None sets nothing, so that each takes all the cores that it finds.

    Raises:
        ClassroomError: a cell fails or a kernel dies; the others are ended as well.
    """
    found = Round(learners)
    env = dict.fromkeys(THREADS, str(threads)) if threads else {}
    with own_settings({"MHALIB_CLAIMS": "tell", **env}), ExitStack() as ends:
        if threads is None:
            for name in THREADS:
                os.environ.pop(name, None)
        room = []
        ends.enter_context(_watch(room, found))
        began = time.perf_counter()
        for number in range(1, learners + 1):
            room.append(learner := Learner(number, folder))
            ends.callback(learner.end)
        for phase, cells in lesson.items():
            start = began if phase == "open" else time.perf_counter()
            _all_at_once(room, _work(phase, cells, start, found))
    return found


def _work(phase: str, cells: list[str], start: float, found: Round) -> Callable[[Learner], None]:
    """Return what one learner does in a phase, and notes of it."""

    def work(learner: Learner) -> None:
        before = 0.0 if phase == "open" else learner.cpu()
        if phase == "open":
            learner.begin()
        for cell in cells:
            learner.run(cell)
        found.cpu.setdefault(phase, []).append(learner.cpu() - before)
        found.seconds.setdefault(phase, []).append(time.perf_counter() - start)

    return work


def _all_at_once(room: list[Learner], work: Callable[[Learner], None]) -> None:
    """Let each learner do `work` in a thread of its own; raise what the first of them raised."""
    errors: list[Exception] = []

    def one(learner: Learner) -> None:
        try:
            work(learner)
        except Exception as error:  # whatever it is, the class ends, and this thread must not swallow it
            errors.append(error)

    hands = [threading.Thread(target=one, args=(learner,)) for learner in room]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    if errors:
        raise errors[0] if isinstance(errors[0], ClassroomError) else ClassroomError(str(errors[0])) from errors[0]


@contextmanager
def _watch(room: list[Learner], found: Round) -> Iterator[None]:
    """Note the peaks of memory of those in the room, until the end."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            told = [parts for learner in list(room) if (parts := learner.memory())]
            if told:
                own = sum(own for parts in told for own, _ in parts)
                once = max(shared for parts in told for _, shared in parts)
                found.machine = max(found.machine, own + once)
                found.largest = max(found.largest, *(sum(map(sum, parts)) for parts in told), 0.0)
            over.wait(EVERY)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
