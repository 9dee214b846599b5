"""The paper's one table with ours, and the tables of times and Recall@20 behind it."""

from typing import Any

import numpy as np
import pandas as pd

from bload.draw import label_of
from bload.packers import PACKERS, makes_batches
from bload.paper import NOT_DERIVABLE
from experiments.report.alternatives import speed_lines
from experiments.report.convergence import work_beside_naive
from experiments.report.exhibits import Cell, Exhibit, Part, cell, estimate, missing, note, rows
from experiments.report.packing import COMMAND, packed, paper
from experiments.report.results import Compared, Results, compare, equal_epochs, equal_work
from experiments.report.times import best_times, time_table, timed_runs, turn_times, turns_table


def overview(results: Results) -> Exhibit:
    """The paper's figure, ours and what lies between: measures down, loaders across."""
    theirs, ours, times = paper(), packed(), best_times(results)
    shown = [key for key in PACKERS if not makes_batches(key)]  # the others stand further down
    trained = {"equal epochs": equal_epochs(results), "equal work": equal_work(results)}
    known = {when: found for when, found in trained.items() if found}
    lines: list[tuple[str, Any, str]] = []
    for name, key in (
        *(("Padded frames", "padding"), ("Deleted frames", "deleted")),
        ("Frames processed", "processed"),
    ):
        lines.append((f"{name}: paper", theirs[key], "0"))
        lines.append((f"{name}: ours", ours[key], "0"))
        lines.append((f"{name}: ours - paper", ours[key] - theirs[key], "+0"))
    lines.append(("Minutes per epoch: paper", theirs.minutes, "0"))
    lines.append(("Times faster than naive: paper", theirs.faster, "2"))
    if times and times.has_action_genomes_lengths:
        share = {name: of.mean / theirs.faster[name] for name, of in times.faster().items()}
        lines.append(("Times faster than naive: ours", times.faster(), "2"))
        lines.append(("Times faster than naive: ours / paper", share, "2"))
    lines += speed_lines(results)
    lines.append(("Recall@20, %: paper, Action Genome", theirs.recall_at_20, "1"))
    for when, found in known.items():
        recall = found.main.groupby("loader").recall.apply(estimate)
        lines.append((f"Recall@20, {when}: ours, {found.data}", recall, "1"))
    if shares := work_beside_naive(results):
        lines.append(("Work to the same Recall@20, naive = 1: ours", shares, "2"))
    table = [
        {"measure": Cell(name)} | {label_of(key): cell(of.get(key), form) for key in shown}
        for name, of, form in lines
    ]
    text = note("overview", ours, COMMAND, NOT_DERIVABLE, times, [*known.values()])
    return Exhibit("The paper's one table, with ours", table, text, kind="lead")


def details(results: Results) -> list[Part]:
    """Times and Recall@20 of the runs behind the paper's table."""
    whole, turns = compare(results, "full_size", "loader"), turn_times(results)
    epochs, work, timed = equal_epochs(results), equal_work(results), timed_runs(results)
    lacking, what = missing("epoch times", "epoch_time"), "Recall@20 at equal"
    return [
        turns_table(turns) if turns else time_table(timed) if timed else lacking,
        time_table(whole) if whole else missing("times of model=dds on a GPU", "full_size"),
        _recall_table(epochs) if epochs else missing(f"{what} epochs", "paper_table"),
        _recall_table(work) if work else missing(f"{what} work", "paper_table_equal_time"),
    ]


def _recall_table(found: Compared) -> Exhibit:
    groups = found.runs.groupby(["loader", "epochs"], sort=False)

    def minus(loader: str, key: str) -> dict:
        base = found.by_loader.get(loader, found.runs[:0])
        others = ((name, of) for name, of in groups if name[0] != loader)
        return {name: estimate(of[key], base[key]) for name, of in others}

    columns = {
        "steps per epoch": groups.steps.mean(),
        "seeds": groups.size(),
        "with constraint, %": groups.recall.apply(estimate),
        "standard deviation": groups.recall.std(),
        "minus sampling, points": minus("sampling", "recall"),
        "minus naive, points": minus("naive", "recall"),
        "no constraint, %": groups.no.apply(estimate),
        "must be remembered, %": groups.memory.apply(estimate),
        "of these, minus sampling": minus("sampling", "memory"),
        **({} if found.counts_start else {"training seconds": groups.train_seconds.mean()}),
    }
    table = rows("loader", columns, "0 0 1 2 +1 +1 1 1 +1", _with_epochs)
    return Exhibit(f"Recall@20 at {found.when}", table, note("recall", found, paper().recall_at_20))


def _with_epochs(key: tuple[str, float]) -> str:
    return f"{label_of(key[0])}, {key[1]:.0f} epoch{'s' * (key[1] != 1)}"


def deadlock(results: Results) -> list[Part]:
    record = results.measured("deadlock")
    if record is None:
        return [missing("the deadlock of plain DDP", "deadlock")]
    found = pd.DataFrame(record["rows"])
    how = np.where(found.ended == found.expected, ", as expected", ", not as expected")
    columns = {
        "loader": found.loader,
        "ended": found.ended + how,
        "steps of the ranks": found.steps.map(lambda steps: ", ".join(map(str, steps))),
        "seconds": found.seconds,
        "it says": found.says,
    }
    table = rows("what", columns, "0 0 0 1", found.what.get)
    return [Exhibit("Two ranks on videos of uneven length", table, kind="words")]
