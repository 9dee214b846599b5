"""Epoch times of loaders that took turns: ``experiments/epoch_time.py``."""

from dataclasses import dataclass

from bload.table import PAPER, PaperRow
from experiments.report.collect import Collection, is_figure
from experiments.report.document import NOTHING, Cell, Table, interval, number
from experiments.report.names import in_order, loader_name
from experiments.report.packing import packed_action_genome
from experiments.report.statistics import Estimate, ratio_of_pairs


@dataclass(frozen=True, slots=True)
class Turns:
    """Loader -> its row: slots and steps of an epoch, seconds a step by round."""

    rows: dict[str, dict]
    frames: int
    setting: str
    command: str
    name: str = "loaders taking turns"

    @property
    def has_action_genomes_lengths(self) -> bool:
        return self.frames == packed_action_genome()["naive"].frames

    def seconds(self, loader: str) -> float:
        """Of an epoch: a step's, the mean over rounds, times the steps."""
        row = self.rows[loader]
        return sum(row["seconds_a_step"]) / len(row["seconds_a_step"]) * row["steps"]

    def faster_than_naive(self, loader: str) -> Estimate | None:
        """Seconds of naive's epoch over this loader's, round by round."""
        if loader not in self.rows or "naive" not in self.rows:
            return None
        if loader == "naive":
            return Estimate(1.0, None, None, None, len(self.rows["naive"]["seconds_a_step"]))
        naive, other = (
            [seconds * self.rows[name]["steps"] for seconds in self.rows[name]["seconds_a_step"]]
            for name in ("naive", loader)
        )
        return ratio_of_pairs(naive, other)

    def less_work_than_naive(self, loader: str) -> float:
        """Slots of naive's epoch over this loader's."""
        return self.rows["naive"]["slots"] / self.rows[loader]["slots"]


def turns(collection: Collection) -> Turns | None:
    """What was measured in turns, if naive is among it."""
    experiment = collection.find("epoch_turns")
    rows = {str(row.get("loader")): row for row in experiment.rows} if experiment else {}
    if "naive" not in rows or not all(map(_is_complete, rows.values())):
        return None
    if len({len(row["seconds_a_step"]) for row in rows.values()}) > 1:
        return None
    record = experiment.record
    command = str(record.get("command", "python -m experiments.epoch_time"))
    return Turns(rows, rows["naive"]["frames"], str(record.get("setting", "")), command)


def _is_complete(row: dict) -> bool:
    rounds = row.get("seconds_a_step")
    return (
        isinstance(rounds, list)
        and len(rounds) > 1
        and all(is_figure(seconds) and seconds > 0 for seconds in rounds)
        and all(is_figure(row.get(key)) and row[key] > 0 for key in ("slots", "steps", "frames"))
    )


def turns_table(found: Turns) -> Table:
    """Seconds an epoch and how many times faster than naive each loader is."""
    rows = []
    for loader in in_order(found.rows):
        row = found.rows[loader]
        minutes = PAPER.get(loader, PaperRow()).minutes
        seconds = found.seconds(loader)
        rows.append(
            (
                Cell(loader_name(loader)),
                number(row["slots"]),
                number(row["steps"]),
                number(1000 * seconds / row["steps"], 1),
                number(seconds, 1),
                number(row["slots"] / seconds),
                interval(found.faster_than_naive(loader), 3),
                number(found.less_work_than_naive(loader), 3),
                number(PAPER["naive"].minutes / minutes, 2) if minutes else NOTHING,
            )
        )
    rounds = len(found.rows["naive"]["seconds_a_step"])
    return Table(
        "Time of an epoch, loaders taking turns",
        (
            *("loader", "slots", "steps", "ms a step", "seconds an epoch", "slots a second"),
            *("times faster than naive", "by frames processed", "paper"),
        ),
        tuple(rows),
        f"`{found.command}`: {found.setting}. Each loader trains a network of its own; in each of "
        f"{rounds} rounds all work through the same share of their epochs, so that a machine whose "
        "speed varies is fair to all, and the median step counts. Intervals are over rounds.",
    )
