"""Ablations: what are the memory, the start table and masked padding worth, and which memory?

    python train.py experiment=ablations                 # and the others in its file
    python -m experiments.ablations [FOLDER]

`bload` with one change at a time, each less no change, by seed: the same first weights and blocks.
Holm's correction is within a question (docs/LOG.md, "The headline, again"). Seconds are left out,
since other jobs ran at the same time.
"""

from pathlib import Path

from experiments.intervals import corrected, signed, student
from experiments.runs import read_on, read_runs
from experiments.study import markdown, study

QUESTIONS = {
    "memory": ("model.temporal", ["none"]),
    "start table": ("train.starts", ["ignored", "wrong"]),
    "padding": ("train.padding", ["repeated"]),
    "temporal part": ("model.temporal", ["gru", "attention", "scan"]),
}
"""Question -> the key that differs from the defaults, and its values."""
DEFAULTS = {"model.temporal": "dds", "train.starts": "table", "train.padding": "masked"}


def tables(folder: Path) -> str:
    """Tabulate Recall@20 of every change, and its difference from no change."""
    runs = read_runs(folder)
    ways = {way: mine.set_index("train.seed") for way, mine in runs.groupby([*DEFAULTS])}
    base = ways[tuple(DEFAULTS.values())]
    rows = [["", "no change", f"{len(base)}", student(base.recall).text(), ""]]
    rows[0] += [student(base.remembered).text(), ""]
    for question, (key, values) in QUESTIONS.items():
        changed = [ways[tuple((DEFAULTS | {key: value}).values())] for value in values]
        less = corrected(mine.recall - base.recall for mine in changed)
        for value, mine, gain in zip(values, changed, less, strict=True):
            row = [question, f"`{key}={value}`", f"{len(mine)}", student(mine.recall).text(), gain]
            memory = signed(mine.remembered - base.remembered)
            rows.append([*row, student(mine.remembered).text(), memory])
    heads = ["question", "`bload` with", "seeds", f"Recall@20, {read_on(runs)}", "less no change"]
    return markdown(rows, [*heads, "remembered", "less no change"], words=2)


if __name__ == "__main__":
    study("ablations", __doc__, tables)
