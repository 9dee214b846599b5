"""A folder of runs as values: experiments, their runs, and what could not be read.

    FOLDER/experiment.json, FOLDER/RUN/...          one experiment
    FOLDER/NAME/experiment.json, FOLDER/NAME/RUN/   several

A run is a folder with config.json, metrics.jsonl and summary.json (finished) or error.json
(failed). What cannot be read is listed, never fatal.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bload.errors import InputError
from experiments.record_form import sweeps_of
from experiments.report.checks import (
    UnreadableError,
    check_config,
    check_summary,
    checked_rows,
    is_figure,
    read_lines,
    read_object,
)

RUN_FILES = ("config.json", "metrics.jsonl", "summary.json", "error.json")
MEASURED = ("deadlock", "length_variance", "epoch_turns")
"""Experiments that are one json file of rows instead of runs."""
OPTIONS = {
    **{"draw": "video", "clips": "one", "place": "random"},
    **{"t_max": None, "long": "error", "last": "fill"},
}
"""Options of loaders with their defaults; others are part of what the report calls the loader."""


@dataclass(frozen=True, slots=True)
class Run:
    """One job. `state` is ``finished``, ``failed`` or ``unfinished``."""

    name: str
    state: str
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    epochs: tuple[dict[str, Any], ...] = ()
    evals: tuple[dict[str, Any], ...] = ()
    says: str = ""
    """Why it failed, or how far it came."""
    overrides: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """A key of the config, such as ``train.seed``."""
        group, _, name = key.partition(".")
        return self.config.get(group, {}).get(name, default)

    @property
    def loader(self) -> str:
        """The loader with what is not the default: ``bload draw=length``, ``bload t_max=64``."""
        loader = self.config["loader"]
        options = [f"{k}={loader[k]}" for k, v in OPTIONS.items() if loader.get(k, v) != v]
        return " ".join([loader["name"], *options])

    @property
    def frames(self) -> float:
        """Of the data set, those that the loader deletes included."""
        return self.summary["frames"] + self.summary["deleted"]

    @property
    def seed(self) -> int:
        return self.config["train"]["seed"]

    def percent(self, key: str) -> float | None:
        """A share of the summary in percent; None where the run does not have it."""
        return percent(self.summary, key)


def percent(figures: dict[str, Any], key: str) -> float | None:
    value = figures.get(key)
    return 100 * value if is_figure(value) else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A command that made runs: with what, when, and which. None is not known."""

    command: str | None = None
    machine: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None
    commit: str | None = None
    threads: int | None = None
    started: str | None = None
    ended: str | None = None
    runs: tuple[str, ...] | None = None
    """Names of those that it trained."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The runs of one folder or the rows of one json file, with the commands that made them.

    `record` is that file, of runs experiment.json.
    """

    name: str
    folder: Path
    runs: tuple[Run, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.state == "finished"]

    @property
    def is_quick(self) -> bool:
        """Whether it shows that everything runs and no more."""
        return self.name.endswith("_quick")


@dataclass(frozen=True, slots=True)
class Collection:
    folder: Path
    experiments: tuple[Experiment, ...]
    strange: tuple[tuple[str, str], ...]
    """(path, why it is not in the report)"""

    def find(self, name: str) -> Experiment | None:
        """The experiment of that name if it has results, else its quick form, else None."""
        for wanted in (name, f"{name}_quick"):
            for experiment in self.experiments:
                if experiment.name == wanted and (experiment.finished or experiment.rows):
                    return experiment
        return None


