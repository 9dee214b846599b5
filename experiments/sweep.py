"""Several runs one after another: ``python train.py -m loader=naive,bload train.seed=0,1``.

Hydra's grammar and ``hydra.sweeper.params`` say which jobs there are. Each runs in processes of its
own, so that one that fails, or is killed, costs nothing but itself, and all are checked before the
first one starts.
"""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra import initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode

from bload.errors import InputError
from experiments.cli import CONFIGS, check_overrides
from experiments.config import TrainJob, typed
from experiments.launch import Run, launch, threads
from experiments.printing import comparison
from experiments.provenance import now, surroundings, write_record
from experiments.run_folder import RunFolder, run_name


@dataclass(frozen=True)
class Job:
    """One run of a sweep. `varied` holds the overrides in which jobs may differ."""

    varied: tuple[str, ...]
    config: TrainJob
    folder: RunFolder

    def __str__(self) -> str:
        return " ".join(self.varied) or self.folder.path.name

    @property
    def finished(self) -> bool:
        """Whether it ran to its end before. Of a folder with a given name the run itself decides,
        for something else may have been trained there."""
        run = self.config.run
        named_by_config = run.name is None and run.resume == "auto"
        return named_by_config and self.folder.summary.exists()

    @property
    def saved(self) -> list[int | None]:
        """When its checkpoint and its summary were written, in ns; None where there is none."""
        files = (self.folder.last, self.folder.summary)
        return [path.stat().st_mtime_ns if path.exists() else None for path in files]


def sweep(run: Run, arguments: Sequence[str]) -> None:
    """Run every job of a command line; exits with status 1 if one failed.

    Args:
        run: trains one config, as `launch` calls it.
        arguments: the overrides, some with several values.

    Raises:
        InputError: a job's config is wrong. Nothing has been started then.
    """
    jobs = jobs_of(arguments)
    name = jobs[0].config.experiment.name
    root = Path(jobs[0].config.run.root)
    this_sweep = {
        "command": shlex.join(["python", "train.py", "-m", *arguments]),
        **surroundings(),
        "threads": threads(jobs[0].config.launch.nproc),
        "started": now(),
        "ended": None,
        "runs": [],
    }
    record = {
        "name": name,
        "jobs": [{"run": job.folder.path.name, "overrides": job.varied} for job in jobs],
        "sweeps": [this_sweep],
    }

    def write() -> None:
        if name and record["jobs"]:
            write_record(root / "experiment.json", record)

    print(_header(name, jobs, root), flush=True)
    write()
    try:
        failures = _run_all(run, jobs, this_sweep["runs"], write)
    finally:
        this_sweep["ended"] = now()
        write()
    if failures:
        print(f"\ntrain.py: error: {len(failures)} of {len(jobs)} jobs failed", file=sys.stderr)
        for job, error in failures.items():
            print(f"  {job}: {error}", file=sys.stderr)
        sys.stderr.flush()
    _compare(jobs, failures)
    if name:
        _report(root)
    if failures:
        sys.exit(1)


def _compare(jobs: Sequence[Job], failures: dict[str, str]) -> None:
    """Print a line a job that has figures or failed, if any has figures."""
    summaries: dict[str, dict | None] = {}
    for job in jobs:
        if str(job) in failures:
            summaries[str(job)] = None
        elif job.folder.summary.exists():
            summaries[str(job)] = json.loads(job.folder.summary.read_text())
    if any(summaries.values()):
        print(f"\n{comparison(summaries)}", flush=True)


def _report(folder: Path) -> None:
    """Write the report; whatever keeps it from that is one sentence, for the runs are there."""
    command = shlex.join(["python", "-m", "experiments.report", str(folder)])
    try:
        from experiments.report import write_report

        page = write_report(folder).html
    except ModuleNotFoundError as error:
        print(f"\nno report: {error}; install requirements.txt, then {command}", file=sys.stderr)
    except InputError as error:
        print(f"\nno report: {error}; then {command}", file=sys.stderr)
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"\nno report: {what}; {command} says where", file=sys.stderr)
    else:
        print(f"\nreport: {page}")


def _run_all(
    run: Run, jobs: Sequence[Job], trained: list[str], write: Callable[[], None]
) -> dict[str, str]:
    """The sentences of the jobs that failed.

    Args:
        trained: gets the name of every run that trains, and keeps it if anything was saved.
        write: called when `trained` has got one.
    """
    failures = {}
    for number, job in enumerate(jobs, 1):
        place = f"{number} of {len(jobs)}: {job}"
        if job.finished:
            print(f"{place} finished before, {job.folder.path}", flush=True)
            continue
        print(f"\n{place} -> {job.folder.path}", flush=True)
        saved = job.saved
        trained.append(job.folder.path.name)
        write()
        try:
            launch(run, job.config, job.config.launch.nproc)
        except InputError as error:
            failures[str(job)] = str(error)
            print(f"{place} failed: {error}", file=sys.stderr, flush=True)
            job.folder.note_error(str(error), now())
        except KeyboardInterrupt:
            print(
                f"\nstopped in job {number} of {len(jobs)}; the same command goes on there",
                file=sys.stderr,
            )
            sys.exit(130)
        finally:
            if job.saved == saved:
                trained.remove(job.folder.path.name)
    return failures


def jobs_of(arguments: Sequence[str]) -> list[Job]:
    """The jobs of a command line, every one with a config that can be trained."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        try:
            hydra = loader.load_configuration("train", list(arguments), RunMode.MULTIRUN).hydra
            swept = [f"{key}={value}" for key, value in (hydra.sweeper.params or {}).items()]
            parser = OverridesParser.create(config_loader=loader)
            overrides = parser.parse_overrides([*swept, *hydra.overrides.task])
            (lines,) = BasicSweeper.split_arguments(overrides, None)
        except HydraException as error:
            raise InputError(" ".join(str(error).split())) from None
    varied = {parser.parse_override(line).get_key_element() for line in swept}
    varied |= {override.get_key_element() for override in overrides if override.is_sweep_override()}
    if "experiment" in varied:
        raise InputError("experiment has several values; run one experiment after another")
    jobs = [_job(line, hydra.overrides.hydra, varied) for line in lines]
    _refuse_shared_folders(jobs)
    return jobs


def _job(line: Sequence[str], hydra: Sequence[str], varied: set[str]) -> Job:
    config = typed(check_overrides("train", [*line, *hydra]))
    name = config.run.name or run_name(config, config.launch.nproc)
    kept = tuple(override for override in line if override.partition("=")[0] in varied)
    return Job(kept, config, RunFolder(config.run.root, name))


def _refuse_shared_folders(jobs: Sequence[Job]) -> None:
    folders = Counter(job.folder.path for job in jobs)
    for path, count in folders.items():
        if count > 1:
            first, second, *_ = (str(job) for job in jobs if job.folder.path == path)
            raise InputError(
                f"jobs {first!r} and {second!r} are the same run, {path}; vary a key that changes "
                "what is trained, and leave run.name to the config"
            )


def _header(name: str | None, jobs: Sequence[Job], root: Path) -> str:
    values: dict[str, list[str]] = {}
    for job in jobs:
        for override in job.varied:
            key, _, value = override.partition("=")
            values.setdefault(key, [])
            if value not in values[key]:
                values[key].append(value)
    what = "; ".join(f"{key} {', '.join(of)}" for key, of in values.items())
    count = "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
    return f"{name or 'sweep'}: {count}{f' ({what})' if what else ''} -> {root}"
