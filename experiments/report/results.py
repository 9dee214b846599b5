"""What a folder holds, and which of its runs may be compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from bload.draw import label_of
from bload.packers import PACKERS
from experiments.config import LoaderConfig, TrainJob, loader_schema
from experiments.report.figures import Cell, Rows
from experiments.runs import (
    experiment_folders,
    figure,
    read_epochs,
    read_record,
    read_runs,
    wrong_figures,
)

NAMES = ["experiment", "run"]
EXPERIMENTS = (
    *("paper_table", "paper_table_equal_time", "epoch_time", "full_size", "tmax_sweep"),
    *("reset_ablation", "padding_ablation", "temporal", "length_variance", "deadlock"),
)
MEASURED: dict[str, tuple[str, ...]] = {
    "deadlock": (),
    "length_variance": ("longest", "t_max", "frames", "padding", "deleted", "processed"),
    "epoch_turns": ("slots", "steps", "frames"),
}
"""Experiments that are a JSON file of rows, and the figures that every row must have."""
SECONDS = ("seconds", "plan_seconds", "epoch_seconds", "blocks", "lower_bound_padding")
"""Figures that a row may have."""
PERCENT = {
    **{"recall": "with/recall@20", "no": "no/recall@20", "memory": "with/recall@20_memory"},
    "remembering observer": "remembering/recall@20_memory",
    "memoryless observer": "memoryless/recall@20_memory",
}
"""Columns in percent, and the shares that they are made from."""


@dataclass(frozen=True)
class Results:
    """Everything in a folder.

    Attributes: `runs` as `read_runs` has them, with `loader` (``bload t_max=64``), `total` frames
    and the columns of `PERCENT`; `epochs` as `read_epochs` has them, with `seconds` and `processed`
    since the start of the run; `records`, what made runs (`kind` is experiment) or rows (one of
    `MEASURED`); `damaged`, files with what is wrong with them.
    """

    folder: Path
    runs: pd.DataFrame
    epochs: pd.DataFrame
    records: list[dict[str, Any]]
    damaged: dict[str, str]

    @property
    def finished(self) -> pd.DataFrame:
        return self.runs[self.runs.state == "finished"]

    def measured(self, kind: str) -> dict[str, Any] | None:
        """The record with the rows of an experiment, or of its quick form."""
        found = [one for one in self.records if one["kind"] == kind and one["rows"]]
        return min(found, key=lambda record: record["name"].endswith("_quick"), default=None)


@dataclass(frozen=True)
class Compared:
    """Finished runs of one experiment that are alike in all but the seed and what is compared."""

    experiment: str
    runs: pd.DataFrame
    """By loader, epochs and seed; `extra` marks those for more or fewer slots than most."""
    others: int
    """Runs of other settings, which are left out."""
    failed: pd.DataFrame

    @property
    def main(self) -> pd.DataFrame:
        return self.runs[~self.runs.extra]

    @property
    def by_loader(self) -> dict[str, pd.DataFrame]:
        return dict(iter(self.main.groupby("loader", sort=False)))

    @property
    def is_quick(self) -> bool:
        return self.experiment.endswith("_quick")

    @property
    def setting(self) -> str:
        """Data, model and machine kind."""
        run = self.runs.iloc[0]
        known = {"synthetic": "synthetic data", "action_genome": "Action Genome"}
        data, videos = run["dataset.name"], run["dataset.train_videos"]
        pixels = run["dataset.image_size"]
        size = f" ({videos:,.0f} training videos)" if videos > 0 else ""
        size += f" of {pixels:.0f} pixels" if pixels > 0 else ""
        ranks = "1 rank" if run.ranks == 1 else f"{run.ranks:.0f} ranks"
        where = f"model {run['model.name']}, {ranks} on {run.device}"
        return f"{known.get(data, data)}{size}, {where}"

    @property
    def note(self) -> str:
        are = "run stands" if self.others == 1 else "runs stand"
        text = f"{self.others} {are} apart, in the list of runs: other settings than most here."
        return text if self.others else ""

    def counts(self, groups) -> dict[Any, Any]:
        """How many runs there are of each group, and how many of its loader failed."""
        failed = {key: sum(self.failed.loader == runs.loader.iloc[0]) for key, runs in groups}
        return {
            key: Cell(f"{len(runs)} ({failed[key]} failed)") if failed[key] else len(runs)
            for key, runs in groups
        }

    def with_failed(self, table: Rows, heading: str) -> Rows:
        """A table of loaders, and below it those all of whose runs failed, with the reason."""
        lost = self.failed[~self.failed.loader.isin(self.runs.loader)].drop_duplicates("loader")
        empty = dict.fromkeys(table[0], Cell("-"))
        return table + [
            empty | {"loader": Cell(label_of(run.loader)), heading: Cell(f"failed: {run.says}")}
            for run in lost.itertuples()
        ]


def read_results(folder: Path | str) -> Results:
    """Read whatever is in a folder. Raises `InputError` as `read_runs` does."""
    runs, epochs = read_runs(folder), read_epochs(folder)
    runs["loader"] = [_loader(run) for run in runs.to_dict("records")]
    runs["total"] = runs.frames + runs.deleted
    for name, key in PERCENT.items():
        for frame in (runs, epochs):
            frame[name] = 100 * frame[key].map(figure) if key in frame else math.nan
    odd = pd.concat([runs[runs.state == "damaged"], epochs[epochs.epoch.isna()]])
    damaged = {f"{row.experiment}/{row.run}": str(row.says) for row in odd.itertuples()}
    epochs = epochs[epochs.epoch.notna()].copy()
    epochs[["seconds", "processed"]] = epochs.groupby(NAMES)[["seconds", "processed"]].cumsum()
    records = []
    first, *others = experiment_folders(folder)
    for place in (first, *others):
        for kind in ("experiment", *MEASURED):
            path = place / f"{kind}.json"
            try:
                records += [_record(path, kind)] if path.exists() else []
            except (ValueError, OSError) as error:
                damaged[f"{place.name}/{path.name}"] = str(error)
    for place in others:
        if not any([*place.glob("*.json"), *place.glob("*.csv"), *place.glob("*/*.json*")]):
            damaged[place.name] = "holds no run"
    return Results(Path(folder), runs[runs.state != "damaged"], epochs, records, damaged)


def _record(path: Path, kind: str) -> dict[str, Any]:
    """A record with its kind, and with itself as the command that measured its rows."""
    record = read_record(path) | {"kind": kind}
    if kind == "experiment":
        return record
    for number, row in enumerate(record["rows"], 1):
        if wrong := wrong_figures(row, dict.fromkeys(MEASURED[kind], 0), SECONDS):
            raise ValueError(f"row {number} has {wrong}")
    quick = record["name"] == f"{kind}_quick"
    return record | {"name": f"{kind}_quick" if quick else kind, "sweeps": [record]}


def compare(results: Results, experiment: str, *free: str) -> Compared | None:
    """The largest set of runs of an experiment alike in all but the seed and the `free` keys.

    A free key is a group (``loader``) or a key of one (``train.starts``). The quick form stands in
    for an experiment without finished runs. Of two runs alike in everything, which a seed makes
    only once, the first counts. None if there are no runs.
    """
    names = [
        name
        for name in (experiment, f"{experiment}_quick")
        if name in {*results.finished.experiment}
    ]
    if not names:
        return None
    runs = results.runs[results.runs.experiment == names[0]].sort_values("run")
    finished = runs[runs.state == "finished"]
    once = finished[~_settings(finished).duplicated()]
    setting = _settings(once, "train.seed", *free)
    chosen = once[setting == setting.value_counts(sort=False).idxmax()].assign(extra=False)
    apart = len(finished) - len(chosen)
    return Compared(names[0], in_order(chosen), apart, runs[runs.state == "failed"])


def equal_epochs(results: Results) -> Compared | None:
    """The runs of `paper_table`; without them, the first others that compare loaders."""
    found = compare(results, "paper_table", "loader")
    others = [] if found else [*results.finished.experiment.unique()]
    for name in others:
        other = compare(results, name, "loader")
        if name.removesuffix("_quick") not in EXPERIMENTS and len(other.by_loader) > 1:
            return other
    return found


def equal_work(results: Results) -> Compared | None:
    """The runs of `paper_table_equal_time`, whose number of epochs depends on the loader.

    For a loader without runs there, those at equal epochs stand in if their number of epochs is
    the one nearest to the same slots.
    """
    free = ("train.seed", "loader", "train.epochs", "train.slots", "train.warmup_epochs")
    found, epochs = compare(results, "paper_table_equal_time", *free), equal_epochs(results)
    if found is None:
        return None
    slots = found.runs["train.slots"].fillna(0)
    most = slots.value_counts().sort_index().idxmax()
    found = replace(found, runs=found.runs.assign(extra=slots != most))
    if epochs is None or not most:
        return found
    others = epochs.runs[~epochs.runs.loader.isin(found.by_loader)]
    others = others[others.epochs == (most / others.processed).round().clip(lower=1)]
    both = pd.concat([found.runs, others])
    return replace(found, runs=in_order(both[_settings(both, *free) == 0]))


def _settings(runs: pd.DataFrame, *free: str) -> pd.Series:
    """A number per run from 0, the same for runs alike in all but the `free` keys."""
    aside = tuple(f"{key}." for key in (*_not_defining(TrainJob), "dataset.root", *free))
    config = [key for key in runs if "." in key and not f"{key}.".startswith(aside)]
    # Ranks and device decide what an epoch costs, and ranks the batch.
    known = runs[[*config, "ranks", "device"]].astype(object).where(lambda of: of.notna(), "")
    return known.groupby(list(known), sort=False).ngroup()


def _not_defining(schema: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a config that do not decide what is trained."""
    for key in fields(schema):
        if not key.metadata.get("defining", True):
            yield prefix + key.name
        elif is_dataclass(key.type):
            yield from _not_defining(key.type, f"{prefix}{key.name}.")


