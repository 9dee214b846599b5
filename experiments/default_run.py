"""The default run: how much of what can be learned does it learn?

    torchrun train.py loader=bload                          # 8 minutes
    python -m experiments.default_run [FOLDER]

FOLDER has `runs.csv` of one run. Nothing was predicted.
"""

from pathlib import Path

from experiments.runs import name_splits, read_runs
from experiments.study import markdown, report_runs

NAMES = {
    "memoryless": "ideal observer without memory",
    "with": "the default run",
    "remembering": "ideal observer with memory",
}


def tables(folder: Path) -> str:
    """Tabulate Recall@20 beside that of ideal observers."""
    runs = read_runs(folder)
    keys = [f"{name}/recall@20{part}" for name in NAMES for part in ("", "_memory")]
    recall_32 = 100 * runs.reindex(columns=keys).iloc[0].to_numpy(float).reshape(3, 2)
    rows = [
        [name, f"{recall:.1f}", f"{100 * recall / recall_32[-1, 0]:.0f} %", f"{memory:.1f}"]
        for name, (recall, memory) in zip(NAMES.values(), recall_32, strict=True)
    ]
    heads = ["", f"Recall@20, {name_splits(runs)}", "share of the best possible", "needs memory"]
    return markdown(rows, heads)


if __name__ == "__main__":
    report_runs("default_run", __doc__, tables)
