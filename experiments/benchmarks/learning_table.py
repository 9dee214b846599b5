"""What networks learn of the synthetic world: Recall@20 by kind of run, mean and spread over seeds.

    R="run.root=runs/learning train.seed=0,1,2"
    python train.py -m $R
    python train.py -m $R train.epochs=10 model.temporal=dds,none
    python train.py -m $R train.epochs=10 train.starts=ignored
    python -m experiments.benchmarks.learning_table runs/learning --csv results/learning.csv

Reads the finished runs under a folder; runs that differ in the seed alone make one row. Beside
them stand the best observers of the same frames: one without memory, one that remembers all (see
datasets/README.md).
"""

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

MEASURES = {
    "R@20": "with/recall@20",
    "memory": "with/recall@20_memory",
    "R@20 no": "no/recall@20",
}
"""Columns of the table, and the figures of a run they hold."""
KIND = ["epochs", "temporal", "starts"]


def read_runs(folder: Path) -> pd.DataFrame:
    """One row a finished run under `folder`, in order of kind and seed."""
    rows = []
    for path in sorted(folder.glob("*/summary.json")):
        summary = json.loads(path.read_text())
        model = json.loads(path.with_name("config.json").read_text())["model"]
        rows.append(summary | {"temporal": model["temporal"], "run": path.parent.name})
    if not rows:
        sys.exit(f"there is no finished run under {folder}; train some first, see --help")
    return pd.DataFrame(rows).sort_values([*KIND, "seed"])


def table(runs: pd.DataFrame) -> str:
    """Percent: mean and standard deviation over seeds; the observers' lines first."""
    first = runs.iloc[0]
    whole = first["remembering/recall@20"]
    lines = [
        f"{'run':38}{'seeds':>6}" + "".join(f"{name:>16}" for name in MEASURES) + "  of all R@20",
    ]
    for observer, text in (("memoryless", "best without memory"), ("remembering", "best with it")):
        values = [first[f"{observer}/recall@20"], first[f"{observer}/recall@20_memory"]]
        cells = "".join(f"{100 * value:.1f}".rjust(16) for value in values)
        lines.append(f"{text:38}{'':6}{cells}{'':16}{100 * values[0] / whole:12.1f} %")
    for kind, group in runs.groupby(KIND):
        name = "epochs={} temporal={} starts={}".format(*kind)
        cells = "".join(
            f"{100 * group[key].mean():.1f} +- {100 * group[key].std():.1f}".rjust(16)
            for key in MEASURES.values()
        )
        share = 100 * group["with/recall@20"].mean() / whole
        lines.append(f"{name:38}{len(group):6}{cells}{share:12.1f} %")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="folder of runs")
    parser.add_argument("--csv", type=Path, help="write every run's figures here as well")
    options = parser.parse_args()
    runs = read_runs(options.runs)
    print(table(runs))
    if options.csv:
        keep = [*KIND, "seed", *MEASURES.values(), "train_seconds", "frames_per_second", "run"]
        runs[keep].to_csv(options.csv, index=False, float_format="%.5g")


if __name__ == "__main__":
    main()
