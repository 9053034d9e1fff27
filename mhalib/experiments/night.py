"""A sweep that takes a laptop a night: does the arch of lesson 09 stand in deeper models and longer sequences?

    python -m mhalib.experiments.night FOLDER [--workers N] [--scheduler ADDRESS] [--estimate]

Each run that has ended lies in FOLDER, as a file of numbers: stopped by whatever it may be, the same command goes on
from there. What is compared, and by which rules, is what `compare_arms` says; the lessons need none of it.
"""

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import joblib
import torch
from torch import nn

from mhalib.experiments.comparison import compare_arms
from mhalib.experiments.models import LookupModel
from mhalib.experiments.tasks import Lookup
from mhalib.experiments.together import fit_together
from mhalib.experiments.training import torch_threads

TOKENS, LOOKUPS, D_MODEL = 64, 6, 64
STEPS, BATCH = 1000, 16
HEADS, LAYERS = (1, 4, 8, 16, 64), (1, 2, 3)
RATES = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
SEEDS, TUNING_SEEDS = range(20), range(100, 103)
TOGETHER = 5  # seeds side by side in one call; what is lost with a worker is one call
ARMS = {
    f"{heads} heads, {layers} layers": {"num_heads": heads, "num_layers": layers}
    for layers in LAYERS
    for heads in HEADS
}


def build(num_heads: int, num_layers: int, seed: int = 0) -> nn.Module:
    """Return the model of an arm; all arms of one depth have the same number of weights."""
    return LookupModel(16, TOKENS, LOOKUPS, D_MODEL, num_heads, num_layers=num_layers, seed=seed)


def run(seeds: Sequence[int], lr: float, steps: int | None = None, **settings: int) -> list[dict[str, Any]]:
    """Train the model of an arm with each of the seeds, side by side, for `STEPS` steps unless said otherwise."""
    task = Lookup.permutations(TOKENS, LOOKUPS)
    models = [build(**settings, seed=seed) for seed in seeds]
    fits = fit_together(models, task, steps=steps or STEPS, lr=lr, seeds=seeds, batch_size=BATCH)
    return [{"accuracy": fit.accuracy, "loss": fit.evaluation["loss"], "seconds": fit.seconds} for fit in fits]


def estimate(steps: int = 2) -> float:
    """Return the hours of one core that all runs take, from a few steps of each arm.

    Args:
        steps: how many are measured of each arm.
    """
    runs = len(RATES) * len(TUNING_SEEDS) + len(SEEDS)
    seeds = range(TOGETHER)
    seconds = 0.0
    with torch_threads(1):
        for settings in ARMS.values():
            run(seeds, 1e-3, 1, **settings)  # what the first step costs only once
            times = []
            for length in (1, 1 + steps):
                start = time.process_time()
                run(seeds, 1e-3, length, **settings)
                times.append(time.process_time() - start)
            once, step = times[0] / TOGETHER, (times[1] - times[0]) / steps / TOGETHER
            seconds += runs * (once + STEPS * step)
    return seconds / 3600


@contextlib.contextmanager
def place(scheduler: str | None) -> Iterator[None]:
    """Let sweeps inside the `with` run on the Dask cluster with this scheduler, or on this machine."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise SystemExit("a scheduler needs distributed; install it with: python -m pip install distributed") from None
    with Client(scheduler), joblib.parallel_config(backend="dask"):
        yield


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mhalib.experiments.night", description="Heads and layers, a night's worth of runs."
    )
    parser.add_argument("folder", nargs="?", help="where finished runs are kept; the same one goes on")
    parser.add_argument("--workers", type=int, help="how many processes; one per core when left out")
    parser.add_argument("--scheduler", help="run on this Dask cluster, such as tcp://192.168.1.5:8786")
    parser.add_argument("--estimate", action="store_true", help="measure a slice, say how long all takes, run nothing")
    options = parser.parse_args(arguments)
    runs = len(ARMS) * (len(RATES) * len(TUNING_SEEDS) + len(SEEDS))
    if options.estimate:
        hours = estimate()
        print(f"{runs:,} runs: {hours:.1f} hours of one core, {hours / 2:.1f} with two workers, if both have a core")
        return
    if options.folder is None:
        parser.error("name a folder for the finished runs, or say --estimate")
    inputs, _ = Lookup.permutations(TOKENS, LOOKUPS).batch(1, torch.Generator().manual_seed(0))
    with place(options.scheduler):
        found = compare_arms(
            run,
            ARMS,
            SEEDS,
            build=build,
            inputs=inputs,
            learning_rates=RATES,
            tuning_seeds=TUNING_SEEDS,
            folder=options.folder,
            workers=options.workers,
            together=TOGETHER,
        )
    print(found)


if __name__ == "__main__":
    main()
