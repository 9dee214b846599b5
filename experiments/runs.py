"""Tables of runs and of their curves, from run folders or from committed CSV files.

    python -m experiments.runs runs/horizon results/horizon

writes ``runs.csv`` and ``curves.csv`` of the finished runs in a folder, to be committed.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from bload.errors import InputError
from experiments.study import refusal
from training.folder import metric_lines, read_object


def read_runs(folder: Path | str, experiment: str = "") -> pd.DataFrame:
    """Read one row per finished run: its config (``train.seed``), its summary (``with/recall@20``).

    Also `recall` and `remembered`, Recall@20 with constraint of all relations and of those whose
    evidence is in an earlier frame, in percent; the `split` that they were read on, which earlier
    runs do not name; and `slots` and `all_steps` of the whole training.

    Args:
        experiment: keep only runs of experiments whose name begins with this.

    Raises:
        InputError: there is no finished run.
    """
    folder = Path(folder)
    if (folder / "summary.json").exists():
        raise InputError(f"{folder} is a run itself; give a folder whose folders are runs")
    if (folder / "runs.csv").exists():
        # "none" and "null" are values; only an empty cell is nothing.
        runs = pd.read_csv(folder / "runs.csv", keep_default_na=False, na_values=[""])
    else:
        runs = pd.DataFrame([_run(path.parent) for path in sorted(folder.glob("*/summary.json"))])
    if runs.empty:
        raise InputError(f"{folder} has no finished run and no runs.csv; train some runs first")
    if experiment:
        runs = runs[runs["experiment.name"].fillna("").str.startswith(experiment)]
        if runs.empty:
            raise InputError(
                f"{folder} has no run of experiment={experiment}; its first lines in "
                f"configs/experiment/{experiment}.yaml say how to train them"
            )
    splits = runs.reindex(columns=["split"], fill_value="test").split.fillna("test")
    work = {"slots": runs.epochs * runs.processed, "all_steps": runs.epochs * runs.steps}
    return _with_recall(runs.drop(columns="split", errors="ignore"), split=splits, **work)


def read_on(runs: pd.DataFrame) -> str:
    """Name the videos that Recall@20 was read on, such as ``final videos``."""
    return f"{' and '.join(sorted({*runs.split}))} videos"


def _with_recall(table: pd.DataFrame, **more: pd.Series) -> pd.DataFrame:
    keys = {"recall": "with/recall@20", "remembered": "with/recall@20_memory"}
    recalls = {name: 100 * table.get(key, np.nan) for name, key in keys.items()}
    return pd.concat([table, pd.DataFrame({**recalls, **more}, table.index)], axis=1)


def _run(folder: Path) -> dict:
    config = pd.json_normalize(read_object(folder / "config.json")).iloc[0].to_dict()
    losses = [
        line["loss"] for _, line in metric_lines(folder / "metrics.jsonl") if line["kind"] == "step"
    ]
    last = {"last_loss": np.mean(losses[-max(len(losses) // 10, 1) :])} if losses else {}
    return {**config, **read_object(folder / "summary.json"), **last, "run": folder.name}


def read_curves(folder: Path | str) -> pd.DataFrame:
    """Read one row per epoch of each run, and per evaluation inside an epoch.

    `epoch` counts finished epochs, with a fraction. `seconds`, `processed` (slots) and `frames` are
    sums since the beginning of the run, interpolated inside an epoch. `recall` and `remembered` are
    as in `read_runs`, NaN without an evaluation.
    """
    folder = Path(folder)
    if (folder / "curves.csv").exists():
        curves = pd.read_csv(folder / "curves.csv")
    else:
        found = [_curve(path.parent) for path in sorted(folder.glob("*/summary.json"))]
        curves = pd.concat(found, ignore_index=True)
    runs = [_added_up(run) for _, run in curves.groupby("run", sort=False)]
    return _with_recall(pd.concat(runs, ignore_index=True))


def _curve(folder: Path) -> pd.DataFrame:
    rows: dict[float, dict] = {}
    for _, line in metric_lines(folder / "metrics.jsonl"):
        at = line.pop("after", line["epoch"])
        if line["kind"] in ("epoch", "eval"):
            figures = {key: of for key, of in line.items() if key not in ("kind", "epoch", "step")}
            if line["kind"] == "eval":
                figures = {k if "/" in k else f"eval_{k}": of for k, of in figures.items()}
            rows.setdefault(at, {"run": folder.name, "epoch": at}).update(figures)
    return pd.DataFrame([rows[at] for at in sorted(rows)])


def _added_up(curve: pd.DataFrame) -> pd.DataFrame:
    whole = curve[curve.epoch % 1 == 0]
    sums = {
        key: np.interp(curve.epoch, [0, *whole.epoch], [0, *whole[key].cumsum()])
        for key in ("seconds", "processed", "frames")
    }
    return curve.assign(**sums)


@refusal()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="whose folders are runs")
    parser.add_argument("to", type=Path, help="folder for runs.csv and curves.csv")
    args = parser.parse_args()
    runs = [_run(path.parent) for path in sorted(args.folder.glob("*/summary.json"))]
    if not runs:
        raise InputError(f"{args.folder} has no folder of a finished run; train some first")
    curves = [_curve(args.folder / run["run"]) for run in runs]
    args.to.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(runs).to_csv(args.to / "runs.csv", index=False)
    pd.concat(curves).to_csv(args.to / "curves.csv", index=False)


if __name__ == "__main__":
    main()
