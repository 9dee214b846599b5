"""The paper's claims, each reproduced, not reproduced, undecided or not tested, with figures."""

from collections.abc import Callable
from dataclasses import dataclass

from bload.packers import PACKERS
from bload.table import PAPER
from experiments.report.ablations import by_value
from experiments.report.figures import (
    CONFIDENCE,
    Block,
    Cell,
    Estimate,
    Table,
    command_of,
    difference,
    estimate,
)
from experiments.report.packing import COMMAND, EPOCHS, packed
from experiments.report.results import Compared, Results, compare, equal_epochs, equal_work
from experiments.report.times import best_times

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
UNDECIDED, NOT_TESTED = "undecided", "not tested"
SLACK = 0.95
"""A speed-up is reproduced if its whole interval is above this share of the paper's least."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says, the verdict, the figures and where they are from or how to get them."""

    says: str
    verdict: str
    figures: str
    command: str


def claims(results: Results) -> list[Claim]:
    """Every claim, judged by what is in a folder."""
    judged = ((says, command, judge(results)) for says, (command, judge) in CLAIMS.items())
    return [Claim(says, verdict, text, command) for says, command, (verdict, text) in judged]


def verdicts(results: Results) -> list[Block]:
    """A row per claim."""
    text = (
        f"A difference counts as reproduced if its whole {100 * CONFIDENCE:.0f} % interval lies on "
        "the paper's side of 0, and the speed-up if its whole interval is above "
        f"{100 * SLACK:.0f} % of the least that the paper's whole minutes allow. With that share, "
        "or 0 for the start table, inside the interval they are undecided. Verdicts on Recall@20 "
        "are about the data and the model named, which are not the paper's unless it says so. "
        "Quick forms of experiments get none."
    )
    found = [
        {"the paper's claim": one.says, "verdict": one.verdict, "figures": one.figures}
        | {"command": f"`{one.command}`"}
        for one in claims(results)
    ]
    cells = [{name: Cell(of) for name, of in row.items()} for row in found]
    return [Table("Claims", cells, text, kind="cards")]


def _padding(results: Results) -> tuple[str, str]:
    naive, bload, exact = (packed().loc[name] for name in ("naive", "bload", "bload_exact"))
    counts = (bload.padding_max, bload.padding, bload.padding_min)
    least, mean, most = (naive.padding / of for of in counts)
    return REPRODUCED if mean > 100 else NOT_REPRODUCED, (
        f"{naive.padding:,.0f} against {bload.padding:,.0f} padded frames on Action Genome's "
        f"training lengths: {mean:.0f} times less on average over {EPOCHS} epochs ({least:.0f} to "
        f"{most:.0f} by epoch); BLoad exact pads {exact.padding:,.0f}, "
        f"{naive.padding / exact.padding:,.0f} times less. The paper: 534,831 / 3,695 = 145."
    )


def _nothing_deleted(results: Results) -> tuple[str, str]:
    exact, runs = packed().loc[["bload", "bload_exact"]], results.finished
    runs = runs[runs.loader.str.startswith("bload") & ~runs.loader.str.contains("long=truncate")]
    lost = runs.run[runs.deleted > 0]
    # one run may stand in several experiments
    trained = f", and in {runs.run.nunique()} finished runs of BLoad here" if len(runs) else ""
    if len(lost):
        trained = f", but frames are deleted in {', '.join(lost)}"
    return NOT_REPRODUCED if exact.deleted.sum() or len(lost) else REPRODUCED, (
        f"{exact.deleted.sum():,.0f} of {exact.frames['bload']:,.0f} frames of Action Genome's "
        f"training lengths{trained}."
    )


def _faster(results: Results) -> tuple[str, str]:
    times = best_times(results)
    ours = times.faster("bload") if times else None
    if times is None or ours is None:
        return NOT_TESTED, "No finished runs of naive and bload here."
    naive, bload = PAPER["naive"].minutes, PAPER["bload"].minutes
    least, most = (naive - 0.5) / (bload + 0.5), (naive + 0.5) / (bload - 0.5)
    bar, exact, work = SLACK * least, times.faster("bload_exact"), times.less_work("bload")
    text = f"{ours.text('2')} times faster"
    text += f", BLoad exact {exact.text('2')}" if exact else ""
    text += f"; by frames processed {work:.2f} (`{times.command}`: {times.setting}). "
    if not times.has_action_genomes_lengths:
        text += "Not tested on Action Genome's lengths: these have another limit."
        return NOT_TESTED, text
    text += f"Whole minutes allow {least:.2f} to {most:.2f}, the verdict {bar:.2f} and more. "
    text += "Action Genome's lengths, another machine, another model."
    if ours.mean < work:
        text += " What a step computes of real frames alone, such as losses, is not saved."
    if ours.low is None or ours.high is None:
        return NOT_TESTED, f"{text} One measurement has no interval."
    missed = UNDECIDED if ours.high >= bar else NOT_REPRODUCED
    return REPRODUCED if ours.low >= bar else missed, text