def collect(folder: Path) -> Collection:
    """Read everything under `folder`. Raises `InputError` where there is no such folder."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder of runs; train some first, with python train.py -m "
            "experiment=paper_table_quick, or name another folder"
        )
    strange: list[tuple[str, str]] = []
    experiments = []
    try:
        places = [folder, *_folders(folder)]
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}") from error
    for place in places:
        try:
            if _is_run(place):
                if place == folder:
                    raise InputError(
                        f"{folder} is a single run; name the folder that holds it, {folder.parent}"
                    )
                continue
            found = _experiments(place, strange)
        except OSError as error:
            strange.append((place.name, f"cannot be read: {error}"))
            continue
        experiments += found
        if not found and place != folder:
            strange.append((place.name, "is not a run: it has no config.json and no summary.json"))
    return Collection(folder, tuple(experiments), tuple(strange))


def _folders(folder: Path) -> list[Path]:
    paths = sorted(folder.iterdir())
    return [path for path in paths if path.is_dir() and not path.name.startswith(".")]


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in RUN_FILES)


def _experiments(folder: Path, strange: list[tuple[str, str]]) -> list[Experiment]:
    """That of the runs in a folder, and one for every file of rows there."""
    rows = [path for kind in MEASURED if (path := folder / f"{kind}.json").exists()]
    path = folder / "experiment.json"
    record: dict[str, Any] = {}
    sweeps: tuple[Sweep, ...] = ()
    if path.exists():
        try:
            record = read_object(path)
            sweeps = _sweeps(record)
        except UnreadableError as error:
            strange.append((f"{folder.name}/{path.name}", str(error)))
    runs = _runs(folder, _jobs(record), strange)
    found = []
    if runs or (path.exists() and not rows):
        name = _text(record.get("name")) or folder.name
        found.append(Experiment(name, folder, runs, record, sweeps))
    for path in rows:
        try:
            found.append(_measured(path))
        except UnreadableError as error:
            strange.append((f"{folder.name}/{path.name}", str(error)))
            found.append(Experiment(_name_of_rows(path), folder))
    return found


def _runs(
    folder: Path, jobs: dict[str, tuple[str, ...]], strange: list[tuple[str, str]]
) -> tuple[Run, ...]:
    """Those of the folders in `folder`, and the jobs that have none yet."""
    places = [path for path in _folders(folder) if _is_run(path)]
    runs = []
    for place in places:
        where = f"{folder.name}/{place.name}"
        try:
            run = _run(place, jobs.get(place.name, ()))
        except (UnreadableError, OSError) as error:
            strange.append((where, str(error)))
            continue
        evals = tuple(line for line in run.evals if _has_its_epochs(line, run))
        if len(evals) < len(run.evals):
            says = f"evaluations without the epochs before them: {len(run.evals) - len(evals)}"
            strange.append((f"{where}/metrics.jsonl", says))
        runs.append(replace(run, evals=evals))
    there = {place.name for place in places}
    runs += [
        Run(name, "unfinished", says="not begun", overrides=overrides)
        for name, overrides in jobs.items()
        if name not in there
    ]
    return tuple(runs)


def _has_its_epochs(line: dict[str, Any], run: Run) -> bool:
    epoch = line.get("epoch")
    return isinstance(epoch, int) and 0 <= epoch < len(run.epochs)


def _measured(path: Path) -> Experiment:
    content = read_object(path)
    rows = checked_rows(content, path.name)
    name = _text(content.get("name")) or _name_of_rows(path)
    return Experiment(name, path.parent, (), content, _sweeps(content), rows)


def _name_of_rows(path: Path) -> str:
    """Of a file that does not say it: the folder's, if that is its full or quick form."""
    folder = path.parent.name
    return folder if folder == f"{path.stem}_quick" else path.stem


def _sweeps(record: dict[str, Any]) -> tuple[Sweep, ...]:
    sweeps = sweeps_of(record)
    if not isinstance(sweeps, list) or not all(isinstance(sweep, dict) for sweep in sweeps):
        raise UnreadableError("its sweeps are no list of objects")
    return tuple(map(_sweep, sweeps))


def _sweep(sweep: dict[str, Any]) -> Sweep:
    machine, versions = (
        of if isinstance(of := sweep.get(key), dict) else None for key in ("machine", "versions")
    )
    threads, runs = sweep.get("threads"), sweep.get("runs")
    return Sweep(
        _text(sweep.get("command")),
        machine,
        versions,
        _text(sweep.get("git")),
        threads if isinstance(threads, int) and is_figure(threads) else None,
        _text(sweep.get("started")),
        _text(sweep.get("ended")),
        tuple(map(str, runs)) if isinstance(runs, list) else None,
    )


def _jobs(record: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    jobs = record.get("jobs")
    return {
        str(job["run"]): tuple(map(str, _list(job.get("overrides"))))
        for job in _list(jobs)
        if isinstance(job, dict) and "run" in job
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _run(folder: Path, overrides: tuple[str, ...]) -> Run:
    path = {name: folder / name for name in RUN_FILES}
    config = read_object(path["config.json"]) if path["config.json"].exists() else {}
    lines = read_lines(path["metrics.jsonl"])
    epochs, evals = (
        tuple(line for line in lines if line.get("kind") == kind) for kind in ("epoch", "eval")
    )
    if path["summary.json"].exists():
        summary = read_object(path["summary.json"])
        check_summary(summary)
        check_config(config)
        return Run(folder.name, "finished", config, summary, epochs, evals, "", overrides)
    if path["error.json"].exists():
        says = str(read_object(path["error.json"]).get("error", "error.json does not say why"))
        return Run(folder.name, "failed", config, {}, epochs, evals, says, overrides)
    job = config.get("train")
    wanted = job.get("epochs", "?") if isinstance(job, dict) else "?"
    says = f"{len(epochs)} of {wanted} epochs"
    return Run(folder.name, "unfinished", config, {}, epochs, evals, says, overrides)
