"""The default run: how much of what can be learned does it learn?

    torchrun train.py loader=bload                          # 5 minutes
    python -m experiments.default_run [FOLDER]

FOLDER has `runs.csv` and `relations.csv` of one run. Nothing was predicted.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bload.errors import InputError
from experiments.runs import name_splits, read_runs
from experiments.study import markdown, report_runs
from training.report.charts import relation_bars

NAMES = {
    "memoryless": "ideal observer without memory",
    "with": "the default run",
    "remembering": "ideal observer with memory",
}


def tables(folder: Path) -> str:
    """Tabulate Recall@20 beside that of ideal observers."""
    runs = read_runs(folder)
    if not (folder / "relations.csv").exists():
        raise InputError(f"{folder} has no relations.csv; eval.py relations= writes one for a run")
    keys = [f"{name}/recall@20{part}" for name in NAMES for part in ("", "_memory")]
    recall_32 = 100 * runs.reindex(columns=keys).iloc[0].to_numpy(float).reshape(3, 2)
    rows = [
        [name, f"{recall:.1f}", f"{100 * recall / recall_32[-1, 0]:.0f} %", f"{memory:.1f}"]
        for name, (recall, memory) in zip(NAMES.values(), recall_32, strict=True)
    ]
    heads = ["", f"Recall@20, {name_splits(runs)}", "share of the best possible", "needs memory"]
    return "![Recall@20 by relation](../charts/default_run.svg)\n\n" + markdown(rows, heads)


def draw(folder: Path, figure: Figure) -> None:
    """Draw `relation_bars` of the run."""
    recalls = pd.read_csv(folder / "relations.csv")
    recalls = recalls.query("kind == 'relation' and constraint == 'with' and k == 20")
    axis = figure.add_subplot()
    relation_bars(axis, recalls.assign(name=recalls.name.str.replace("_", " ")))
    axis.set_xlabel("Recall@20 with constraint, %")


if __name__ == "__main__":
    title = "Rare relations are learned least"
    report_runs("default_run", __doc__, tables, draw, title=title, height=6.4)