def in_order(runs: pd.DataFrame, *then: str) -> pd.DataFrame:
    """By loader, in the order of `PACKERS`, then by these columns, epochs and seed."""
    by = ["place", "loader", *then, "epochs", "train.seed", "run"]
    return runs.assign(place=place(runs.loader)).sort_values(by).drop(columns="place")


def place(loaders: pd.Series) -> pd.Series:
    """The places of loaders in `PACKERS`."""
    places = {name: number for number, name in enumerate(PACKERS)}
    return loaders.map(lambda loader: places.get(loader.split(" ")[0], len(places)))


def _loader(run: dict[str, Any]) -> str:
    """The loader with what is not the default: ``bload draw=length``, ``bload t_max=64``.

    A run that failed early has no config; the overrides of its job may say what it was.
    """
    name = run["loader.name"]
    if not isinstance(name, str):
        given = [one for one in str(run["overrides"]).split() if one.startswith("loader=")]
        return given[0].removeprefix("loader=") if given else "unknown"
    schema = loader_schema(name) if name in PACKERS else LoaderConfig
    values = {key.name: run.get(f"loader.{key.name}") for key in fields(schema)[1:]}
    defaults = {key.name: key.default for key in fields(schema)}
    options = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in values.items()
        if pd.notna(value) and value != defaults[key]
    ]
    return " ".join([name, *options])
