"""The paper's claims, each reproduced, not reproduced, undecided or not tested, with figures."""

from dataclasses import dataclass

from bload.table import PAPER
from experiments.report.ablations import by_seed, starts_compared
from experiments.report.collect import Collection, Experiment, Run, is_figure
from experiments.report.document import Cell, Section, Table, Text
from experiments.report.measured import Compared, epoch_times, equal_epochs, equal_work, recalls
from experiments.report.names import LOADERS, setting
from experiments.report.packing import COMMAND, EPOCHS, packed_action_genome
from experiments.report.statistics import (
    CONFIDENCE,
    Estimate,
    difference,
    estimate,
    paired_difference,
)
from experiments.report.turns import turns

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
UNDECIDED, NOT_TESTED = "undecided", "not tested"
SLACK = 0.95
"""A speed-up is reproduced if its whole interval is above this share of the paper's least."""
TONES = {REPRODUCED: "good", NOT_REPRODUCED: "bad", UNDECIDED: "open", NOT_TESTED: "open"}


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says, the verdict, the figures and where they are from or how to get them."""

    says: str
    verdict: str
    figures: str
    command: str


def claims(collection: Collection) -> list[Claim]:
    return [
        _padding(),
        _nothing_deleted(collection),
        _faster(collection),
        _recall(equal_epochs(collection), "at equal epochs", "paper_table"),
        _recall(equal_work(collection), "at equal work", "paper_table_equal_time"),
        _starts(collection),
        _deadlock(collection),
    ]


def claims_section(collection: Collection) -> Section:
    found = claims(collection)
    rows = tuple(
        (
            Cell(claim.says),
            Cell(claim.verdict, tone=TONES[claim.verdict]),
            Cell(claim.figures),
            Cell(f"`{claim.command}`"),
        )
        for claim in found
    )
    text = (
        "A difference counts as reproduced if its whole "
        f"{100 * CONFIDENCE:.0f} % interval lies on the paper's side of 0, and the speed-up if its "
        f"whole interval is above {100 * SLACK:.0f} % of the least that the paper's whole minutes "
        "allow. With that share, or 0 for the start table, inside the interval they are undecided. "
        "Verdicts on Recall@20 are about the data and the model named, which are not the paper's "
        "unless it says so. Quick forms of experiments get none."
    )
    columns = ("the paper's claim", "verdict", "figures", "command")
    return Section(
        "claims", "The paper's claims", (Text(text), Table("Claims", columns, rows, stacks=True))
    )


def _padding() -> Claim:
    packed = packed_action_genome()
    naive, bload, exact = (packed[name] for name in ("naive", "bload", "bload_exact"))
    least, most = naive.padding / bload.padding_max, naive.padding / bload.padding_min
    mean = naive.padding / bload.padding
    return Claim(
        "over 100 times less padding than naive padding",
        REPRODUCED if mean > 100 else NOT_REPRODUCED,
        f"{naive.padding:,.0f} against {bload.padding:,.0f} padded frames on Action Genome's "
        f"training lengths: {mean:.0f} times less on average over {EPOCHS} epochs ({least:.0f} to "
        f"{most:.0f} by epoch); BLoad exact pads {exact.padding:,.0f}, "
        f"{naive.padding / exact.padding:,.0f} times less. The paper: 534,831 / 3,695 = 145.",
        COMMAND,
    )


def _nothing_deleted(collection: Collection) -> Claim:
    packed = packed_action_genome()
    runs = [
        run
        for experiment in collection.experiments
        for run in experiment.finished
        if run.loader.startswith("bload") and run.get("loader.long") != "truncate"
    ]
    lost = [run.name for run in runs if run.summary["deleted"]]
    names = {run.name for run in runs}  # one run may stand in several experiments
    deleted = packed["bload"].deleted + packed["bload_exact"].deleted
    trained = f", and in {len(names)} finished runs of BLoad here" if runs else ""
    if lost:
        trained = f", but frames are deleted in {', '.join(lost)}"
    return Claim(
        "no frame is deleted",
        NOT_REPRODUCED if deleted or lost else REPRODUCED,
        f"{deleted:,.0f} of {packed['bload'].frames:,} frames of Action Genome's training "
        f"lengths{trained}.",
        COMMAND,
    )


def _faster(collection: Collection) -> Claim:
    says = "an epoch is 4.15 times faster than with naive padding (41 against 170 minutes)"
    in_turns = turns(collection)
    command = in_turns.command if in_turns else "python train.py -m experiment=epoch_time"
    seconds = in_turns or epoch_times(collection)
    ours = seconds.faster_than_naive("bload") if seconds else None
    if seconds is None or ours is None:
        return Claim(says, NOT_TESTED, "No finished runs of naive and bload here.", command)
    naive, bload = PAPER["naive"].minutes, PAPER["bload"].minutes
    least, most = (naive - 0.5) / (bload + 0.5), (naive + 0.5) / (bload - 0.5)
    bar = SLACK * least
    exact = seconds.faster_than_naive("bload_exact")
    figures = f"{_told(ours, 2)} times faster"
    if exact:
        figures += f", BLoad exact {_told(exact, 2)}"
    figures += (
        f"; by frames processed {seconds.less_work_than_naive('bload'):.2f} ({seconds.setting}). "
    )
    if not seconds.has_action_genomes_lengths:
        figures += "Not tested on Action Genome's lengths: these have another limit."
        return Claim(says, NOT_TESTED, figures, command)
    figures += (
        f"Whole minutes allow {least:.2f} to {most:.2f}, the verdict {bar:.2f} and more. "
        "Action Genome's lengths, another machine, another model."
    )
    if ours.mean < seconds.less_work_than_naive("bload"):
        figures += " What a step computes of real frames alone, such as losses, is not saved."
    if ours.low is None:
        return Claim(says, NOT_TESTED, f"{figures} One measurement has no interval.", command)
    missed = NOT_REPRODUCED if ours.high < bar else UNDECIDED
    return Claim(says, REPRODUCED if ours.low >= bar else missed, figures, command)


def _recall(compared: Compared | None, when: str, experiment: str) -> Claim:
    theirs = PAPER["bload"].recall_at_20, PAPER["sampling"].recall_at_20
    says = f"Recall@20 of BLoad is above sampling's ({theirs[0]} against {theirs[1]})"
    if experiment != "paper_table":
        says = f"The same {when} (not in the paper)"
    command = f"python train.py -m experiment={experiment}"
    groups = compared.by_loader if compared else {}
    bload, sampling = (recalls(groups.get(name, [])) for name in ("bload", "sampling"))
    if compared is None or not bload or not sampling:
        return Claim(says, NOT_TESTED, "No finished runs of bload and sampling here.", command)
    between = difference(bload, sampling)
    figures = (
        f"{when}: {_told(estimate(bload))} against {_told(estimate(sampling))} %, "
        f"{_told(between, 1, sign=True)} points (Welch, {len(bload)} and {len(sampling)} seeds); "
        f"{compared.experiment.name}: {compared.setting}"
    )
    steps = [_steps(groups[name]) for name in ("bload", "sampling")]
    if all(steps):
        figures += f"; {steps[0]:,.0f} against {steps[1]:,.0f} optimiser steps in all"
    return Claim(
        says,
        _verdict(between, compared.experiment),
        figures + _one_seed(between) + ".",
        command,
    )


def _steps(runs: list[Run]) -> float:
    """Optimiser steps of a run, on average; 0 where summaries do not say."""
    taken = [run.summary.get("steps") for run in runs]
    if not all(map(is_figure, taken)):
        return 0.0
    return estimate([n * run.summary["epochs"] for n, run in zip(taken, runs, strict=True)]).mean


def _starts(collection: Collection) -> Claim:
    says = "the start table matters: states must be cleared where a video starts"
    command = "python train.py -m experiment=reset_ablation"
    compared = starts_compared(collection)
    if compared is None:
        return Claim(says, NOT_TESTED, "No finished runs with and without the table here.", command)
    table, ignored = compared
    of_table, of_ignored = recalls(table), recalls(ignored)
    by_chance = difference(of_table, of_ignored)
    figures = (
        f"Recall@20 with the table {_told(estimate(of_table))}, trained and evaluated with it "
        f"ignored {_told(estimate(of_ignored))} %: {_told(by_chance, 1, sign=True)} points (Welch, "
        f"{len(of_table)} and {len(of_ignored)} seeds)"
    )
    paired = paired_difference(by_seed(table), by_seed(ignored))
    if paired is None:
        return Claim(says, NOT_TESTED, f"{figures}; no seed has both.", command)
    figures += (
        f", by seed {_told(paired, 1, sign=True)} ({paired.count} pairs of the same first weights "
        f"and blocks, which decide); {setting(table[0])}{_one_seed(paired)}."
    )
    verdict = _verdict(paired, collection.find("reset_ablation"))
    if verdict == NOT_REPRODUCED and paired.high > 0:
        verdict = UNDECIDED
    return Claim(says, verdict, figures, command)


def _deadlock(collection: Collection) -> Claim:
    says = "no deadlock: plain DDP on uneven videos waits for ever, packed blocks do not"
    command = "python train.py experiment=deadlock"
    experiment = collection.find("deadlock")
    rows = experiment.rows if experiment else ()
    plain = [row for row in rows if row.get("what") == "plain DDP"]
    packed = {row["loader"]: row.get("ended") for row in rows if row.get("loader") in LOADERS}
    if not plain or not packed:
        return Claim(says, NOT_TESTED, "No finished deadlock experiment here.", command)
    hangs = all(row.get("ended") == "timed out" for row in plain)
    ends = all(how == "finished" for how in packed.values())
    figures = (
        f"Plain DDP {', '.join(str(row.get('ended')) for row in plain)}; "
        f"{sum(how == 'finished' for how in packed.values())} of {len(packed)} loaders finished."
    )
    if experiment.is_quick:
        return Claim(says, NOT_TESTED, f"{figures} Quick forms get no verdict.", command)
    return Claim(says, REPRODUCED if hangs and ends else NOT_REPRODUCED, figures, command)


def _verdict(between: Estimate, experiment: Experiment) -> str:
    if between.low is None or experiment.is_quick:
        return NOT_TESTED
    return REPRODUCED if between.low > 0 else NOT_REPRODUCED


def _one_seed(between: Estimate) -> str:
    return "" if between.has_interval else "; one seed has no interval, train more"


def _told(figure: Estimate, digits: int = 1, *, sign: bool = False) -> str:
    form = f"{'+' if sign else ''}.{digits}f"
    if figure.low is None:
        return format(figure.mean, form)
    return f"{figure.mean:{form}} [{figure.low:{form}}, {figure.high:{form}}]"
