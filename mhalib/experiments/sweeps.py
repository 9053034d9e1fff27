"""Many runs at once: every arm of an experiment with every seed, in parallel processes or on a cluster.

joblib starts the processes, tqdm draws the bar; what is added here is that finished runs are kept on disk and never
repeated. What a single run does is said by the function that is given, for example with `training.fit`.
"""

import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any

from mhalib.arguments import check_size, extra
from mhalib.experiments.training import torch_threads

with extra("training", "a sweep"):
    import joblib
    from tqdm.auto import tqdm

Row = dict[str, Any]
Key = tuple[str, int]  # an arm and a seed


class SweepError(RuntimeError):
    """Some runs of a sweep failed; `rows` holds those that did not, and the message says what went wrong."""

    def __init__(self, message: str, rows: list[Row]):
        super().__init__(message)
        self.rows = rows


def sweep(
    run: Callable[..., Any],
    arms: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    *,
    folder: str | os.PathLike | None = None,
    workers: int | None = None,
    together: int | None = None,
    timeout: float | None = None,
    progress: bool = True,
) -> list[Row]:
    """Call `run(seed=seed, **settings)` for every arm and every seed, several at once, and collect the numbers.

    With a `folder`, each finished run is stored there, and a second call takes it from there: a sweep that was
    interrupted, or whose machine died, goes on where it stood. A run is known by the name and the source text of
    `run`, the arm, its settings and its seed. What `run` calls or finds outside of itself is not looked at: after a
    change there, take another folder.

    Inside `with joblib.parallel_config(backend="dask")`, the same call runs on the Dask cluster whose client is
    open; a run whose worker dies is started again elsewhere. Results are stored by the calling process only, so the
    workers need not share a disk with it. Each process uses one thread of torch.

    Args:
        run: trains and returns a mapping of plain numbers, texts and lists; may be defined in a notebook.
        arms: name of the arm -> the keyword arguments that make it what it is: plain numbers, texts and lists.
        seeds: the seeds, whole numbers, none of them twice.
        folder: where finished runs are kept; nowhere when left out.
        workers: how many processes; one per CPU core when left out. A cluster brings its own number.
        together: hand `run` up to so many seeds of an arm in one call, `run(seeds=[…], **settings)`, which returns one
            mapping for each, in their order; for `fit_together`. What fails then, fails for all of the call.
        timeout: give up when no run ends for so many seconds. Needed where a run may kill whatever worker it gets:
            joblib does not learn that a Dask cluster gave such a run up, and would wait for ever.
        progress: show one bar over all runs.

    Returns:
        one dict per run, `{"arm": …, "seed": …, **settings, **results}`, arm by arm and seed by seed as given.

    Raises:
        TypeError: an arm or a seed is no plain value, or `run` cannot be called.
        ValueError: there are no arms or seeds, or a seed stands there twice.
        SweepError: runs failed. All others have been finished by then, and stored.

    Taught in notebook 09.
    """
    jobs = _jobs(run, arms, seeds)
    for name, size in {"workers": workers, "together": together}.items():
        if size is not None:
            check_size(name, size)
    files = {} if folder is None else _files(Path(folder), jobs)
    done = {key: result for key, file in files.items() if (result := _stored(file, jobs[key])) is not None}
    pending = {key: job["settings"] for key, job in jobs.items() if key not in done}
    failures: dict[Key, str] = {}

    def rows() -> list[Row]:
        there = ((key, job["settings"]) for key, job in jobs.items() if key in done)
        return [{"arm": key[0], "seed": key[1], **settings, **done[key]} for key, settings in there]

    kept = "is in this error's `.rows` (with a folder=… it would be kept)"
    kept = f"; what is done {kept if folder is None else 'is kept: the same call goes on from there'}"
    # No more processes than runs: each of them costs the memory of one torch.
    workers = min(joblib.effective_n_jobs(workers or -1), max(1, len(pending)))
    with tqdm(total=len(jobs), initial=len(done), unit="run", leave=False, disable=not progress) as bar:
        try:
            # Closing stops the workers also when the reader, or a full disk, interrupts this loop between two results.
            with closing(_results(run, pending, workers, timeout, together)) as results:
                for key, result, failure in itertools.chain.from_iterable(results):
                    if failure is None:
                        if files:
                            _store(files[key], jobs[key], result)
                        done[key] = result
                    else:
                        failures[key] = failure
                    bar.set_postfix_str(f"{key[0]}, seed {key[1]}", refresh=False)
                    bar.update()
        except (BrokenProcessPool, multiprocessing.TimeoutError) as error:
            died = isinstance(error, BrokenProcessPool)
            what = "a worker process died" if died else f"no run ended within {timeout:g} s"
            message = (
                f"{what} while these were running or waiting: {_names(key for key in jobs if key not in done)}; "
                f"use fewer workers if memory was short{kept}"
            )
            raise SweepError(message, rows()) from error
    if failures:
        failed = [key for key in jobs if key in failures]
        raise SweepError(
            f"{len(failures)} of {len(jobs)} runs failed: {_names(failed)}; the others are done{kept}. "
            f"Of arm {failed[0][0]!r}, seed {failed[0][1]}:\n{failures[failed[0]]}",
            rows(),
        )
    return rows()


def _jobs(run: Callable, arms: Mapping, seeds: Sequence[int]) -> dict[Key, Row]:
    """Return what is to be run, by arm and seed; this is also what a stored run is known by."""
    if not callable(run):
        raise TypeError(f"run must be a function of seed and the arm's settings, got {type(run).__name__}")
    if not isinstance(arms, Mapping) or not all(isinstance(settings, Mapping) for settings in arms.values()):
        raise TypeError("arms must map names to settings, such as {'two heads': {'num_heads': 2}}")
    seeds = list(seeds)
    if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise TypeError(f"seeds must be whole numbers, got {seeds}; use range(5) or list(map(int, ...))")
    if not arms or not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"a sweep needs at least one arm and one seed, each seed once; got {len(arms)} arms, seeds {seeds}"
        )
    name = getattr(run, "__qualname__", type(run).__qualname__)
    try:
        source = inspect.getsource(run)
    except (OSError, TypeError):  # typed into a plain Python prompt, or an object that can be called
        source = ""
    jobs = {}
    for arm, settings in arms.items():
        if {"arm", "seed", "seeds"} & set(settings):
            raise ValueError(f"arm {arm!r} sets 'arm', 'seed' or 'seeds', which the sweep gives; take another name")
        plain = _plain(dict(settings), f"the settings of arm {arm!r}")
        for seed in seeds:
            jobs[arm, seed] = {"run": name, "source": source, "arm": str(arm), "settings": plain, "seed": seed}
    return jobs


def _results(
    run: Callable, pending: Mapping[Key, Row], workers: int, timeout: float | None, together: int | None
) -> Iterator[list[tuple[Key, Row | None, str | None]]]:
    """Return what each call gives as it ends: key, result and failure of its runs, which are all of one arm."""
    # Tasks are handed out as workers come free, and results go as soon as they are taken: memory does not grow with
    # the sweep. One call per batch, or a finished run would wait, not yet stored, for others in its batch.
    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, timeout=timeout)
    size = together or 1
    by_arm = [list(keys) for _, keys in itertools.groupby(pending, key=lambda key: key[0])]
    calls = [keys[first : first + size] for keys in by_arm for first in range(0, len(keys), size)]
    return parallel(joblib.delayed(_call)(run, keys, pending[keys[0]], together is not None) for keys in calls)


def _call(run: Callable, keys: list[Key], settings: Row, many: bool) -> list[tuple[Key, Row | None, str | None]]:
    """Make one call in a worker. Errors come back as text, so that they do not stop the runs beside them."""
    seeds = [seed for _, seed in keys]
    try:
        with torch_threads(1):
            results = run(seeds=seeds, **settings) if many else [run(seed=seeds[0], **settings)]
        if not isinstance(results, (list, tuple)) or len(results) != len(keys):
            raise TypeError(
                f"with together=…, run must return a list of {len(keys)} mappings, one for each of its seeds, got "
                f"{len(results) if isinstance(results, (list, tuple)) else type(results).__name__}"
            )
        return [(key, _checked(result, settings), None) for key, result in zip(keys, results, strict=True)]
    except Exception:
        return [(key, None, traceback.format_exc()) for key in keys]


def _checked(result: Any, settings: Row) -> Row:
    if not isinstance(result, Mapping):
        raise TypeError(f"run must return a mapping such as {{'accuracy': 0.5}}, got {type(result).__name__}")
    if taken := {"arm", "seed", *settings} & set(result):
        raise ValueError(f"run returns {sorted(taken)}, which are names of settings; give the results other names")
    return _plain(dict(result), "what run returns")


def _plain(values: Row, what: str) -> Row:
    """Return the values as they will come back from a file, so that a stored run and a fresh one are the same."""
    try:
        return json.loads(json.dumps(values))
    except (TypeError, ValueError) as error:
        kinds = ", ".join(f"{name}: {type(value).__name__}" for name, value in values.items())
        raise TypeError(
            f"{what} must be plain numbers, texts and lists, got {kinds}; use .item() or .tolist() of a tensor"
        ) from error


def _names(keys: Iterable[Key]) -> str:
    names = [f"{arm} (seed {seed})" for arm, seed in keys]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _files(folder: Path, jobs: Mapping[Key, Row]) -> dict[Key, Path]:
    """Return the file of each run in a folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {key: json.dumps(job, sort_keys=True).encode() for key, job in jobs.items()}
    return {key: folder / f"{hashlib.sha256(text).hexdigest()[:24]}.json" for key, text in texts.items()}


def _stored(file: Path, job: Row) -> Row | None:
    """Return the result of a finished run, or None; what is cut off, damaged or another run's does not count."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        result = stored["result"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return result if isinstance(result, dict) and stored == {**job, "result": result} else None


def _store(file: Path, job: Row, result: Row) -> None:
    """Store a finished run in one step: the name appears when all of the file is there."""
    unfinished = file.with_suffix(f".{os.getpid()}.tmp")  # two sweeps may share a folder
    unfinished.write_text(json.dumps({**job, "result": result}, indent=1), encoding="utf-8")
    os.replace(unfinished, file)
