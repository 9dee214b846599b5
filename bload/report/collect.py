"""A folder of runs as values: experiments, their runs, and what could not be read.

    FOLDER/experiment.json, FOLDER/RUN/...          one experiment
    FOLDER/NAME/experiment.json, FOLDER/NAME/RUN/   several

A run is a folder with config.json, metrics.jsonl and summary.json (finished) or error.json
(failed). What cannot be read is listed, never fatal.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bload.errors import InputError

RUN_FILES = ("config.json", "metrics.jsonl", "summary.json", "error.json")
MEASURED = ("deadlock", "length_variance", "epoch_turns")
"""Experiments that are one json file of rows instead of runs."""
NEEDED = (
    *("t_max", "padding", "deleted", "processed", "frames"),
    *("epochs", "epoch_seconds", "train_seconds", "with/recall@20"),
)
"""Figures that the summary of a run must hold."""
POSITIVE = ("t_max", "processed", "frames", "epoch_seconds")
GROUPS = ("loader", "dataset", "model", "train")
"""Groups that the config of a run must have."""
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


def is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The runs of one folder. `record` is its experiment.json, `rows` what was measured there."""

    name: str
    folder: Path
    runs: tuple[Run, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.state == "finished"]


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


class _UnreadableError(Exception):
    """A file of a run that does not hold what it should."""


def collect(folder: Path) -> Collection:
    """Read everything under `folder`. Raises `InputError` where there is no such folder."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder of runs; train some first, with python train.py -m "
            "experiment=paper_table_quick, or name another folder"
        )
    strange: list[tuple[str, str]] = []
    experiments = []
    for place in (folder, *_folders(folder)):
        if _is_run(place):
            if place == folder:
                raise InputError(
                    f"{folder} is a single run; name the folder that holds it, {folder.parent}"
                )
            continue
        experiment = _experiment(place, strange)
        if experiment:
            experiments.append(experiment)
        elif place != folder:
            strange.append((place.name, "is not a run: it has no config.json and no summary.json"))
    return Collection(folder, tuple(experiments), tuple(strange))


def _folders(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield path


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in RUN_FILES)


def _experiment(folder: Path, strange: list[tuple[str, str]]) -> Experiment | None:
    record, rows = {}, ()
    files = [folder / "experiment.json", *(folder / f"{kind}.json" for kind in MEASURED)]
    present = [path for path in files if path.exists()]
    places = [path for path in _folders(folder) if _is_run(path)]
    if not present and not places:
        return None
    for path in present:
        try:
            content = _read_json(path)
            if path.stem == "experiment":
                record = content
            else:
                rows = _rows(content)
                record = {**content, **record}
        except _UnreadableError as error:
            strange.append((f"{folder.name}/{path.name}", str(error)))
    jobs = _jobs(record)
    runs = []
    for place in places:
        try:
            runs.append(_run(place, jobs.get(place.name, ())))
        except _UnreadableError as error:
            strange.append((f"{folder.name}/{place.name}", str(error)))
    there = {place.name for place in places}
    runs += [
        Run(name, "unfinished", says="not begun", overrides=overrides)
        for name, overrides in jobs.items()
        if name not in there
    ]
    name = record.get("name")
    return Experiment(
        name if isinstance(name, str) else folder.name, folder, tuple(runs), record, rows
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


def _rows(content: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    rows = content.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _UnreadableError("has no list of rows")
    return tuple(rows)


def _run(folder: Path, overrides: tuple[str, ...]) -> Run:
    path = {name: folder / name for name in RUN_FILES}
    config = _read_json(path["config.json"]) if path["config.json"].exists() else {}
    lines = _lines(path["metrics.jsonl"])
    epochs, evals = (
        tuple(line for line in lines if line.get("kind") == kind) for kind in ("epoch", "eval")
    )
    if path["summary.json"].exists():
        summary = _read_json(path["summary.json"])
        lacking = [key for key in NEEDED if not is_figure(summary.get(key))]
        if lacking:
            raise _UnreadableError(f"summary.json lacks {', '.join(lacking)}")
        unfit = [key for key in POSITIVE if summary[key] <= 0]
        if unfit:
            raise _UnreadableError(f"summary.json has {unfit[0]} {summary[unfit[0]]}")
        without = [group for group in GROUPS if not isinstance(config.get(group), dict)]
        if without:
            raise _UnreadableError(f"config.json lacks {', '.join(without)}")
        for group, key, kind in (("loader", "name", str), ("train", "seed", int)):
            if not isinstance(config[group].get(key), kind):
                raise _UnreadableError(f"config.json lacks {group}.{key}")
        return Run(folder.name, "finished", config, summary, epochs, evals, "", overrides)
    if path["error.json"].exists():
        says = str(_read_json(path["error.json"]).get("error", "error.json does not say why"))
        return Run(folder.name, "failed", config, {}, epochs, evals, says, overrides)
    job = config.get("train")
    wanted = job.get("epochs", "?") if isinstance(job, dict) else "?"
    says = f"{len(epochs)} of {wanted} epochs"
    return Run(folder.name, "unfinished", config, {}, epochs, evals, says, overrides)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise _UnreadableError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise _UnreadableError(f"{path.name} holds no json object")
    return content


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; half a line, where a process was killed, is left out."""
    lines = []
    for text in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines
