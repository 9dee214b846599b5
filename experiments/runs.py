"""One table of runs and one of epochs, from the folders that training writes or from CSV files.

FOLDER/experiment.json                 name, jobs, and the commands that ran them ("sweeps")
FOLDER/RUN/config.json, metrics.jsonl, summary.json
FOLDER/runs.csv, FOLDER/curves.csv     the same runs and epochs as tables
FOLDER/NAME/...                        several experiments
"""

import json
import os
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from bload.errors import InputError
from datasets.write_whole import write_whole
from training.folder import metric_lines, read_object

Row = dict[str, Any]
RUN_FILES = ("config.json", "metrics.jsonl", "summary.json")
FIGURES = (
    *("t_max", "padding", "deleted", "processed", "frames", "epochs", "epoch_seconds"),
    *("train_seconds", "with/recall@20", "train.seed", "train.slots", "loader.t_max"),
    *("dataset.train_videos", "dataset.image_size", "ranks", "steps", "blocks"),
    *("frames_per_second", "peak_memory_mib", "no/recall@20", "with/recall@20_memory"),
    *("remembering/recall@20_memory", "memoryless/recall@20_memory"),
)
TEXTS = ("experiment", "run", "state", "says", "overrides", "loader.name", "device")


def read_runs(folder: Path | str) -> pd.DataFrame:
    """One row per run of an experiment's folder, or of a folder of several experiments.

    Columns: `experiment`; `run`, the name of its folder; `state` (finished, failed, unfinished or
    damaged); `says`, why it failed, how far it came or what is damaged; `overrides` of its job in
    the sweep; the keys of the config (``train.seed``; lists as JSON); the summary (``padding``,
    ``with/recall@20``). The columns of `FIGURES` are numbers, NaN where missing.

    Raises `InputError` if there is no such folder, if it is that of a single run, or if a record
    or a CSV file in it cannot be read.
    """
    return _table(row for place in experiment_folders(folder) for row in _runs(place))


def read_epochs(folder: Path | str) -> pd.DataFrame:
    """One row per epoch of each run in a folder, with the evaluation after it if there was one.

    Columns: `experiment`, `run`, `epoch` (from 0), `seconds`, `processed` slots, `frames`, the
    other figures of the epoch, and those of the evaluation by their names in summaries. An
    evaluation inside an epoch that has ended is a row of its own, with an `epoch` between: -0.5 in
    the middle of the first. Raises `InputError` as `read_runs` does.
    """
    rows = [row for place in experiment_folders(folder) for row in _epochs(place)]
    return _frame(rows, ("experiment", "run"), ("epoch", "seconds", "processed", "frames"))


def write_tables(folder: Path | str, to: Path | str) -> list[Path]:
    """Write the finished and failed runs of an experiment to runs.csv, their epochs to curves.csv.

    The record, experiment.json, goes with them. The other functions read `to` as they do `folder`.
    Returns the files. Raises `InputError` as `read_runs` does, and if there is no such run.
    """
    runs, epochs, to = read_runs(folder), read_epochs(folder), Path(to)
    runs = runs[runs.state.isin(("finished", "failed"))].drop(columns="overrides")
    if runs.experiment.nunique() != 1:
        raise InputError(
            f"{folder} holds {runs.experiment.nunique()} experiments; name one of them"
        )
    files = {to / "runs.csv": runs, to / "curves.csv": epochs[epochs.run.isin(runs.run)]}
    to.mkdir(parents=True, exist_ok=True)
    for path, table in files.items():
        write_whole(path, table.dropna(axis="columns", how="all").to_csv(index=False))
    if (record := Path(folder) / "experiment.json").exists():
        write_whole(to / record.name, record.read_text(encoding="utf-8"))
    return sorted(to.glob("*.*"))


