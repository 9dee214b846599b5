"""The default run: how much of what can be learned does it learn?

    torchrun train.py loader=bload                          # 5 minutes; then `eval.py relations=`
    python train.py -m run.root=runs/learning train.seed=0,1,2      # and as docs/results.md says
    python -m experiments.default_run [FOLDER]

FOLDER has `runs.csv` and `relations.csv` of one run, results/learning.csv others. Nothing was
predicted.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from bload.errors import InputError
from experiments.runs import read_runs
from experiments.study import RESULTS, markdown, study
from training.page.charts import relation_bars

RECALL, KEYS = "recall@20", ["epochs", "temporal", "starts"]


def tables(folder: Path) -> str:
    """Tabulate Recall@20 by work, mean and standard deviation, beside ideal observers."""
    run, rows = read_runs(folder).iloc[0], list[list[object]]()
    if not (folder / "relations.csv").exists():
        raise InputError(f"{folder} has no relations.csv; eval.py relations= writes one for a run")
    ideal = run[f"remembering/{RECALL}"]
    for name, words in (("memoryless", "without memory"), ("remembering", "that remembers all")):
        recall, memory = run[f"{name}/{RECALL}"], run[f"{name}/{RECALL}_memory"]
        figures = [f"{100 * recall:.1f}", f"{100 * recall / ideal:.0f} %", f"{100 * memory:.1f}"]
        rows.append([f"ideal observer {words}", *[""] * 7, *figures])
    learning = pd.read_csv(RESULTS / "learning.csv").fillna({"muon_lr": 0})
    for (muon, *ways), of in learning.groupby(["muon_lr", *KEYS], sort=False):
        recall, memory = (100 * of[f"with/{RECALL}{more}"] for more in ("", "_memory"))
        figures = [f"{one.mean():.1f} +- {one.std():.1f}" for one in (recall, memory)]
        figures.insert(1, f"{recall.mean() / ideal:.0f} %")
        work = (f"{of[key].mean():,.0f}" for key in ("steps", "slots", "train_seconds"))
        trained = "AdamW and Muon" if muon else "AdamW alone"
        rows.append([trained, *ways, *work, len(of), *figures])
    heads = ["", *KEYS, "steps", "slots", "seconds", "seeds", "Recall@20"]
    heads += ["share of what can be reached", "remembered"]
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
