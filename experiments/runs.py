"""Tables of runs and of their curves, from run folders or from committed CSV files.

    python -m experiments.runs runs/horizon [MORE ...] results/horizon

writes ``runs.csv`` and ``curves.csv`` of the finished runs in folders, to be committed.
"""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd

from bload.errors import InputError, plural
from datasets.files import exit_on_input_error, write_whole
from experiments.study import make_parser, name_way
from training.config import TrainConfig
from training.folder import read_json, read_lines

MAY_DIFFER = {"train.seed", "dataset.root", "train.batch_slots", "model.skip_padding"}
MAY_DIFFER |= {f"train.{key.name}" for key in fields(TrainConfig) if not key.metadata["defining"]}
MAY_DIFFER |= {"model.recompute", "train.eval_every", "train.evals_per_epoch"}  # the last is old


def read_runs(folder: Path) -> pd.DataFrame:
    """Read one row per finished run: its config (``train.seed``), its summary (``with/recall@20``).

    Also `recall` and `remembered`, Recall@20 with constraint of all relations and of those whose
    evidence is in an earlier frame, in percent; the `split` that they were read on, which earlier
    runs do not name; `slots` and `all_steps` of the whole training; and `step_slots` of a step.

    Raises:
        InputError: there is no finished run.
    """
    if (file := folder / "runs.csv").exists():
        # "none" and "null" are values; only an empty cell is nothing.
        runs = pd.read_csv(file, keep_default_na=False, na_values=[""]).copy()  # in one piece
    else:
        runs = pd.DataFrame(map(run_row, finished_runs(folder))).fillna(np.nan)  # no None, as above
    split = runs.reindex(columns=["split"], fill_value="test").split.astype(object).fillna("test")
    slots, steps = runs.epochs * runs.processed, runs.epochs * runs.steps
    step = runs["train.batch_slots"] * runs["train.micro_batches"] * runs.ranks
    return with_recall(runs).assign(split=split, slots=slots, all_steps=steps, step_slots=step)


def read_curves(folder: Path) -> pd.DataFrame:
    """Read one row per epoch of each run, and per evaluation inside an epoch.

    `epoch` counts finished epochs, with a fraction. `seconds`, `processed` (slots) and `frames` are
    sums since the beginning of the run, interpolated inside an epoch. `recall` and `remembered` are
    as in `read_runs`, NaN without an evaluation.
    """
    file = folder / "curves.csv"
    table = pd.read_csv(file) if file.exists() else pd.concat(map(curve, finished_runs(folder)))
    curves = [add_up(rows) for _, rows in table.groupby("run", sort=False)]
    return with_recall(pd.concat(curves, ignore_index=True))


def refuse_mixtures(runs: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return runs, if those with the same values of `keys` differ in the seed, and in it alone."""
    values = runs.reindex(columns=[*compared_keys(runs), "epochs", "step_slots"]).map(str)
    counts = values.groupby([runs[key] for key in keys], dropna=False).nunique().max()
    if len(differ := counts.index[counts > 1]):
        raise InputError(f"runs of one row differ in {', '.join(differ)}; leave some of them out")
    if len(twice := runs[runs.duplicated(["train.seed", *keys])]):
        raise InputError(f"{twice.run.iloc[0]} has the seed of another in its row; leave one out")
    return runs


def compared_keys(runs: pd.DataFrame) -> list[str]:
    """List the keys of the config that tell runs of unlike ways apart."""
    groups = ("loader.", "model.", "dataset.", "train.", "loss.")
    return [key for key in runs if key.startswith(groups) and key not in MAY_DIFFER]


def name_ways(runs: pd.DataFrame) -> list[str]:
    """Name the loader of each run, as `name_way` does."""
    loaders = runs["loader.name"]
    return [*map(name_way, loaders, runs.get("loader.clips", loaders))]


def name_others(runs: pd.DataFrame, shown: list[str]) -> str:
    """Say in a line, after a table, which runs it does not show; empty if it shows all."""
    names = runs.run[~runs.run.isin(shown)]
    words = f"\n\nNot in this table: {plural(len(names), 'run')} ({', '.join(names)})."
    return words if len(names) else ""


def name_splits(runs: pd.DataFrame) -> str:
    """Name the videos that Recall@20 was read on, such as ``final videos``."""
    return f"{' and '.join(sorted({*runs.split}))} videos"


def finished_runs(folder: Path) -> list[Path]:
    """List the folders of the finished runs in a folder; InputError if there is none."""
    folders = [path.parent for path in sorted(folder.glob("*/summary.json"))]
    if not folders:
        raise InputError(f"{folder} has no folder of a finished run; train some runs first")
    return folders


def run_row(folder: Path) -> dict:
    """Return a run's config, summary and commit, and the mean of the last tenth of its losses."""
    config = pd.json_normalize(read_json(folder / "config.json")).iloc[0].to_dict()
    lines = read_lines(folder / "metrics.jsonl")
    losses = [line["loss"] for _, line in lines if line["kind"] == "step"]
    last = {"last_loss": np.mean(losses[-max(len(losses) // 10, 1) :]) if losses else np.nan}
    commit = read_json(folder / "made_on.json")["git"]
    summary = read_json(folder / "summary.json")
    return {**config, **summary, **last, "commit": commit, "run": folder.name}


def curve(folder: Path) -> pd.DataFrame:
    """Return the figures of a run by finished epochs; keys of evaluations begin with ``eval_``."""
    rows: dict[float, dict] = {}
    for _, line in read_lines(folder / "metrics.jsonl"):
        epoch = line.pop("after", line["epoch"])
        if line["kind"] in ("epoch", "eval"):
            prefix = "eval_" if line["kind"] == "eval" else ""
            row = rows.setdefault(epoch, {"run": folder.name, "epoch": epoch})
            for key, value in line.items():
                if key not in ("kind", "epoch", "step"):
                    row[key if "/" in key else prefix + key] = value
    return pd.DataFrame([rows[epoch] for epoch in sorted(rows)])


def add_up(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a curve whose seconds, slots and frames are sums since the beginning."""
    whole_epochs = rows[rows.epoch % 1 == 0]
    sums = {
        key: np.interp(rows.epoch, [0, *whole_epochs.epoch], [0, *whole_epochs[key].cumsum()])
        for key in ("seconds", "processed", "frames")
    }
    return rows.assign(**sums)


def with_recall(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with `recall` and `remembered`, in percent."""
    recall, memory = (table.get(f"with/recall@20{part}", np.nan) for part in ("", "_memory"))
    return table.assign(recall=100 * recall, remembered=100 * memory)


@exit_on_input_error()
def main() -> None:
    parser = make_parser("runs", __doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="whose folders are runs")
    parser.add_argument("to", type=Path, help="folder for runs.csv and curves.csv")
    args = parser.parse_args()
    runs = [run for folder in args.folders for run in finished_runs(folder)]
    if len({run.name for run in runs}) < len(runs):
        raise InputError("two of the folders hold runs of one name, whose curves would become one")
    args.to.mkdir(parents=True, exist_ok=True)
    tables = {"runs": pd.DataFrame(map(run_row, runs)), "curves": pd.concat(map(curve, runs))}
    for name, table in tables.items():
        write_whole(args.to / f"{name}.csv", table.to_csv(index=False))
    print(f"{len(runs)} runs: {args.to / 'runs.csv'}, {args.to / 'curves.csv'}")


if __name__ == "__main__":
    main()