def experiment_folders(folder: Path | str) -> list[Path]:
    """The folder and those in it that are not runs. Raises `InputError` as `read_runs` does."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder of runs; train some first, with python train.py -m "
            "experiment=paper_table_quick, or name another folder"
        )
    if _is_run(folder):
        raise InputError(f"{folder} is a single run; name its parent folder, {folder.parent}")
    return [folder, *(path for path in _folders(folder) if not _is_run(path))]


def read_record(path: Path) -> Row:
    """The record of an experiment: `name`, and lists under `jobs`, `sweeps`, `rows`.

    A file that is not there has empty lists; raises `InputError` if it is damaged.
    """
    empty = {"name": path.parent.name, "jobs": [], "sweeps": [], "rows": []}
    record: Row = empty | (read_object(path) if path.exists() else {})
    lists = all(
        isinstance(record[key], list) and all(isinstance(one, dict) for one in record[key])
        for key in ("jobs", "sweeps", "rows")
    )
    if not (isinstance(record["name"], str) and lists and all(map(_is_job, record["jobs"]))):
        raise InputError(f"{path} is no record of an experiment; move it elsewhere")
    return record


def _is_job(job: Row) -> bool:
    run, overrides = job.get("run"), job.get("overrides")
    of_texts = isinstance(overrides, list) and all(isinstance(one, str) for one in overrides)
    return isinstance(run, str) and of_texts


def _table(rows: Iterable[Row]) -> pd.DataFrame:
    runs = _frame(list(rows), TEXTS, FIGURES)
    return runs.drop_duplicates(["experiment", "run"], ignore_index=True)


def _frame(rows: list[Row], texts: Iterable[str], figures: Iterable[str]) -> pd.DataFrame:
    """The rows with at least these columns, and with numbers in those of `figures`."""
    frame = pd.DataFrame(rows)
    frame = frame.reindex(columns=list(dict.fromkeys([*texts, *figures, *frame])))
    frame = frame.astype(dict.fromkeys(texts, object))
    numbers = {key: pd.to_numeric(frame[key], errors="coerce").astype(float) for key in figures}
    return frame.assign(**numbers).copy()  # in one piece


def _runs(place: Path) -> Iterator[Row]:
    """The runs in a folder, and its jobs that have none yet."""
    record = read_record(place / "experiment.json")
    jobs = {job["run"]: job["overrides"] for job in record["jobs"]}
    found = [_run(path) for path in _folders(place) if _is_run(path)]
    found += ({"state": "finished", **row} for row in _csv_rows(place / "runs.csv"))
    begun = {row["run"] for row in found}
    found += (
        {"run": run, "state": "unfinished", "says": "not begun"} for run in jobs if run not in begun
    )
    for row in found:
        overrides = " ".join(jobs[row["run"]]) if row["run"] in jobs else None
        yield {**row, "experiment": record["name"], "overrides": overrides}


def _run(place: Path) -> Row:
    config, metrics, summary = (place / name for name in RUN_FILES)
    row: Row = {"run": place.name}
    try:
        row |= flat(read_object(config)) if config.exists() else {}
        if summary.exists():
            return row | flat(read_object(summary)) | {"run": place.name, "state": "finished"}
        epochs = sum(line["kind"] == "epoch" for _, line in metric_lines(metrics))
    except (InputError, OSError) as error:
        return {"run": place.name, "state": "damaged", "says": str(error)}
    row["run"] = place.name
    of = "" if row.get("train.slots") else f" of {row.get('train.epochs')}"
    return row | {"state": "unfinished", "says": f"{epochs}{of} epochs"}


def _epochs(place: Path) -> Iterator[Row]:
    name = read_record(place / "experiment.json")["name"]
    found = _csv_rows(place / "curves.csv")
    for run in filter(_is_run, _folders(place)):
        epochs: dict[float, Row] = {}  # of one that was logged twice, the last line counts
        evals: dict[float, Row] = {}
        for _, values in metric_lines(run / "metrics.jsonl"):
            line = flat(values)
            kind, epoch, _ = (line.pop(key, None) for key in ("kind", "epoch", "step"))
            epoch -= 1  # tables count from 0
            if kind == "epoch":
                epochs[epoch] = {"run": run.name, "epoch": epoch, **line}
            elif kind == "eval":
                at = line.pop("after") - 1
                evals[at] = {k if "/" in k else f"eval_{k}": v for k, v in line.items()}
        for at, figures in evals.items():
            if ceil(at) in epochs:
                epochs[at] = epochs.get(at, {"run": run.name, "epoch": at}) | figures
        found += [epochs[at] for at in sorted(epochs)]
    yield from ({**row, "experiment": name} for row in found)


def _csv_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        # "none" and "null" are values, so only an empty cell is nothing
        rows = pd.read_csv(path, dtype={"run": str}, keep_default_na=False, na_values=[""])
        return rows.dropna(subset="run").to_dict("records")
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} is no table of runs: {error}; move it elsewhere") from error


def _folders(folder: Path) -> list[Path]:
    paths = sorted(folder.iterdir())
    return [path for path in paths if path.is_dir() and not path.name.startswith(".")]


def _is_run(folder: Path) -> bool:
    # One that may not be entered is none; `Path.exists` would raise.
    return any(os.path.exists(folder / name) for name in RUN_FILES)


def _encodable(text: str) -> str:
    """A text that a file can hold: JSON can spell half a character."""
    return text.encode(errors="replace").decode()


def flat(content: Row) -> Row:
    """The values of nested objects under ``group.key``, lists and numbers out of range as JSON."""
    values: Row = {}
    for key, value in content.items():
        key = _encodable(key)
        if isinstance(value, str):
            values[key] = _encodable(value)
        elif isinstance(value, dict):
            values |= {f"{key}.{name}": one for name, one in flat(value).items()}
        else:
            large = isinstance(value, int) and abs(value) >= 2**63
            values[key] = json.dumps(value) if large or isinstance(value, list) else value
    return values
