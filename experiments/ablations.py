"""Ablations: what are the memory, the start table and masked padding worth, and which memory?

    python train.py experiment=ablations                    # and the others in its file
    python -m experiments.ablations [FOLDER]

`bload` with one change at a time, each minus no change, by seed: the same first weights and blocks.
Holm's correction is within a question (dev/LOG.md, "The headline, again").
"""

from pathlib import Path

from experiments.intervals import corrected, signed, student
from experiments.runs import name_splits, read_runs
from experiments.study import markdown, report_runs

QUESTIONS = {
    "memory": ("model.temporal", ["none"]),
    "start table": ("train.starts", ["ignored", "wrong"]),
    "padding": ("train.padding", ["repeated"]),
    "temporal part": ("model.temporal", ["gru", "scan"]),
}
"""Question -> the key that differs from the defaults, and its values."""
DEFAULTS = {"model.temporal": "dds", "train.starts": "table", "train.padding": "masked"}


def tables(folder: Path) -> str:
    """Tabulate Recall@20 of every change, and its difference from no change."""
    runs = read_runs(folder)
    by_change = {key: seeds.set_index("train.seed") for key, seeds in runs.groupby([*DEFAULTS])}
    base = by_change[tuple(DEFAULTS.values())]
    rows = [["", "no change", f"{len(base)}", student(base.recall).text(), ""]]
    rows[0] += [student(base.remembered).text(), ""]
    for question, (key, values) in QUESTIONS.items():
        changed = [by_change[tuple((DEFAULTS | {key: value}).values())] for value in values]
        gains = corrected(seeds.recall - base.recall for seeds in changed)
        for value, seeds, gain in zip(values, changed, gains, strict=True):
            row = [question, f"`{key}={value}`", f"{len(seeds)}", student(seeds.recall).text()]
            row += [gain, student(seeds.remembered).text()]
            rows.append([*row, signed(seeds.remembered - base.remembered)])
    heads = ["question", "`bload` with", "seeds", f"Recall@20, {name_splits(runs)}"]
    return markdown(rows, [*heads, "minus no change", "needs memory", "minus no change"], words=2)


if __name__ == "__main__":
    report_runs("ablations", __doc__, tables)
