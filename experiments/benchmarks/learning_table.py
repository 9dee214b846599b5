"""What networks learn of the synthetic world: Recall@20 by kind of run, mean and spread over seeds.

    R="run.root=runs/learning train.seed=0,1,2"
    python train.py -m $R
    python train.py -m $R train.epochs=10 model.temporal=dds,none
    python train.py -m $R train.epochs=10 train.starts=ignored
    python -m experiments.benchmarks.learning_table runs/learning

Reads runs/learning/results.csv. Runs that differ only in the seed make one row; above them are the
best observers of the same frames: one without memory, one that remembers everything.
"""

import argparse
from pathlib import Path

import pandas as pd
from tabulate import tabulate

KIND = ["epochs", "temporal", "starts"]
MEASURES = {"R@20": "with/recall@20", "memory": "with/recall@20_memory", "R@20 no": "no/recall@20"}
"""Columns of the table, and the figures of a run that they hold."""


def table(runs: pd.DataFrame) -> str:
    """Percent: mean and standard deviation over seeds; `runs` are rows of ``results.csv``."""
    best = 100 * runs.iloc[0].filter(regex="^(memoryless|remembering)/").astype(float)
    whole = best["remembering/recall@20"]
    rows = []
    for observer, name in (("memoryless", "best without memory"), ("remembering", "best with it")):
        recall, memory = best[f"{observer}/recall@20"], best[f"{observer}/recall@20_memory"]
        rows.append([name, "", f"{recall:.1f}", f"{memory:.1f}", "", 100 * recall / whole])
    for kind, group in runs.groupby(KIND):
        figures = 100 * group[list(MEASURES.values())]
        pairs = zip(figures.mean(), figures.std(), strict=True)
        cells = [f"{mean:.1f} +- {spread:.1f}" for mean, spread in pairs]
        share = 100 * figures["with/recall@20"].mean() / whole
        name = " ".join(f"{key}={value}" for key, value in zip(KIND, kind, strict=True))
        rows.append([name, len(group), *cells, share])
    return tabulate(rows, ["run", "seeds", *MEASURES, "% of all R@20"], floatfmt=".1f")


if __name__ == "__main__":
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("runs", type=Path, help="folder of runs")
    print(table(pd.read_csv(parser.parse_args().runs / "results.csv").convert_dtypes()))
