"""Sweeps: every run once, none lost when a process is killed, the same numbers wherever they are computed."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import joblib
import pytest
import torch

from mhalib.experiments import Lookup, LookupModel, SweepError, fit, fit_together, night, sweep
from tests.helpers.refusals import accepted

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has one way to end a process at once
ARMS = {"one": {"num_heads": 1}, "two": {"num_heads": 2}}
TRAINING = {"steps": 5, "lr": 1e-2, "batch_size": 8}
QUIET = TRAINING | {"progress": False}


def train(seed, num_heads):
    result = fit(LookupModel(6, 5, 2, 8, num_heads, seed=seed), Lookup.offsets(5, vocab=6), seed=seed, **QUIET)
    return {**result.evaluation, "losses": result.losses, "process": os.getpid(), "threads": torch.get_num_threads()}


def train_many(seeds, num_heads):
    models = [LookupModel(6, 5, 2, 8, num_heads, seed=seed) for seed in seeds]
    fits = fit_together(models, Lookup.offsets(5, vocab=6), seeds=seeds, **TRAINING)
    return [{**run.evaluation, "losses": run.losses, "process": os.getpid()} for run in fits]


def numbers(rows):
    return [{name: row[name] for name in ("arm", "seed", "loss", "accuracy", "losses")} for row in rows]


def alone(*args, **options):
    """Sweep in this process: fast, for what has nothing to do with processes."""
    return sweep(*args, **{"workers": 1, "progress": False} | options)


@pytest.fixture(scope="module")
def expected():
    return [{"arm": arm, "seed": seed, **ARMS[arm], **train(seed, **ARMS[arm])} for arm in ARMS for seed in (0, 1, 2)]


def test_processes_give_the_same_bits_as_a_loop_in_the_order_asked_for(expected, tmp_path):
    nap = 0.2  # long enough that one process cannot do it all before the other is up

    def run(seed, num_heads):  # as in a notebook: no worker could import it
        time.sleep(nap)
        return train(seed, num_heads)

    before = torch.get_num_threads()
    rows = sweep(run, ARMS, range(3), workers=2, progress=False, folder=tmp_path)
    assert numbers(rows) == numbers(expected)
    assert {row["threads"] for row in rows} == {1}  # one thread each, or they fight for the cores
    assert torch.get_num_threads() == before
    processes = {row["process"] for row in rows}
    assert os.getpid() not in processes and len(processes) == 2
    # from the files: the same rows, types included
    assert repr(alone(run, ARMS, range(3), folder=tmp_path)) == repr(rows)


LOGGED = {name: {**settings, "log": "log"} for name, settings in ARMS.items()}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def count(seed, num_heads, log):
    """Leave a line per call, so that the tests see what was really run."""
    with open(log, "a") as file:
        file.write(f"{num_heads} {seed}\n")
    return {"value": num_heads + seed / 10}


def calls():
    return [tuple(map(int, line.split())) for line in Path("log").read_text().splitlines()]


def test_finished_runs_are_never_repeated_and_without_a_folder_nothing_is_kept(here, capfd):
    first = alone(count, LOGGED, [0, 1], folder="runs")
    more = alone(count, LOGGED, [0, 1, 2], folder="runs", progress=True)
    assert calls() == [(1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (2, 2)]
    assert [row for row in more if row["seed"] < 2] == first
    assert not list(Path("runs").glob("*.tmp"))
    assert "4/6 [" in capfd.readouterr().err, "the bar starts where the first sweep ended"
    for _ in range(2):
        alone(count, LOGGED, [0])
    assert len(calls()) == 6 + 4 and sorted(os.listdir()) == ["log", "runs"]
    assert capfd.readouterr().err == ""


def test_other_settings_or_another_source_are_other_runs(tmp_path):
    def run(seed, size):
        return {"value": size}

    one = run

    def run(seed, size):
        return {"value": -size}

    for one_of_them, size, wanted in 2 * ((one, 1, 1), (run, 1, -1), (one, 2, 2)):
        (row,) = alone(one_of_them, {"a": {"size": size}}, [0], folder=tmp_path)
        assert row["value"] == wanted


def test_a_damaged_file_never_counts(here):
    damages = {
        "half of it": lambda text: text[: len(text) // 2],
        "another file": lambda text: '{"result": {"value": 7}}',
        "a list": lambda text: "[1]",
        "another seed": lambda text: text.replace('"seed": 0', '"seed": 1'),
        "no result": lambda text: json.dumps(json.loads(text) | {"result": None}),
    }
    first = alone(count, LOGGED, [0], folder="runs")
    for name, damage in damages.items():
        for file in Path("runs").glob("*.json"):
            file.write_text(damage(file.read_text()))
        Path("log").unlink()
        again = [alone(count, LOGGED, [0], folder="runs") for _ in range(2)]
        assert again == [first, first] and calls() == [(1, 0), (2, 0)], name  # once, then it is whole again


def fail_sometimes(seed, num_heads):
    if (num_heads, seed) == (2, 1):
        raise ZeroDivisionError("no such head")
    return {"value": num_heads}


def test_an_error_in_a_run_names_it_and_spares_the_others(tmp_path):
    with pytest.raises(SweepError) as caught:
        alone(fail_sometimes, ARMS, range(3), folder=tmp_path)
    message = str(caught.value)
    assert message.startswith("1 of 6 runs failed: two (seed 1)")
    assert "Of arm 'two', seed 1:" in message and "ZeroDivisionError: no such head" in message
    done = [(row["arm"], row["seed"]) for row in caught.value.rows]
    assert done == [("one", 0), ("one", 1), ("one", 2), ("two", 0), ("two", 2)]
    assert len(list(tmp_path.glob("*.json"))) == 5


def die(seed, num_heads):
    if num_heads == 2:
        time.sleep(0.5)
        os.kill(os.getpid(), KILL)
    return {"value": num_heads}


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_what_is_done_is_kept(tmp_path):
    with pytest.raises(SweepError, match=r"a worker process died .*two \(seed 0\).*; what is done is kept") as caught:
        sweep(die, ARMS, [0], folder=tmp_path, workers=2, progress=False)
    assert [row["arm"] for row in caught.value.rows] == ["one"]
    with pytest.raises(SweepError, match="1 of 4 runs failed"):  # and the next sweep has workers again
        sweep(fail_sometimes, ARMS, [0, 1], workers=2, progress=False)


def interrupt(seed, num_heads):
    raise KeyboardInterrupt


def test_an_interrupted_run_never_passes_for_a_finished_one(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        alone(interrupt, ARMS, [0], folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_arguments_and_results_that_are_no_plain_values_are_refused(as_shipped):
    wrong = {
        "TypeError: run must be a function of seed": {"run": 3},
        "TypeError: arms must map names to settings": {"arms": {"one": 1}},
        "TypeError: seeds must be whole numbers, got [0.5]": {"seeds": [0.5]},
        "each seed once; got 2 arms, seeds [1, 1]": {"seeds": [1, 1]},
        "arm 'one' sets 'arm', 'seed' or 'seeds'": {"arms": {"one": {"seed": 1}}},
        "the settings of arm 'one' must be plain": {"arms": {"one": {"x": torch.zeros(1)}}},
        "workers must be a positive integer": {"workers": 0},
        "together must be a positive integer": {"together": 0},
    }
    usual = {"run": fail_sometimes, "arms": ARMS, "seeds": [0], "progress": False}
    assert accepted({words: partial(sweep, **(usual | given)) for words, given in wrong.items()}) == []
    results = {
        "must return a mapping such as {'accuracy': 0.5}, got float": 0.5,
        "must be plain numbers, texts and lists, got loss: Tensor": {"loss": torch.zeros(1)},
        "run returns ['seed'], which are names of settings": {"seed": 1},
    }
    for words, result in results.items():
        with pytest.raises(SweepError) as caught:
            alone(lambda seed, result=result: result, {"a": {}}, [0])
        assert words in str(caught.value)


def test_seeds_side_by_side_are_rows_of_their_own_and_each_call_is_one_arm_that_fails_alone(tmp_path):
    made, lost = [], {3}

    def run(seeds, num_heads):
        made.append((num_heads, seeds))
        if num_heads == 2 and lost & set(seeds):
            raise RuntimeError("no such thing")
        return [{"value": seed} for seed in seeds]

    with pytest.raises(SweepError, match=r"(?s)2 of 10 runs failed.*no such thing") as caught:
        alone(run, ARMS, range(5), together=2, folder=tmp_path)
    assert made == [(heads, seeds) for heads in (1, 2) for seeds in ([0, 1], [2, 3], [4])]
    assert "two (seed 2), two (seed 3);" in str(caught.value)
    assert [row["value"] for row in caught.value.rows] == [*range(5), 0, 1, 4]
    lost.clear()
    rows = alone(run, ARMS, range(5), together=2, folder=tmp_path)
    assert made[6:] == [(2, [2, 3])] and [row["value"] for row in rows] == [row["seed"] for row in rows]
    with pytest.raises(SweepError, match="a list of 2 mappings, one for each of its seeds, got 1"):
        alone(lambda seeds, num_heads: [{"value": 1}], ARMS, range(2), together=2)


def train_and_die_once(seed, num_heads, folder):
    mark = Path(folder) / "died"
    if (num_heads, seed) == (2, 1) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), KILL)
    return train(seed, num_heads)


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bits_though_a_worker_dies(expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    arms = {name: {**settings, "folder": str(tmp_path)} for name, settings in ARMS.items()}
    sizes = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(**sizes) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        rows = sweep(train_and_die_once, arms, range(3), folder=tmp_path / "runs", progress=False)
        side_by_side = sweep(train_many, ARMS, range(3), together=2, progress=False)
        with pytest.raises(SweepError, match="no run ended within 5 s .*two"):
            sweep(die, ARMS, [0], timeout=5.0, progress=False)  # it kills every worker that it gets
    assert (tmp_path / "died").exists()
    assert os.getpid() not in {row["process"] for row in (*rows, *side_by_side)}
    assert numbers(rows) == numbers(expected)
    assert numbers(side_by_side) == numbers(alone(train_many, ARMS, range(3), together=2))
    # what the cluster computed, a sweep without it finds again
    assert alone(train_and_die_once, arms, range(3), folder=tmp_path / "runs") == rows


def test_a_night_trains_and_estimates_every_run_and_what_is_done_is_not_done_again(tmp_path, monkeypatch, capsys):
    arms = {"1 head": {"num_heads": 1, "num_layers": 1}, "2 heads": {"num_heads": 2, "num_layers": 1}}
    sizes = {"TOKENS": 8, "D_MODEL": 8, "STEPS": 2, "BATCH": 4, "TOGETHER": 2, "ARMS": arms}
    plan = {"RATES": (1e-3, 1e-2), "SEEDS": range(3), "TUNING_SEEDS": range(100, 101)}
    for name, value in {**sizes, **plan}.items():
        monkeypatch.setattr(night, name, value)
    asked, train = [], night.fit_together

    def watched(models, *args, seeds, **options):
        asked.append((models[0].layers[0].num_heads, *seeds))
        return train(models, *args, seeds=seeds, **options)

    monkeypatch.setattr(night, "fit_together", watched)
    for _ in range(2):
        night.main([str(tmp_path), "--workers", "1"])
    chosen = [(1, 100), (1, 100), (2, 100), (2, 100)]  # two rates each, then the seeds
    assert asked == [*chosen, (1, 0, 1), (1, 2), (2, 0, 1), (2, 2)]
    printed = capsys.readouterr().out
    table = printed[: len(printed) // 2]
    assert printed == table * 2 and "1 head" in table and "2 heads" in table
    with pytest.raises(SystemExit):
        night.main([])
    assert "name a folder for the finished runs" in capsys.readouterr().err
    clock = iter(range(100))
    monkeypatch.setattr(night.time, "process_time", lambda: float(next(clock)))
    monkeypatch.setattr(night, "run", lambda *args, **settings: [])
    # A call takes 1 s by this clock, whatever its steps: so a step costs nothing, and a run 1 s / TOGETHER.
    assert night.estimate() == (10, pytest.approx(2 * (2 + 3) * 0.5 / 3600))
    night.main(["--estimate"])
    assert capsys.readouterr().out.startswith("10 runs: 0.0 hours of one core")
