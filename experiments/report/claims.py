"""The paper's claims, each with a verdict and the figures behind it."""

from collections.abc import Callable
from functools import partial
from math import isnan

from bload.packers import PACKERS
from bload.paper import PAPER
from experiments.report.exhibits import Cell, Estimate, Exhibit, command_of, estimate, note
from experiments.report.horizon import side, worth_of_starts
from experiments.report.packing import COMMAND, packed, paper
from experiments.report.plots import by_value
from experiments.report.results import Compared, Results, compare, equal_epochs, equal_work
from experiments.report.times import best_times

REPRODUCED, NEAR, NOT_REPRODUCED = "reproduced", "within 5 %", "not reproduced"
UNDECIDED, NOT_TESTED = "undecided", "not tested"
NEAREST = 0.95
"""A speed-up is near the paper's if its whole interval is above this share of it."""
JUDGED = {"above": REPRODUCED, "below": NOT_REPRODUCED, "undecided": UNDECIDED, "-": NOT_TESTED}
"""Side of 0 -> verdict."""
NOTHING = "No finished runs of {} here.".format


def claims(results: Results) -> Exhibit:
    """A row per claim with its verdict, the figures behind it and what tests it."""
    found = []
    for says, (command, judge) in CLAIMS.items():
        verdict, figures = judge(results)
        row = {"the paper's claim": says, "verdict": verdict, "figures": figures}
        row |= {"command": f"`{command}`"}
        found.append({name: Cell(text) for name, text in row.items()})
    return Exhibit("Claims", found, note("rules", NEAREST), kind="cards")


def _verdict(holds: bool) -> str:
    return REPRODUCED if holds else NOT_REPRODUCED


def _above(found: Estimate, bar: float = 0.0) -> str:
    """Judge if the whole interval is above a bar; with the bar inside it is undecided."""
    if isnan(found.low):
        return NOT_TESTED
    return UNDECIDED if found.low <= bar < found.high else _verdict(found.low > bar)


def _as_planned(found: Estimate) -> str:
    """Judge as was written down before any run: with 0 inside it is not reproduced."""
    return NOT_TESTED if isnan(found.low) else _verdict(found.low > 0)


def _padding(results: Results) -> tuple[str, str]:
    """By packing alone, but only beside epochs of BLoad on the lengths that it packs."""
    naive, bload, exact = (packed().loc[name] for name in ("naive", "bload", "bload_exact"))
    times = best_times(results)
    if not times or not times.has_action_genomes_lengths or "bload" not in {*times.epochs.loader}:
        return NOT_TESTED, "No epochs of bload on Action Genome's lengths here."
    most, least = (naive.padding / bload[key] for key in ("padding_min", "padding_max"))
    text = note("padding", naive, bload, exact, paper().padding)
    return _above(Estimate(naive.padding / bload.padding, least, most), 100), text


def _nothing_deleted(results: Results) -> tuple[str, str]:
    exact, runs = packed().loc[["bload", "bload_exact"]], results.finished
    runs = runs[runs.loader.str.startswith("bload") & ~runs.loader.str.contains("long=truncate")]
    count, lost = exact.deleted.sum(), [*runs.run[runs.deleted > 0]]
    if runs.empty or (results.are_own and not lost):  # no packer of the name can delete one
        return NOT_TESTED, NOTHING("bload in paper_table")
    # one run may stand in several experiments
    text = note("deleted", count, exact.frames["bload"], runs.run.nunique(), lost)
    return _verdict(not count and not lost), text


def _minutes(naive: float, bload: float) -> float:
    """The paper's speed-up if its whole minutes are that much off."""
    return ((PAPER["naive"].minutes or 0) + naive) / ((PAPER["bload"].minutes or 0) + bload)


