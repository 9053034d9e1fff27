"""Let a class of simulated learners work through one lesson, and say what memory and time it takes.

    python -m tools.classroom.load 05 --learners 1 2 4 8 [--threads 1] [--class-of 40 --cores 8]

Each learner is a kernel of its own, as under JupyterHub and under one server for all. The lesson comes in the order
of a class: all open it, all read on to the first training, all train at the same moment, all write the exercises (the
solutions stand in for their answers). Nobody stops to think, so it is the worst that a class can do; between these
phases all wait for the last. Not counted: the server (some 100 MB; under JupyterHub some 180 for each learner) and
the browsers, which run elsewhere.

Memory, in MB (10⁶ bytes), is asked for once a second. *machine* is what all need together: what belongs to one
process alone (USS) of each, and once, for the libraries of torch are one for all, the most that any process shares.
*largest* is the resident memory of one learner's kernel and of the processes that it starts, which a limit for each
learner must leave. (PSS would not do: it also divides by strangers who run the same torch on the machine.)

Beyond the largest class that was held, the memory grows by what each of its last learners added, and a phase takes
as long as for one learner alone, or as the cores need for the seconds of processor of all, whichever is longer.
Code cells run with your rights.
"""

import argparse
import statistics
import sys
from pathlib import Path

import psutil

from tools.classroom.learners import ClassroomError, Round, hold, phases
from tools.notebooks.which import chosen_by

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
KERNEL = 50  # MB of a kernel that has done nothing: what was held may have been too short to be seen
MOST = 0.8  # of the memory that is free: a machine without any stops for everybody


def memory_for(rounds: list[Round], learners: int) -> float:
    """Return the MB that a class of this size takes, from the two largest that were held.

    Raises:
        ValueError: fewer than two sizes were held.
    """
    if len(rounds) < 2:
        raise ValueError(f"two sizes of class are needed, got {len(rounds)}; give --learners at least two numbers")
    before, last = sorted(rounds, key=lambda found: found.learners)[-2:]
    each = (last.machine - before.machine) / (last.learners - before.learners)
    return last.machine + each * (learners - last.learners)


def seconds_for(rounds: list[Round], phase: str, learners: int, cores: int) -> float:
    """Return the seconds until the last of a class is through a phase: as one alone, or as the cores need for all.

    The smallest class that was held tells the first, the largest the seconds of processor, with what kernels that run
    side by side cost each other.
    """
    ordered = sorted(rounds, key=lambda found: found.learners)
    alone = statistics.median(ordered[0].seconds[phase])
    return max(alone, learners * statistics.mean(ordered[-1].cpu[phase]) / cores)


def table(rounds: list[Round]) -> str:
    """Return what was measured: a line for each size of class and phase."""
    lines = ["learners  machine  largest  phase       median s   last s  CPU s each"]
    for found in rounds:
        for number, phase in enumerate(found.seconds):
            first = f"{found.learners:8}  {found.machine:7.0f}  {found.largest:7.0f}" if number == 0 else " " * 26
            waits = sorted(found.seconds[phase])
            lines.append(
                f"{first}  {phase:10}  {statistics.median(waits):8.1f} {waits[-1]:8.1f}"
                f"  {statistics.mean(found.cpu[phase]):10.1f}"
            )
    return "\n".join(lines)


def forecast(rounds: list[Round], learners: int, cores: int) -> str:
    """Return what is to be expected of a larger class, in one line."""
    waits = ", ".join(f"{phase} {seconds_for(rounds, phase, learners, cores):.0f} s" for phase in rounds[0].seconds)
    memory = memory_for(rounds, learners) / 1000
    return f"A class of {learners} on {cores} cores, extrapolated: {memory:.1f} GB for the kernels; {waits}"


def _check_room(rounds: list[Round], learners: int) -> None:
    """Refuse a class for which the machine has no memory.

    Raises:
        ClassroomError: it would take more than what is free.
    """
    if not rounds:
        return
    needed = memory_for(rounds, learners) if len(rounds) > 1 else rounds[0].largest * learners / rounds[0].learners
    needed = max(needed, KERNEL * learners)
    free = MOST * psutil.virtual_memory().available / 1e6
    if needed > free:
        raise ClassroomError(
            f"{learners} learners would take about {needed:,.0f} MB, and {free:,.0f} may be used; hold a smaller class"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what memory and time a class takes for one lesson.")
    parser.add_argument("lesson", help="a file, or 05, or torch")
    parser.add_argument("--learners", nargs="+", type=int, default=[1, 2, 4], metavar="N", help="sizes of class")
    parser.add_argument("--threads", type=int, help="threads for each kernel; without it, what torch takes by itself")
    parser.add_argument("--class-of", type=int, default=40, metavar="N", help="the size to extrapolate to")
    parser.add_argument("--cores", type=int, default=psutil.cpu_count(), help="of the machine to extrapolate to")
    options = parser.parse_args(arguments)
    if min(*options.learners, options.class_of, options.cores, options.threads or 1) < 1:
        parser.error("learners, threads and cores are counted from 1")
    (path,) = chosen_by(parser, [options.lesson], NOTEBOOKS)
    lesson, rounds = phases(path), []
    try:
        for learners in sorted(set(options.learners)):
            _check_room(rounds, learners)
            rounds.append(hold(lesson, learners, path.resolve().parent, options.threads))
            print(table(rounds[-1:]) if len(rounds) == 1 else table(rounds[-1:]).partition("\n")[2], flush=True)
    except ClassroomError as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 1
    if len(rounds) > 1:
        print(forecast(rounds, options.class_of, options.cores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
