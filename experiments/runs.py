"""One table of runs and one of epochs, from the folders that training writes or from CSV files.

    FOLDER/experiment.json                 name, jobs, and the commands that ran them ("sweeps")
    FOLDER/RUN/config.json, metrics.jsonl, summary.json or error.json
    FOLDER/runs.csv, FOLDER/curves.csv     the same runs and epochs as tables
    FOLDER/NAME/...                        several experiments

A damaged file is a row that says so, never an error.
"""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from bload.errors import InputError
from datasets.write_whole import write_whole

Row = dict[str, Any]
RUN_FILES = ("config.json", "metrics.jsonl", "summary.json", "error.json")
NEEDED = {
    **{"t_max": 1, "padding": 0, "deleted": 0, "processed": 1, "frames": 1, "train.seed": 0},
    **{"epochs": 1, "epoch_seconds": 1e-9, "train_seconds": 0, "with/recall@20": 0},
}
"""Figures that a finished run must have, and the least that they can be."""
OPTIONAL = (
    *("train.slots", "loader.t_max", "dataset.train_videos", "dataset.image_size", "ranks"),
    *("steps", "blocks", "frames_per_second", "peak_memory_mib", "no/recall@20"),
    *("with/recall@20_memory", "remembering/recall@20_memory", "memoryless/recall@20_memory"),
)
"""Figures from 0 that a run may lack."""
TEXTS = ("experiment", "run", "state", "says", "overrides")
UNREADABLE = (ValueError, OSError, RecursionError)


def read_runs(folder: Path | str) -> pd.DataFrame:
    """One row per run of an experiment's folder, or of a folder of several experiments.

    Columns: `experiment`; `run`, the name of its folder; `state` (finished, failed, unfinished or
    damaged); `says`, why it failed, how far it came or what is damaged; `overrides` of its job in
    the sweep; the keys of the config (``train.seed``; lists as JSON); the summary (``padding``,
    ``with/recall@20``). The columns of `NEEDED` and `OPTIONAL` are numbers, NaN where missing.

    Raises `InputError` if there is no such folder, or if it is that of a single run.
    """
    return _table(row for place in experiment_folders(folder) for row in _runs(place))


def read_epochs(folder: Path | str) -> pd.DataFrame:
    """One row per epoch of each run in a folder, with the evaluation after it if there was one.

    Columns: `experiment`, `run`, `epoch` (from 0), `seconds`, `processed`, the other figures of
    the epoch, and those of the evaluation by their names in summaries. Rows without an epoch say
    (`says`) what could not be read. Raises `InputError` as `read_runs` does.
    """
    rows = [row for place in experiment_folders(folder) for row in _epochs(place)]
    return _frame(rows, ("experiment", "run", "says"), ("epoch", "seconds", "processed"))


def write_results(root: Path | str) -> None:
    """Write ROOT/results.csv anew: one row per finished run of the folder.

    Any number of processes may call this at once.
    """
    path = Path(root) / "results.csv"
    with FileLock(path.with_suffix(".lock")):
        runs = _table(_runs(path.parent))
        runs = runs[runs.state == "finished"].dropna(axis="columns", how="all")
        write_whole(path, runs.to_csv(index=False))


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
    """The record of an experiment: `name`, and lists of objects under `jobs`, `sweeps`, `rows`.

    A file that is not there has empty lists; raises `ValueError` or `OSError` if it is damaged.
    """
    record = _object(path) if path.exists() else {}
    for key in ("jobs", "sweeps", "rows"):
        of = record.setdefault(key, [])
        if not isinstance(of, list) or not all(isinstance(one, dict) for one in of):
            raise ValueError(f"{path.name} has {key} that are no list of objects")
    if not isinstance(record.get("name"), str):
        record["name"] = path.parent.name
    return record