def _recall(when: str, found: Compared | None) -> tuple[str, str]:
    """BLoad's Recall@20 less sampling's: above 0 or not reproduced, as planned beforehand."""
    groups = found.by_loader if found else {}
    if found is None or not {"bload", "sampling"} <= groups.keys():
        return NOT_TESTED, "No finished runs of bload and sampling here."
    runs = groups["bload"], groups["sampling"]
    between = difference(*(of.recall for of in runs))
    bload, sampling = (estimate(of.recall).text() for of in runs)
    text = (
        f"at {when}: {bload} against {sampling} %, {between.text('+1')} points (Welch, "
        f"{len(runs[0])} and {len(runs[1])} seeds); {found.experiment}: {found.setting}"
    )
    steps = [(of.steps * of.epochs).mean() for of in runs]
    if all(taken > 0 for taken in steps):
        text += f"; {steps[0]:,.0f} against {steps[1]:,.0f} optimiser steps in all"
    return _verdict(between, found), text + _one_seed(between)


def _starts(results: Results) -> tuple[str, str]:
    found = compare(results, "reset_ablation", "train.starts")
    values = by_value(found, "reset_ablation") if found else {}
    if found is None or not {"table", "ignored"} <= values.keys():
        return NOT_TESTED, "No finished runs with and without the table here."
    table, ignored = values["table"], values["ignored"]
    between, pairs = difference(table, ignored), estimate(table - ignored)
    text = (
        f"Recall@20 with the table {estimate(table).text()}, trained and evaluated with it ignored "
        f"{estimate(ignored).text()} %: {between.text('+1')} points (Welch, {len(table)} and "
        f"{len(ignored)} seeds)"
    )
    if pairs is None:
        return NOT_TESTED, f"{text}; no seed has both."
    text += (
        f", by seed {pairs.text('+1')} ({pairs.count} pairs of the same first weights and blocks, "
        f"which decide); {found.setting}{_one_seed(pairs)}"
    )
    verdict = _verdict(pairs, found)
    undecided = verdict == NOT_REPRODUCED and pairs.high > 0
    return UNDECIDED if undecided else verdict, text


def _deadlock(results: Results) -> tuple[str, str]:
    record = results.measured("deadlock") or {"rows": []}
    plain = [str(row.get("ended")) for row in record["rows"] if row.get("what") == "plain DDP"]
    packed = [row.get("ended") for row in record["rows"] if str(row.get("loader")) in PACKERS]
    if not plain or not packed:
        return NOT_TESTED, "No finished deadlock experiment here."
    ended = packed.count("finished")
    text = f"Plain DDP {', '.join(plain)}; {ended} of {len(packed)} loaders finished."
    if record["name"].endswith("_quick"):
        return NOT_TESTED, f"{text} Quick forms get no verdict."
    holds = {*plain} == {"timed out"} and ended == len(packed)
    return REPRODUCED if holds else NOT_REPRODUCED, text


def _verdict(between: Estimate, found: Compared) -> str:
    if between.low is None or found.is_quick:
        return NOT_TESTED
    return REPRODUCED if between.low > 0 else NOT_REPRODUCED


def _one_seed(between: Estimate) -> str:
    return "." if between.low is not None else "; one seed has no interval, train more."


CLAIMS: dict[str, tuple[str, Callable[[Results], tuple[str, str]]]] = {
    "over 100 times less padding than naive padding": (COMMAND, _padding),
    "no frame is deleted": (COMMAND, _nothing_deleted),
    "an epoch is 4.15 times faster than with naive padding (41 against 170 minutes)": (
        command_of("epoch_time"),
        _faster,
    ),
    "Recall@20 of BLoad is above sampling's (43.3 against 41.2)": (
        command_of("paper_table"),
        lambda results: _recall("equal epochs", equal_epochs(results)),
    ),
    "the same at equal work (not in the paper)": (
        command_of("paper_table_equal_time"),
        lambda results: _recall("equal work", equal_work(results)),
    ),
    "the start table matters: states must be cleared where a video starts": (
        command_of("reset_ablation"),
        _starts,
    ),
    "no deadlock: plain DDP on uneven videos waits for ever, packed blocks do not": (
        command_of("deadlock"),
        _deadlock,
    ),
}
"""Claim -> the command that tests it, and what gives a verdict and the figures behind it."""
