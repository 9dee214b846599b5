"""Several runs one after another: ``python train.py -m loader=naive,bload train.seed=0,1``.

All jobs are checked before the first one starts. Each runs in processes of its own, so that one
that fails, or is killed, costs nothing but itself.
"""

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bload.errors import InputError
from datasets.build import train_lengths
from datasets.config import DatasetConfig
from models.config import missing_weights
from training.cli import check_overrides, split
from training.config import TrainJob
from training.failures import IN_USE
from training.folder import RunFolder, run_name
from training.launch import launch, threads
from training.loader_config import check_fits
from training.provenance import now, surroundings, write_record
from training.runs import read_runs
from training.stopping import Stopped


@dataclass(frozen=True)
class Job:
    """One run of a sweep. `varied` holds the overrides in which jobs may differ."""

    overrides: tuple[str, ...]
    varied: tuple[str, ...]
    config: TrainJob
    folder: RunFolder

    def __str__(self) -> str:
        return " ".join(self.varied) or self.folder.path.name

    @property
    def finished(self) -> bool:
        """True if this run ended before. With a run.name, it sees to that itself."""
        run = self.config.run
        return run.name is None and run.resume == "auto" and self.folder.summary.exists()


def jobs_of(arguments: Sequence[str]) -> list[Job]:
    """The jobs of a command line, every one with a config that can be trained."""
    lines, varied = split("train", arguments)
    jobs: dict[Path, Job] = {}
    known: dict[str, np.ndarray] = {}

    def lengths_of(data: DatasetConfig) -> np.ndarray:
        if repr(data) not in known:
            known[repr(data)] = train_lengths(data)
        return known[repr(data)]

    for line in lines:
        config = check_overrides("train", line)
        check_fits(config.loader, partial(lengths_of, config.dataset))
        if lacking := missing_weights(config.model.weights):
            raise InputError(lacking)
        name = config.run.name or run_name(config, config.launch.nproc)
        kept = tuple(override for override in line if override.partition("=")[0] in varied)
        job = Job(line, kept, config, RunFolder(config.run.root, name))
        other = jobs.setdefault(job.folder.path, job)
        if other is not job:
            raise InputError(
                f"jobs {str(other)!r} and {str(job)!r} are the same run, {job.folder.path}; vary a "
                "key that changes what is trained, and leave run.name to the config"
            )
    return list(jobs.values())


def sweep(arguments: Sequence[str]) -> None:
    """Run every job of a command line; exit with status 1 if one failed.

    Raises:
        InputError: a job's config is wrong. Nothing has been started then.
    """
    jobs = jobs_of(arguments)
    first = jobs[0].config
    name, root = first.experiment.name, Path(first.run.root)
    this_sweep = {
        "command": shlex.join(["python", Path(sys.argv[0]).name, "-m", *arguments]),
        **surroundings(),
        "threads": threads(first.launch.nproc),
        "started": now(),
        "ended": None,
        "runs": [],
    }
    runs = [{"run": job.folder.path.name, "overrides": job.varied} for job in jobs]

    def record(**changes: Any) -> None:
        this_sweep.update(changes)
        if name:
            whole = {"name": name, "jobs": runs, "sweeps": [this_sweep]}
            write_record(root / "experiment.json", whole)

    print(f"{name or 'sweep'}: {len(jobs)} jobs -> {root}", flush=True)
    record()
    try:
        failures = _run_all(jobs, record)
    finally:
        record(ended=now())
    if failures:
        print(f"\n{len(failures)} of {len(jobs)} jobs failed", file=sys.stderr)
        for job, error in failures.items():
            print(f"  {job}: {error}", file=sys.stderr, flush=True)
    _compare(jobs, failures)
    if failures:
        sys.exit(1)


def _run_all(jobs: Sequence[Job], record: Callable[..., None]) -> dict[str, str]:
    """Run the jobs that have not finished before; return the sentences of those that failed.

    Args:
        record: called with the runs that saved something, and the one under way.
    """
    failures: dict[str, str] = {}
    trained: list[str] = []
    for number, job in enumerate(jobs, 1):
        place, folder = f"{number} of {len(jobs)}: {job}", job.folder
        if job.finished:
            print(f"{place} finished before, {folder.path}", flush=True)
            continue
        print(f"\n{place} -> {folder.path}", flush=True)
        saved = folder.saved_at()
        record(runs=[*trained, folder.path.name])
        try:
            launch(job.config.launch.nproc, job.overrides)
        except InputError as error:
            failures[str(job)] = str(error)
            print(f"{place} failed: {error}", file=sys.stderr, flush=True)
            if IN_USE not in str(error):  # by another run, of which it is no failure
                folder.note_error(str(error), now())
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
            where = f"job {number} of {len(jobs)}"
            print(f"\nstopped in {where}; the same command goes on there", file=sys.stderr)
            sys.exit(stopped.status)
        finally:
            if folder.saved_at() != saved:
                trained.append(folder.path.name)
            record(runs=trained)
    return failures


def _compare(jobs: Sequence[Job], failures: dict[str, str]) -> None:
    """Print a line per job, if any has figures."""
    import pandas as pd

    from training.printing import comparison

    roots = {job.folder.path.parent for job in jobs}
    tables = {root: read_runs(root).drop_duplicates("run").set_index("run") for root in roots}
    rows = [tables[job.folder.path.parent].loc[job.folder.path.name] for job in jobs]
    runs = pd.DataFrame(rows).set_index(pd.Index(map(str, jobs)))
    runs.loc[list(failures), "state"] = "failed"
    if (runs.state == "finished").any():
        print(f"\n{comparison(runs)}", flush=True)
