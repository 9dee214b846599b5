"""Ablations: what are the start table, masked padding and the memory worth?

    python train.py -m experiment=reset_ablation            # 9 runs of 7 to 8 minutes
    python train.py -m experiment=padding_ablation          # 6
    python train.py -m experiment=temporal                  # 15
    python -m experiments.ablations [FOLDER]

5 epochs of `bload`, three seeds each, compared with the first value. Nothing was predicted. The
comparison seed by seed, with the same first weights and blocks, was added after the first runs had
been seen (docs/LOG.md, "Ablations"). Seconds are left out, since other jobs ran at the same time.
"""

from pathlib import Path

import pandas as pd

from bload.errors import InputError
from experiments.intervals import paired, student, welch
from experiments.runs import read_runs
from experiments.study import RESULTS, command, markdown, publish, refusal

ORDER = {
    "train.starts": ["table", "ignored", "wrong"],
    "train.padding": ["masked", "repeated"],
    "model.temporal": ["dds", "gru", "attention", "scan", "none"],
}
"""Varied key -> its values; the first is the baseline."""


def table(runs: pd.DataFrame) -> str:
    """Tabulate Recall@20, and the work it took, by the key in which the runs differ."""
    varied = [key for key in ORDER if runs[key].nunique() > 1]
    if len(varied) != 1:
        raise InputError(
            f"the runs differ in {' and '.join(varied) or 'nothing compared here'}; give runs "
            f"that differ in one of {', '.join(ORDER)}"
        )
    (key,), rows = varied, []
    by = runs.pivot(index="train.seed", columns=key, values=["recall", "remembered"])
    work = runs.groupby(key)[["all_steps", "slots"]].mean()
    base, *others = sorted(work.index, key=[*ORDER[key], *work.index].index)
    for value in (base, *others):
        recall, remembered = by.recall[value], student(by.remembered[value]).text()
        less = [of(recall, by.recall[base]).text(sign=True) for of in (welch, paired)]
        counts = (f"{of:,.0f}" for of in work.loc[value])
        beside = less if value in others else ["", ""]
        rows.append([f"`{value}`", *counts, student(recall).text(), *beside, remembered])
    heads = ["steps", "slots", "Recall@20", "difference", "seed by seed", "remembered"]
    return markdown(rows, [f"`{key}`", *heads])


@refusal()
def main() -> None:
    parser = command("ablations", __doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: the committed ones")
    folder = parser.parse_args().folder
    names = "reset_ablation", "padding_ablation", "temporal"
    for one in [folder] if folder else [RESULTS / name for name in names]:
        publish(f"ablations {one.name}", f"{table(read_runs(one))}\n", committed=folder is None)


if __name__ == "__main__":
    main()
