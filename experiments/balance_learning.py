"""Balance over steps: does it cost learning that `loader.balance` sorts blocks over steps?

    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 train.py experiment=balance_learning
    python -m experiments.balance_learning [FOLDER]

`window` and `queue` bring blocks of like cost into one step; `pairs` and `counts` keep the random
steps of `none` and share them out otherwise. Judged by Recall@20 and by the loss of the last tenth
of the steps, each less `none`, by seed (docs/LOG.md, "Two protocols").
"""

from pathlib import Path

from experiments.intervals import student
from experiments.runs import read_on, read_runs
from experiments.study import markdown, study


def tables(folder: Path) -> str:
    """Recall@20 and the last losses of every balance, and their differences from `none`."""
    runs = read_runs(folder, "balance_learning")
    by = runs.pivot(index="train.seed", columns="loader.balance", values=["recall", "last_loss"])
    rows = []
    for balance in ("none", "window", "queue"):
        mine = runs[runs["loader.balance"] == balance]
        rows.append([f"`{balance}`", f"{mine.all_steps.mean():,.0f}", len(mine)])
        for of, digits in (("recall", 1), ("last_loss", 2)):
            less = student(by[of][balance] - by[of]["none"]).text(digits, sign=True)
            rows[-1] += [student(mine[of]).text(digits), less if balance != "none" else ""]
    heads = ["`loader.balance`", "steps", "seeds", f"Recall@20, {read_on(runs)}"]
    return markdown(rows, [*heads, "less `none`", "last loss", "less `none`"])


if __name__ == "__main__":
    study("balance_learning", __doc__, tables)
