"""The paper's one table with ours, and the tables of times, Recall@20 and padding behind it."""

from typing import Any

from bload.draw import label_of
from bload.packers import PACKERS
from bload.table import NOT_DERIVABLE, PAPER
from experiments.report.curves import evaluations
from experiments.report.figures import (
    Block,
    Cell,
    Table,
    cell,
    difference,
    estimate,
    missing,
    rows,
)
from experiments.report.packing import COMMAND, EPOCHS, packed, paper
from experiments.report.results import NAMES, Compared, Results, compare, equal_epochs, equal_work
from experiments.report.times import (
    Times,
    best_times,
    time_table,
    timed_runs,
    turn_times,
    turns_table,
)


def overview(results: Results) -> list[Block]:
    """The paper's figure, ours and what lies between: measures down, loaders across."""
    theirs, ours, times = paper(), packed(), best_times(results)
    trained = {"equal epochs": equal_epochs(results), "equal work": equal_work(results)}
    lines: list[tuple[str, Any, str]] = []
    for name, key in (
        *(("Padded frames", "padding"), ("Deleted frames", "deleted")),
        ("Frames processed", "processed"),
    ):
        lines.append((f"{name}: paper", theirs[key], "0"))
        lines.append((f"{name}: ours", ours[key], "0"))
        lines.append((f"{name}: ours - paper", ours[key] - theirs[key], "+0"))
    lines.append(("Minutes an epoch: paper", theirs.minutes, "0"))
    lines.append(("Times faster than naive: paper", theirs.faster, "2"))
    if times:
        faster = {name: times.faster(name) for name in PACKERS}
        if times.has_action_genomes_lengths:
            share = {name: of.mean / theirs.faster[name] for name, of in faster.items() if of}
            lines.append(("Times faster than naive: ours", faster, "2"))
            lines.append(("Times faster than naive: ours / paper", share, "2"))
        else:
            lines.append(("Times faster than naive: ours, other lengths", faster, "2"))
    lines.append(("Recall@20, %: paper", theirs.recall_at_20, "1"))
    for when, found in trained.items():
        if found:
            groups = found.main.groupby("loader").recall
            reached = dict.fromkeys(found.failed.loader, "failed") | dict(groups.apply(estimate))
            between = groups.mean() - theirs.recall_at_20
            lines.append((f"Recall@20, {when}: ours", reached, "1"))
            lines.append((f"Recall@20, {when}: ours - paper", between, "+1"))
    table = [
        {"measure": Cell(name)} | {label_of(key): cell(of.get(key), form) for key in PACKERS}
        for name, of, form in lines
    ]
    known = [found for found in trained.values() if found]
    return [Table("The paper's one table, with ours", table, _overview_note(known, times))]


def _overview_note(known: list[Compared], times: Times | None) -> str:
    naive, exact = packed().loc["naive"], packed().loc["bload_exact"]
    least = naive.processed / (exact.frames + exact.lower_bound_padding)
    note = (
        "Padding, deletion and frames processed (which follow from the two) are ours on Action "
        f"Genome's real training lengths, means over {EPOCHS} epochs (`{COMMAND}`); BLoad's 3,695 "
        f"is the paper's figure: {NOT_DERIVABLE}. The minutes were measured on the paper's machine "
        "and compare as ratios alone. No packing that deletes nothing processes fewer frames than "
        f"naive's divided by {least:.3f}, those of the fewest blocks. "
    )
    if times:
        note += f"Our times: `{times.name}`, {times.setting}. "
    if known:
        where = "; ".join(f"`{found.experiment}`, {found.setting}" for found in known)
        note += (
            f"Our Recall@20, with constraint, after the last epoch: {where}. The paper's is of "
            "Action Genome and the full model; it does not say which constraint. "
        )
    if any(found.runs["dataset.name"].iloc[0] == "synthetic" for found in known):
        note += (
            "Ours differs from it for what it was measured on: synthetic data, another model, few "
            "epochs and seeds. With so little training the number of optimiser steps weighs more, "
            "and a loader with fewer slots per epoch takes fewer. "
        )
    return note + "In brackets: 95 % intervals by Student's t, of ratios by Welch or over rounds."


def details(results: Results) -> list[Block]:
    """Times, Recall@20 and padding of the runs behind the paper's table."""
    epochs, work, timed = equal_epochs(results), equal_work(results), timed_runs(results)
    whole, turns = compare(results, "full_size", "loader"), turn_times(results)
    size = "Time of an epoch with model=dds"
    return [
        *([turns_table(turns)] if turns else []),
        time_table(timed, "Time of an epoch") if timed else missing("epoch times", "epoch_time"),
        time_table(whole, size) if whole else missing(f"{size} (ResNet-50) on a GPU", "full_size"),
        *(
            [_recall_table(epochs, "equal epochs"), _cost_table(epochs)]
            if epochs
            else [missing("Recall@20 at equal epochs", "paper_table")]
        ),
        *(
            [_recall_table(work, "equal work"), _at_one_time(results, work)]
            if work
            else [missing("Recall@20 at equal work", "paper_table_equal_time")]
        ),
    ]