def figure(value: Any) -> float:
    """A number that can be calculated with, or NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if abs(number) <= 1e30 else math.nan


def _table(rows: Iterable[Row]) -> pd.DataFrame:
    found = []
    for row in rows:
        wrong = _wrong(row) if row["state"] == "finished" else ""
        says = {"state": "damaged", "says": f"its config or summary has {wrong}"} if wrong else {}
        found.append({**row, **says})
    runs = _frame(found, (*TEXTS, "loader.name"), (*NEEDED, *OPTIONAL))
    return runs.drop_duplicates(["experiment", "run"], ignore_index=True)


def _wrong(row: Row) -> str:
    """What a finished run lacks, or has too small, or an empty text."""
    given = [key for key in OPTIONAL if row.get(key) is not None and row[key] == row[key]]
    least = {**dict.fromkeys(given, 0), **NEEDED}
    wrong = [key for key, bound in least.items() if not figure(row.get(key)) >= bound]
    wrong += [] if isinstance(row.get("loader.name"), str) else ["loader.name"]
    return ", ".join(f"{key} {str(row.get(key))[:40]}" for key in wrong)


def _frame(rows: list[Row], texts: Iterable[str], figures: Iterable[str]) -> pd.DataFrame:
    """The rows with at least these columns, and with numbers in those of `figures`."""
    columns = dict.fromkeys([*texts, *figures, *(key for row in rows for key in row)])
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.assign(**{key: frame[key].map(figure).astype(float) for key in figures})


def _runs(place: Path) -> Iterator[Row]:
    """The runs in a folder, and its jobs that have none yet."""
    record, found = _experiment(place)
    found += [_run(path) for path in _folders(place) if _is_run(path)]
    try:
        found += _csv_rows(place / "runs.csv")
    except UNREADABLE as error:
        found.append(_damaged("runs.csv", error))
    jobs = {str(job.get("run")): job.get("overrides") for job in record["jobs"]}
    there = {row["run"] for row in found}
    for run in jobs:
        if run not in there:
            found.append({"run": run, "state": "unfinished", "says": "not begun"})
    for row in found:
        overrides = jobs.get(row["run"])
        text = " ".join(map(str, overrides)) if isinstance(overrides, list) else None
        yield {**row, "experiment": record["name"], "overrides": text}


def _experiment(place: Path) -> tuple[Row, list[Row]]:
    """The record of a folder, or an empty one and the row that says what is damaged."""
    try:
        return read_record(place / "experiment.json"), []
    except UNREADABLE as error:
        return {"name": place.name, "jobs": []}, [_damaged("experiment.json", error)]


def _run(place: Path) -> Row:
    config, metrics, summary, failure = (place / name for name in RUN_FILES)
    try:
        row = dict(_flat(_object(config))) if config.exists() else {}
        if summary.exists():
            row |= {**dict(_flat(_object(summary))), "state": "finished", "says": None}
        elif failure.exists():
            says = str(_object(failure).get("error", "error.json does not say why"))
            row |= {"state": "failed", "says": says}
        else:
            epochs = sum(line.get("kind") == "epoch" for line in _lines(metrics))
            says = f"{epochs} of {row.get('train.epochs', '?')} epochs"
            row |= {"state": "unfinished", "says": says}
        return {**row, "run": place.name}
    except UNREADABLE as error:
        return _damaged(place.name, error)


def _damaged(run: str, error: Exception) -> Row:
    says = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return {"run": run, "state": "damaged", "says": says}


def _epochs(place: Path) -> Iterator[Row]:
    try:
        found = _csv_rows(place / "curves.csv")
    except UNREADABLE as error:
        found = [_damaged("curves.csv", error)]
    for path in filter(_is_run, _folders(place)):
        try:
            found += [{**row, "run": path.name} for row in _epochs_of(path / "metrics.jsonl")]
        except UNREADABLE as error:
            found.append(_damaged(path.name, error))
    name = _experiment(place)[0]["name"]
    yield from ({**row, "experiment": name} for row in found)


def _epochs_of(path: Path) -> Iterator[Row]:
    """The epochs of a run without gaps; of one that was logged twice the last line counts."""
    epochs: dict[float, Row] = {}
    evals: dict[float, Row] = {}
    for line in _lines(path):
        kind, epoch, _ = (line.pop(key, None) for key in ("kind", "epoch", "step"))
        if kind == "epoch":
            epochs[figure(epoch)] = line
        elif kind == "eval":
            evals[figure(epoch)] = {k if "/" in k else f"eval_{k}": v for k, v in line.items()}
    number = 0
    while all(figure(epochs.get(number, {}).get(key)) >= 0 for key in ("seconds", "processed")):
        yield {"epoch": number, **epochs[number], **evals.pop(number, {})}
        number += 1
    if evals:
        yield {"says": f"evaluations without the epochs before them: {len(evals)}"}


def _csv_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    options: Any = {"keep_default_na": False, "na_values": [""]}
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(TEXTS, str), **options).to_dict("records")
        return [{"state": "finished", **row, "run": row["run"]} for row in rows]
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _folders(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}; make it readable") from error
    return [path for path in paths if path.is_dir() and not path.name.startswith(".")]


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in RUN_FILES)


def _object(path: Path) -> Row:
    """A JSON file that holds an object."""
    try:
        content = _encodable(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return content


def _encodable(value: Any) -> Any:
    """The same without halves of characters, which names of files may bring into messages."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _lines(path: Path) -> Iterator[Row]:
    """The objects of a file of JSON lines, without half a line where a process was killed."""
    for text in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def _flat(content: Row, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, json.dumps(value) if isinstance(value, list) else value
