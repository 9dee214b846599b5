"""Ablations: what are the memory, the start table and masked padding worth, and which memory?

    python train.py experiment=ablations                    # and the others in its file
    python -m experiments.ablations [FOLDER]

`bload` with one change at a time, each minus no change, by seed: the same first weights and blocks.
Holm's correction is within a question (dev/LOG.md, "The headline, again").
"""

from pathlib import Path

from experiments.intervals import corrected, signed, t_interval
from experiments.runs import name_others, name_splits, read_runs, refuse_mixtures
from experiments.study import markdown, name_missing, report_runs

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
    all_runs = read_runs(folder)
    loaders = all_runs["loader.name"]
    loader = "bload" if "bload" in {*loaders} else loaders.mode()[0]
    runs = refuse_mixtures(all_runs[loaders == loader], *DEFAULTS)
    by_change = {key: seeds.set_index("train.seed") for key, seeds in runs.groupby([*DEFAULTS])}
    base = by_change.get(tuple(DEFAULTS.values()), runs[:0])
    rows = [["", "no change", f"{len(base)}", t_interval(base.recall).text(), ""]]
    rows[0] += [t_interval(base.remembered).text(), ""]
    missing, shown = [] if len(base) else ["no change"], [*base.run]
    for question, (key, values) in QUESTIONS.items():
        changes = [tuple((DEFAULTS | {key: value}).values()) for value in values]
        changed = [by_change.get(change, runs[:0]) for change in changes]
        gains = corrected(seeds.recall - base.recall for seeds in changed)
        for value, seeds, gain in zip(values, changed, gains, strict=True):
            if not len(seeds):
                missing.append(f"{key}={value}")
                continue
            shown += [*seeds.run]
            row = [question, f"`{key}={value}`", f"{len(seeds)}", t_interval(seeds.recall).text()]
            row += [gain, t_interval(seeds.remembered).text()]
            rows.append([*row, signed(seeds.remembered - base.remembered)])
    heads = ["question", f"`{loader}` with", "seeds", f"Recall@20, {name_splits(runs)}"]
    heads += ["minus no change", "needs memory", "minus no change"]
    return markdown(rows, heads, words=2) + name_others(all_runs, shown) + name_missing(missing)


if __name__ == "__main__":
    report_runs("ablations", __doc__, tables)
