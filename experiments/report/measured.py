"""What the runs of the paper's table say about each loader."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.report.collect import Collection, Experiment, Run, is_figure
from experiments.report.comparison import Comparable, comparable
from experiments.report.document import NOTHING, Cell, number
from experiments.report.names import setting
from experiments.report.packing import packed_action_genome
from experiments.report.statistics import Estimate, estimate, ratio

EXPERIMENTS = (
    *("paper_table", "paper_table_equal_time", "epoch_time", "full_size", "tmax_sweep"),
    *("reset_ablation", "padding_ablation", "temporal", "length_variance", "deadlock"),
)
MEMORY_OF = "Peak memory is that of the GPU, on CPUs of the process."
WITH, NO, MEMORY = "with/recall@20", "no/recall@20", "with/recall@20_memory"


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparable runs by loader, and the experiment they are of."""

    experiment: Experiment
    runs: Comparable
    stand_ins: tuple[Run, ...] = ()
    """Runs of another experiment that are what loaders without runs here would have trained."""

    @property
    def slots(self) -> int | None:
        """What `train.slots` gave most runs; None at equal epochs."""
        given = Counter(run.get("train.slots") for run in self.runs.runs)
        return max(given, key=lambda slots: (given[slots], -(slots or 0)))

    @property
    def by_loader(self) -> dict[str, list[Run]]:
        """Loader -> runs; at equal work those of the slots that most runs were given."""
        groups = self.runs.by(lambda run: (run.loader, run.get("train.slots")))
        found = {loader: runs for (loader, given), runs in groups.items() if given == self.slots}
        return found | Comparable(self.stand_ins, ()).by(lambda run: run.loader)

    @property
    def failed(self) -> dict[str, list[Run]]:
        """Loader -> runs of the experiment that failed."""
        groups: dict[str, list[Run]] = {}
        for run in self.experiment.runs:
            if run.state == "failed":
                groups.setdefault(_loader_of_failed(run), []).append(run)
        return groups

    @property
    def is_synthetic(self) -> bool:
        return self.runs.runs[0].get("dataset.name") == "synthetic"

    @property
    def has_action_genomes_lengths(self) -> bool:
        """Whether these are as many frames as Action Genome's training split has."""
        return self.runs.runs[0].frames == packed_action_genome()["naive"].frames

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def setting(self) -> str:
        return setting(self.runs.runs[0])

    def recall(self, loader: str, key: str = WITH) -> Estimate | None:
        """Percent over the seeds of a loader; None without runs or without the figure."""
        values = recalls(self.by_loader.get(loader, []), key)
        return estimate(values) if values else None

    def faster_than_naive(self, loader: str) -> Estimate | None:
        """Seconds of naive's epoch over this loader's: medians of epochs, intervals over runs."""
        groups = self.by_loader
        if "naive" not in groups or loader not in groups:
            return None
        if loader == "naive":
            return Estimate(1.0, None, None, None, len(groups["naive"]))
        naive, other = (
            [run.summary["epoch_seconds"] for run in groups[name]] for name in ("naive", loader)
        )
        return ratio(naive, other)

    def less_work_than_naive(self, loader: str) -> float | None:
        """Slots of naive's epoch over this loader's."""
        groups = self.by_loader
        if "naive" not in groups or loader not in groups:
            return None
        naive, other = (
            estimate([run.summary["processed"] for run in groups[name]]).mean
            for name in ("naive", loader)
        )
        return naive / other


def recalls(runs: Sequence[Run], key: str = WITH) -> list[float]:
    """That figure of every run that has it, in percent."""
    return [value for run in runs if (value := run.percent(key)) is not None]


def _loader_of_failed(run: Run) -> str:
    """A run that failed early has no config; the sweep's overrides may say what it was."""
    loader = run.config.get("loader")
    if isinstance(loader, dict) and isinstance(loader.get("name"), str):
        return run.loader
    given = [one.partition("=")[2] for one in run.overrides if one.startswith("loader=")]
    return given[0] if given else "unknown"


def count_of(runs: Sequence[Run], failed: Sequence[Run]) -> Cell:
    """How many runs stand behind a figure, and how many failed."""
    return Cell(f"{len(runs)} ({len(failed)} failed)", len(runs)) if failed else number(len(runs))


def mean_figure(runs: Sequence[Run], key: str) -> Cell:
    """The mean of a figure that summaries may lack."""
    values = [run.summary[key] for run in runs if is_figure(run.summary.get(key))]
    return number(estimate(values).mean) if values else NOTHING


def equal_epochs(collection: Collection) -> Compared | None:
    """The runs of `paper_table`; without them runs of no experiment that compare loaders."""
    experiment = collection.find("paper_table") or _plain(collection)
    return _compared(experiment, "loader")


def equal_work(collection: Collection) -> Compared | None:
    """The runs of `paper_table_equal_time`, whose number of epochs depends on the loader.

    For a loader without runs there, those at equal epochs stand in if their number of epochs is
    the one nearest to the same slots.
    """
    free = ("loader", "train.epochs", "train.slots", "train.warmup_epochs")
    compared = _compared(collection.find("paper_table_equal_time"), *free)
    epochs = equal_epochs(collection)
    if compared is None or epochs is None or compared.slots is None:
        return compared
    stand_ins = tuple(
        run
        for run in compared.runs.alike(epochs.runs.runs, *free)
        if run.loader not in compared.by_loader
        and run.summary["epochs"] == max(1, round(compared.slots / run.summary["processed"]))
    )
    return replace(compared, stand_ins=stand_ins)


def epoch_times(collection: Collection) -> Compared | None:
    """The runs of `epoch_time`; without them, or with quick ones alone, those at equal epochs."""
    epochs = equal_epochs(collection)
    times = _compared(collection.find("epoch_time"), "loader")
    if times is None or (times.experiment.is_quick and epochs and not epochs.experiment.is_quick):
        return epochs
    return times


def full_size(collection: Collection) -> Compared | None:
    """The runs of `full_size`: the paper's model, meant for a GPU."""
    return _compared(collection.find("full_size"), "loader")


def _compared(experiment: Experiment | None, *free: str) -> Compared | None:
    if experiment is None or not experiment.finished:
        return None
    return Compared(experiment, comparable(experiment.finished, *free))


def _plain(collection: Collection) -> Experiment | None:
    """The first folder of runs that is none of the known experiments and has several loaders."""
    for experiment in collection.experiments:
        if experiment.name.removesuffix("_quick") in EXPERIMENTS:
            continue
        if len({run.loader for run in comparable(experiment.finished, "loader").runs}) > 1:
            return experiment
    return None
