"""A sweep that takes a laptop a night: does the arch of lesson 09 stand in deeper models and longer sequences?

    python -m mhalib.experiments.night FOLDER [--workers N] [--estimate]

Each run that has ended lies in FOLDER, as a file of numbers: stopped by whatever it may be, the same command goes on
from there. What is compared, and by which rules, is what `compare_arms` says; the lessons need none of it.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from mhalib.experiments.comparison import compare_arms
from mhalib.experiments.models import LookupModel
from mhalib.experiments.tasks import Lookup
from mhalib.experiments.training import fit_together

TOKENS, LOOKUPS, D_MODEL = 64, 6, 64
STEPS, BATCH = 1000, 16
HEADS, LAYERS = (1, 4, 8, 16, 64), (1, 2, 3)
RATES = (1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
SEEDS, TUNING_SEEDS = range(20), range(100, 103)
TOGETHER = 5  # seeds side by side in one call; what is lost with a worker is one call
ARMS = {f"{h} heads, {n} layers": {"num_heads": h, "num_layers": n} for n in LAYERS for h in HEADS}


def build(num_heads: int, num_layers: int, seed: int = 0) -> nn.Module:
    """Return the model of an arm; all arms of one depth have the same number of weights."""
    return LookupModel(16, TOKENS, LOOKUPS, D_MODEL, num_heads, num_layers=num_layers, seed=seed)


def run(seeds: Sequence[int], lr: float, steps: int | None = None, **settings: int) -> list[dict[str, Any]]:
    """Train the model of an arm with each of the seeds, side by side, for `STEPS` steps unless said otherwise."""
    task = Lookup.permutations(TOKENS, LOOKUPS)
    models = [build(**settings, seed=seed) for seed in seeds]
    fits = fit_together(models, task, steps=steps or STEPS, lr=lr, seeds=seeds, batch_size=BATCH)
    return [{"accuracy": fit.accuracy, "loss": fit.evaluation["loss"], "seconds": fit.seconds} for fit in fits]


def estimate() -> tuple[int, float]:
    """Return how many runs there are, and the hours of one core that they take, from a few steps of each arm."""
    each = len(RATES) * len(TUNING_SEEDS) + len(SEEDS)
    seconds = 0.0
    for settings in ARMS.values():
        times = []
        for steps in (1, 1, 3):  # the first call pays for what happens only once
            start = time.process_time()
            run(range(TOGETHER), RATES[0], steps, **settings)
            times.append((time.process_time() - start) / TOGETHER)
        seconds += each * (times[1] + STEPS * (times[2] - times[1]) / 2)
    return len(ARMS) * each, seconds / 3600


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mhalib.experiments.night", description="Heads and layers, a night's worth of runs."
    )
    parser.add_argument("folder", nargs="?", help="where finished runs are kept; the same one goes on")
    parser.add_argument("--workers", type=int, help="how many processes; one per core when left out")
    parser.add_argument("--estimate", action="store_true", help="measure a slice, say how long all takes, run nothing")
    options = parser.parse_args(arguments)
    if options.estimate:
        runs, hours = estimate()
        print(f"{runs:,} runs: {hours:.1f} hours of one core, {hours / 2:.1f} with two workers, if both have a core")
        return
    if options.folder is None:
        parser.error("name a folder for the finished runs, or say --estimate")
    inputs, _ = Lookup.permutations(TOKENS, LOOKUPS).batch(1, torch.Generator().manual_seed(0))
    rules = {"learning_rates": RATES, "tuning_seeds": TUNING_SEEDS, "together": TOGETHER}
    kept = {"folder": options.folder, "workers": options.workers}
    print(compare_arms(run, ARMS, SEEDS, build=build, inputs=inputs, **rules, **kept))


if __name__ == "__main__":
    main()
