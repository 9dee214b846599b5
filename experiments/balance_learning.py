"""Balance over steps: does it cost learning that `loader.balance` sorts blocks over steps?

    OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 train.py experiment=balance_learning
    python -m experiments.balance_learning [FOLDER]

`window` and `queue` bring blocks of like cost into one step; `pairs` and `counts` keep the random
steps of `none` and share them out otherwise. Judged by Recall@20 and by the loss of the last tenth
of the steps, each minus `none`, by seed (dev/LOG.md, "The headline, again").
"""

from pathlib import Path

from experiments.intervals import student
from experiments.runs import name_splits, read_runs
from experiments.study import markdown, report_runs


def tables(folder: Path) -> str:
    """Tabulate Recall@20 and the last losses of every balance, and each minus `none`."""
    runs, rows = read_runs(folder).set_index("train.seed"), []
    balances = dict([*runs.groupby("loader.balance")])
    for balance in ("none", "window", "queue"):
        seeds = balances[balance]
        rows.append([f"`{balance}`", f"{seeds.all_steps.mean():,.0f}", len(seeds)])
        for key, digits in (("recall", 1), ("last_loss", 2)):
            difference = student(seeds[key] - balances["none"][key]).text(digits, sign=True)
            rows[-1] += [student(seeds[key]).text(digits), difference if balance != "none" else ""]
    heads = ["`loader.balance`", "steps", "seeds", f"Recall@20, {name_splits(runs)}"]
    return markdown(rows, [*heads, "minus `none`", "last loss", "minus `none`"])


if __name__ == "__main__":
    report_runs("balance_learning", __doc__, tables)
