"""The default run: how much of what can be learned does it learn?

    torchrun train.py loader=bload                          # 5 minutes
    python -m experiments.default_run [FOLDER]

FOLDER has `runs.csv` and `relations.csv` of one run. Nothing was predicted.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bload.errors import InputError
from experiments.runs import read_on, read_runs
from experiments.study import markdown, study
from training.report.charts import relation_bars

RECALL = "recall@20"


def tables(folder: Path) -> str:
    """Tabulate Recall@20 beside that of ideal observers."""
    runs, rows = read_runs(folder), []
    run = runs.iloc[0]
    if not (folder / "relations.csv").exists():
        raise InputError(f"{folder} has no relations.csv; eval.py relations= writes one for a run")
    ideal = run[f"remembering/{RECALL}"]
    names = {"memoryless": "ideal observer without memory", "with": "the default run"}
    names["remembering"] = "ideal observer that remembers all"
    for key, name in names.items():
        recall, memory = run[f"{key}/{RECALL}"], run[f"{key}/{RECALL}_memory"]
        figures = f"{100 * recall:.1f}", f"{100 * recall / ideal:.0f} %", f"{100 * memory:.1f}"
        rows.append([name, *figures])
    heads = ["", f"Recall@20, {read_on(runs)}", "share of what can be reached", "remembered"]
    return "![Recall@20 by relation](charts/default_run.svg)\n\n" + markdown(rows, heads)


def draw(folder: Path, figure: Figure) -> None:
    """Draw `relation_bars` of the run."""
    found = pd.read_csv(folder / "relations.csv")
    found = found.query("kind == 'relation' and constraint == 'with' and k == 20")
    axis = figure.add_subplot()
    relation_bars(axis, found.assign(name=found.name.str.replace("_", " ")))
    axis.set_xlabel("Recall@20 with constraint, %")


if __name__ == "__main__":
    title = "Rare relations are learned least"
    study("default_run", __doc__, tables, draw, title=title, height=6.4)
