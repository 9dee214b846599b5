"""Times of an epoch: from runs one after another, or from loaders that took turns."""

from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from experiments.report.figures import Estimate, Table, command_of, estimate, ratio, rows
from experiments.report.packing import packed, paper
from experiments.report.results import Compared, Results, compare, equal_epochs
from experiments.runs import figure

MEMORY = "Peak memory is that of the GPU, on CPUs of the process."


@dataclass(frozen=True)
class Times:
    """Seconds (by run or by round) and slots of an epoch by loader."""

    name: str
    setting: str
    command: str
    frames: float
    seconds: dict[str, list[float]]
    slots: dict[str, float]
    steps: dict[str, float] | None = None
    """Of loaders that took turns."""

    @property
    def has_action_genomes_lengths(self) -> bool:
        """True if these are as many frames as Action Genome's training split has."""
        return self.frames == packed().frames["naive"]

    def faster(self, loader: str) -> Estimate | None:
        """Seconds of naive's epoch over this loader's; intervals over runs, or over rounds."""
        if not {"naive", loader} <= self.seconds.keys():
            return None
        naive, other = self.seconds["naive"], self.seconds[loader]
        in_turns = self.steps is not None
        return (
            Estimate(1.0, count=len(naive))
            if loader == "naive"
            else ratio(naive, other, paired=in_turns)
        )

    def less_work(self, loader: str) -> float | None:
        """Slots of naive's epoch over this loader's."""
        return self.slots["naive"] / self.slots[loader] if "naive" in self.slots else None

    def columns(self) -> dict[str, dict]:
        """Times faster than naive, by slots, and in the paper."""
        return {
            "times faster than naive": {name: self.faster(name) for name in self.seconds},
            "by frames processed": {name: self.less_work(name) for name in self.slots},
            "paper": dict(paper().faster),
        }


def timed_runs(results: Results) -> Compared | None:
    """The runs of `epoch_time`; without them, or with quick ones alone, those at equal epochs."""
    epochs, found = equal_epochs(results), compare(results, "epoch_time", "loader")
    return epochs if not found or (found.is_quick and epochs and not epochs.is_quick) else found


def run_times(found: Compared) -> Times:
    groups = found.main.groupby("loader", sort=False)
    seconds, slots = groups.epoch_seconds.apply(list), groups.processed.mean()
    frames, command = found.runs.total.iloc[0], command_of("epoch_time")
    return Times(found.experiment, found.setting, command, frames, dict(seconds), dict(slots))


def turn_times(results: Results) -> Times | None:
    """What ``python -m experiments.epoch_time`` measured, if naive is among it."""
    record = results.measured("epoch_turns") or {"rows": []}
    found = {str(row.get("loader")): row for row in record["rows"]}
    rounds = [row.get("seconds_a_step") for row in found.values()]
    whole = all(isinstance(one, list) and min(map(figure, one), default=0) > 0 for one in rounds)
    if "naive" not in found or not whole or len({*map(len, rounds)}) > 1 or len(rounds[0]) < 2:
        return None
    return Times(
        "loaders taking turns",
        str(record.get("setting", "")),
        str(record.get("command", "python -m experiments.epoch_time")),
        found["naive"]["frames"],
        {name: [s * row["steps"] for s in row["seconds_a_step"]] for name, row in found.items()},
        {name: row["slots"] for name, row in found.items()},
        {name: row["steps"] for name, row in found.items()},
    )


def best_times(results: Results) -> Times | None:
    """Those of loaders that took turns if there are any, else those of runs."""
    runs = timed_runs(results)
    return turn_times(results) or (run_times(runs) if runs else None)


def turns_table(times: Times) -> Table:
    """Times of loaders that took turns."""
    seconds = pd.Series({name: fmean(of) for name, of in times.seconds.items()})
    slots, steps = pd.Series(times.slots), pd.Series(times.steps)
    columns = {
        **{"slots": slots, "steps": steps, "ms a step": 1000 * seconds / steps},
        **{"seconds an epoch": seconds, "slots a second": slots / seconds},
        **times.columns(),
    }
    return Table(
        "Time of an epoch, loaders taking turns",
        rows("loader", columns, "0 0 1 1 0 3 3 2"),
        f"`{times.command}`: {times.setting}. Each loader trains a network of its own; in each of "
        f"{len(times.seconds['naive'])} rounds all work through the same share of their epochs, so "
        "that a machine whose speed varies is fair to all, and the median step counts. Intervals "
        "are over rounds.",
    )


def time_table(found: Compared, title: str) -> Table:
    """Times, throughput and memory of the runs of an experiment."""
    groups = found.main.groupby("loader", sort=False)
    columns = {
        **{"runs": found.counts(groups), "epochs": groups.epochs.sum()},
        "seconds an epoch": groups.epoch_seconds.apply(estimate),
        **run_times(found).columns(),
        "frames a second": groups.frames_per_second.mean(),
        "peak memory, MiB": groups.peak_memory_mib.mean(),
    }
    limit = "Without runs of naive there is no ratio."
    if "naive" in found.by_loader:  # the fewest frames that packing without deletion can process
        naive = found.by_loader["naive"].iloc[0]
        most = naive.processed / (-(-naive.total // naive.t_max) * naive.t_max)
        limit = "On these lengths packing that deletes nothing can process "
        limit += f"{most:.2f} times fewer frames than naive."
    return Table(
        title,
        found.with_failed(rows("loader", columns, "0 0 1 2 2 2"), "runs"),
        f"`{found.experiment}`: {found.setting}; a data set of {found.runs.total.iloc[0]:,.0f} "
        "frames. Seconds are the median epoch of a run, training alone; runs come one after "
        "another, so what else the machine does affects some and not others. Frames a second are "
        f"those trained on, without padding. {MEMORY} {limit} {found.note}",
    )
