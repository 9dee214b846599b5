"""Times of an epoch: from runs one after another, or from loaders that took turns."""

from dataclasses import dataclass

import pandas as pd

from experiments.report.exhibits import Estimate, Exhibit, estimate, note, ratio, rows
from experiments.report.packing import packed, paper
from experiments.report.results import Compared, Results, compare, equal_epochs


@dataclass(frozen=True)
class Times:
    """Epochs of loaders on one data set.

    Attributes: `epochs` has `loader`, `seconds` and `slots` of an epoch and the data set's `total`
    frames, a row per run or round; `paired` if loaders took turns, so that rounds may be compared
    one by one.
    """

    setting: str
    epochs: pd.DataFrame
    paired: bool = False

    @property
    def has_action_genomes_lengths(self) -> bool:
        """True if these are as many frames as Action Genome's training split has."""
        return self.epochs.total.iloc[0] == packed().frames["naive"]

    def faster(self) -> dict[str, Estimate]:
        """Seconds of naive's epoch over those of each loader; empty without naive."""
        seconds = {name: [*of] for name, of in self.epochs.groupby("loader", sort=False).seconds}
        if "naive" not in seconds:
            return {}
        naive = seconds.pop("naive")
        others = {name: ratio(naive, of, paired=self.paired) for name, of in seconds.items()}
        return {"naive": Estimate(1.0), **others}

    def columns(self) -> dict[str, dict]:
        """Times faster than naive, by slots, and in the paper."""
        slots = self.epochs.groupby("loader", sort=False).slots.mean()
        return {
            "times faster than naive": self.faster(),
            "by frames processed": slots.get("naive", float("nan")) / slots,
            "paper": paper().faster,
        }


def timed_runs(results: Results) -> Compared | None:
    """The runs of `epoch_time`; without them, or with quick ones alone, those at equal epochs."""
    epochs, found = equal_epochs(results), compare(results, "epoch_time", "loader")
    return epochs if not found or (found.is_quick and epochs and not epochs.is_quick) else found


def run_times(found: Compared) -> Times:
    epochs = found.main.rename(columns={"epoch_seconds": "seconds", "processed": "slots"})
    return Times(f"`{found.experiment}`, {found.setting}", epochs)


def turn_times(results: Results) -> Times | None:
    """The times by ``python -m experiments.epoch_time``, if naive is among them."""
    record = results.measured("epoch_turns") or {"rows": []}
    if not any(row["loader"] == "naive" for row in record["rows"]):
        return None
    epochs = pd.DataFrame(record["rows"]).rename(columns={"frames": "total"})
    epochs = epochs.explode("seconds_a_step")
    epochs["seconds"] = epochs.seconds_a_step.astype(float) * epochs.steps
    return Times(f"`{record['command']}`, {record['setting']}", epochs, paired=True)


def best_times(results: Results) -> Times | None:
    """Those of loaders that took turns if there are any, else those of runs."""
    runs = timed_runs(results)
    return turn_times(results) or (run_times(runs) if runs else None)


def turns_table(times: Times) -> Exhibit:
    """Times of loaders that took turns."""
    mean = times.epochs.groupby("loader", sort=False)[["slots", "steps", "seconds"]].mean()
    columns = {
        **{"slots": mean.slots, "steps": mean.steps},
        "ms per step": 1000 * mean.seconds / mean.steps,
        "seconds per epoch": mean.seconds,
        "slots per second": mean.slots / mean.seconds,
        **times.columns(),
    }
    table = rows("loader", columns, "0 0 1 1 0 3 3 2")
    return Exhibit("Time of an epoch, loaders taking turns", table, note("turns", times))


def time_table(found: Compared) -> Exhibit:
    """Times, throughput and memory of the runs of an experiment."""
    groups = found.main.groupby("loader", sort=False)
    columns = {
        **{"runs": groups.size(), "epochs": groups.epochs.sum()},
        "seconds per epoch": groups.epoch_seconds.apply(estimate),
        **run_times(found).columns(),
        "frames per second": groups.frames_per_second.mean(),
        "peak memory, MiB": groups.peak_memory_mib.mean(),
    }
    title = f"Time of an epoch with model={found.runs['model.name'].iloc[0]}"
    return Exhibit(title, rows("loader", columns, "0 0 1 2 2 2"), note("times", found))