def _recall_table(found: Compared, at: str) -> Table:
    groups = found.runs.groupby(["loader", "epochs"], sort=False)

    def minus(loader: str, key: str) -> dict:
        base = found.by_loader.get(loader)
        others = {} if base is None else {name: of for name, of in groups if name[0] != loader}
        return {name: difference(runs[key], base[key]) for name, runs in others.items()}

    columns = {
        **{"steps an epoch": groups.steps.mean(), "seeds": found.counts(groups)},
        "with constraint, %": groups.recall.apply(estimate),
        "standard deviation": groups.recall.std(),
        "minus sampling, points": minus("sampling", "recall"),
        "minus naive, points": minus("naive", "recall"),
        "no constraint, %": groups.no.apply(estimate),
        "must be remembered, %": groups.memory.apply(estimate),
        "of these, minus sampling": minus("sampling", "memory"),
        "training seconds": groups.train_seconds.mean(),
    }
    paper = PAPER["bload"].recall_at_20 - PAPER["sampling"].recall_at_20
    return Table(
        f"Recall@20 at {at}",
        found.with_failed(rows("loader", columns, "0 0 1 2 +1 +1 1 1 +1", _with_epochs), "seeds"),
        f"`{found.experiment}`: {found.setting}; 95 % intervals by Student's t, of differences by "
        f"Welch (seeds unpaired). The paper has BLoad {paper:.1f} points above sampling (43.3 and "
        "41.2). A step has as many slots for every loader, so a loader with fewer slots per epoch "
        f"takes fewer steps. {_budget(found)}{found.note}",
    )


def _with_epochs(key: tuple[str, float]) -> str:
    return f"{label_of(key[0])}, {key[1]:.0f} epoch{'s' * (key[1] != 1)}"


def _budget(found: Compared) -> str:
    """What equal work means: the whole epochs nearest to a number of slots."""
    slots = found.main["train.slots"].max()
    if not slots > 0:
        return ""
    text = f"Equal work is the whole epochs, at least one, nearest to {slots:,.0f} slots. "
    for loader, given in found.runs[found.runs.extra].groupby("loader")["train.slots"]:
        text += f"{label_of(loader)} was also given {', '.join(f'{n:,.0f}' for n in {*given})}. "
    stand_ins = found.runs.loader[found.runs.experiment != found.experiment].unique()
    if len(stand_ins):
        text += (
            f"For {', '.join(map(label_of, stand_ins))} that is the number of epochs in "
            "`paper_table`, whose runs stand here. "
        )
    return text


def _cost_table(found: Compared) -> Table:
    mean = found.main.groupby("loader", sort=False).mean(numeric_only=True)
    columns = {
        **{"T_max": mean.t_max, "padded": mean.padding, "deleted": mean.deleted},
        "processed": mean.processed,
        "padding, % of the work": 100 * mean.padding / mean.processed,
    }
    return Table(
        "Padding and deletion in these runs",
        rows("loader", columns, "0 0 0 0 1"),
        f"`{found.experiment}`: means over epochs and seeds of its own data set of "
        f"{found.runs.total.iloc[0]:,.0f} training frames, not Action Genome's lengths.",
    )


def _at_one_time(results: Results, found: Compared) -> Table:
    """What each loader had reached when the first one was done."""
    spent = found.main.groupby("loader", sort=False).train_seconds.mean()
    budget = spent.min()
    reached = evaluations(results, found.main).dropna(subset="recall")
    reached = reached[reached.seconds <= budget * (1 + 1e-9)]
    groups = reached.groupby(["loader", *NAMES]).last().groupby("loader")
    columns = {
        "seeds": groups.size().reindex(spent.index, fill_value=0),
        "epochs until then": groups.epoch.mean() + 1,
        "with constraint, %": groups.recall.apply(estimate),
        "seconds of all epochs": spent,
    }
    return Table(
        "Recall@20 at equal training time",
        rows("loader", columns, "0 1 1"),
        f"The runs at equal work, as they stood after {budget:,.0f} seconds of training, when the "
        "first loader was done: the last evaluation until then, with the learning rate not yet "
        "at its end for the others. Seconds as measured, whatever else the machine did.",
    )