def _faster(results: Results) -> tuple[str, str]:
    times = best_times(results)
    faster = times.faster() if times else {}
    if times is None or "bload" not in faster:
        return NOT_TESTED, NOTHING("naive and bload")
    theirs, ours = _minutes(0, 0), faster["bload"]
    work = times.columns()["by frames processed"]["bload"]
    text = note("faster", times, faster, work, theirs, _minutes(-0.5, 0.5), _minutes(0.5, -0.5))
    if not times.has_action_genomes_lengths:
        return NOT_TESTED, text
    near = NEAREST * theirs < ours.low < theirs
    return NEAR if near else _above(ours, theirs if ours.low >= theirs else NEAREST * theirs), text


def _recall(
    choose: Callable[[Results], Compared | None],
    judge: Callable[[Estimate], str],
    results: Results,
) -> tuple[str, str]:
    """BLoad's Recall@20 less sampling's."""
    found = choose(results)
    groups = found.by_loader if found else {}
    if found is None or not {"bload", "sampling"} <= groups.keys():
        return NOT_TESTED, NOTHING("bload and sampling")
    runs = [groups["bload"], groups["sampling"]]
    between = estimate(*(of.recall for of in runs))
    steps = [(of.steps * of.epochs).mean() for of in runs]
    reached = [estimate(of.recall) for of in runs]
    text = note("recalls", found, *reached, between, [*map(len, runs)], steps)
    return NOT_TESTED if found.is_quick else judge(between), text


def _starts(results: Results) -> tuple[str, str]:
    """By the pairs that were planned, of `horizon`; without them by groups of `reset_ablation`."""
    verdict, text = _starts_by_groups(results)
    if worth := worth_of_starts(results):
        sides = {side(of) for of in worth.values()}
        verdict = JUDGED[sides.pop()] if len(sides) == 1 else UNDECIDED
        text = f"{note('worth_of_starts', worth)} {text}"
    return verdict, text


def _starts_by_groups(results: Results) -> tuple[str, str]:
    found = compare(results, "reset_ablation", "train.starts")
    values = by_value(found, "reset_ablation") if found else {}
    if found is None or not {"table", "ignored"} <= values.keys():
        return NOT_TESTED, NOTHING("bload with and without the table")
    table, ignored = values["table"], values["ignored"]
    between, figures = estimate(table, ignored), map(estimate, (table, ignored))
    text = note("starts", found, *figures, between, estimate(table - ignored))
    return NOT_TESTED if found.is_quick else _above(between), text


def _deadlock(results: Results) -> tuple[str, str]:
    record = results.measured("deadlock")
    if record is None:
        return NOT_TESTED, "The experiment has not been run here."
    plain = [row["ended"] for row in record["rows"] if row["what"] == "plain DDP"]
    blocks = [row["ended"] for row in record["rows"] if row["loader"] in PACKERS]
    ended, quick = blocks.count("finished"), record["name"].endswith("_quick")
    verdict = _verdict({*plain} == {"timed out"} and ended == len(blocks))
    return NOT_TESTED if quick else verdict, note("deadlock", plain, ended, len(blocks), quick)


PAPERS = " against ".join(str(PAPER[name].recall_at_20) for name in ("bload", "sampling"))
CLAIMS: dict[str, tuple[str, Callable[[Results], tuple[str, str]]]] = {
    "over 100 times less padding than naive padding": (COMMAND, _padding),
    "no frame is deleted": (COMMAND, _nothing_deleted),
    f"an epoch is about {_minutes(0, 0):.2f} times faster than with naive padding": (
        command_of("epoch_time"),
        _faster,
    ),
    f"Recall@20 of BLoad is above sampling's ({PAPERS} on Action Genome)": (
        command_of("paper_table"),
        partial(_recall, equal_epochs, _as_planned),
    ),
    "the same at equal work (not in the paper)": (
        command_of("paper_table_equal_time"),
        partial(_recall, equal_work, _above),
    ),
    "the start table matters: states must be cleared where a video starts": (
        command_of("start_table"),
        _starts,
    ),
    "no deadlock: plain DDP on uneven videos waits for ever, packed blocks do not": (
        command_of("deadlock"),
        _deadlock,
    ),
}
"""Claim -> the command that tests it, and what gives a verdict and the figures behind it."""
