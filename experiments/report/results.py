"""The contents of a folder, and the runs in it that may be compared."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bload.errors import InputError, printable
from bload.packers import PACKERS
from experiments.report.exhibits import note
from experiments.runs import experiment_folders, read_epochs, read_record, read_runs
from training.config import CONFIGS, LoaderConfig, TrainJob, loader_schema
from training.page.record import RELATIONS
from training.page.write import PAGE

NAMES = ["experiment", "run"]
LATER = {"train.evals_per_epoch": 0}
"""Keys that configs got later -> what runs without them did."""
KINDS = ("experiment", "deadlock", "length_variance", "epoch_turns", "alternatives")
"""Files that record how runs were made, or that hold rows of figures with the record."""
DATA = {"synthetic": "synthetic data", "action_genome": "Action Genome"}
RELATION_COLUMNS = ["folder", "checkpoint", "constraint", "k", "kind"]
RELATION_COLUMNS += ["name", "group", "triplets", "recall"]
PERCENT = {
    **{"recall": "with/recall@20", "no": "no/recall@20", "memory": "with/recall@20_memory"},
    "ideal observer with memory": "remembering/recall@20_memory",
    "ideal observer without memory": "memoryless/recall@20_memory",
}
"""Columns in percent, and the shares that they are made from."""


@dataclass(frozen=True, eq=False)
class Results:
    """Everything in a folder.

    Attributes: `runs` as `read_runs` has them, with `loader` (``bload t_max=64``), `total` frames,
    the name of their `data`, the path of their `page` from the folder if they have one, and the
    columns of `PERCENT`; `epochs` as `read_epochs` has them, with `loss`, and `seconds` and
    `processed` since the start of the run; `relations`, the rows of RELATIONS files by `folder`;
    `records` of the commands that made runs (`kind` is experiment) or rows.
    """

    folder: Path
    runs: pd.DataFrame
    epochs: pd.DataFrame
    records: list[dict[str, Any]]
    relations: pd.DataFrame

    @property
    def finished(self) -> pd.DataFrame:
        return self.runs[self.runs.state == "finished"]

    @property
    def are_own(self) -> bool:
        """True unless the paper's comparison is among the finished runs."""
        return "paper_table" not in {*self.finished.experiment}

    def measured(self, kind: str) -> dict[str, Any] | None:
        """The record of an experiment that is rows in KIND.json, or of its quick form."""
        found = [one for one in self.records if one["kind"] == kind and one["rows"]]
        return min(found, key=lambda record: record["name"].endswith("_quick"), default=None)


@dataclass(frozen=True)
class Compared:
    """Finished runs of one experiment that are alike in all but the seed and what is compared.

    Attributes: `runs` by loader, epochs and seed, of which `extra` are for more or fewer slots than
    most; `others`, names of further runs by what they have otherwise; `failed` runs.
    """

    experiment: str
    runs: pd.DataFrame
    others: dict[str, list[str]]
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
    def counts_start(self) -> bool:
        """True if seconds hold the start of data workers, which runs of today have apart.

        They are shown nowhere then.
        """
        return "start_seconds" not in self.runs or bool(self.runs.start_seconds.isna().any())

    @property
    def when(self) -> str:
        return "equal work" if self.main["train.slots"].max() > 0 else "equal epochs"

    @property
    def data(self) -> str:
        return str(self.runs.data.iloc[0])

    @property
    def setting(self) -> str:
        """Data, model and kind of machine."""
        return note("setting", self.runs.iloc[0])


def read_results(folder: Path | str) -> Results:
    """Read whatever is in a folder. Raises `InputError` as `read_runs` does."""
    runs, epochs = (_plain(frame) for frame in (read_runs(folder), read_epochs(folder)))
    runs = runs.fillna({key: value for key, value in LATER.items() if key in runs})
    runs["loader"] = pd.Series(map(_loader, runs.to_dict("records")), dtype=object)
    runs["total"] = runs.frames + runs.deleted
    runs["page"] = pd.Series(_pages(Path(folder), runs), dtype=object)
    data = runs.get("dataset.name", pd.Series(dtype=object))
    runs["data"] = data.map(lambda name: DATA.get(name, str(name)), "ignore")
    epochs["loss"] = pd.to_numeric(epochs.get("loss"), errors="coerce")
    for name, key in PERCENT.items():
        for frame in (runs, epochs):
            frame[name] = 100 * frame.get(key, math.nan)
    epochs = _added_up(epochs)
    records = [
        _plain(read_record(path)) | {"kind": kind}
        for place in experiment_folders(folder)
        for kind in KINDS
        if (path := place / f"{kind}.json").exists()
    ]
    return Results(Path(folder), runs, epochs, records, _relations(Path(folder)))


def _added_up(epochs: pd.DataFrame) -> pd.DataFrame:
    """Sums since the start of the run, which grow evenly to evaluations inside an epoch."""
    keys = ["seconds", "processed", "frames"]
    sums = epochs.assign(**epochs.groupby(NAMES)[keys].cumsum())
    inside = sums.epoch % 1 != 0
    for _, run in sums[~inside].groupby(NAMES) if inside.any() else ():
        within = inside & (sums[NAMES] == run[NAMES].iloc[0]).all(axis=1)
        for key in keys:
            found = np.interp(sums.epoch[within], [-1, *run.epoch], [0, *run[key]])
            sums.loc[within, key] = found
    return sums


def _pages(folder: Path, runs: pd.DataFrame) -> list[str | None]:
    """The path of each run's page from the folder, None for one that has no page."""
    pages = {
        (_plain(read_record(place / "experiment.json")["name"]), _plain(page.parent.name)): page
        for place in experiment_folders(folder)
        for page in place.glob(f"*/{PAGE}")
    }
    found = (pages.get(run) for run in zip(runs.experiment, runs.run, strict=True))
    return [page.relative_to(folder).as_posix() if page else None for page in found]


def _relations(folder: Path) -> pd.DataFrame:
    """The rows of relations.csv in a folder, its experiments and their runs."""
    found = []
    for path in sorted(
        path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}{RELATIONS}")
    ):
        try:
            rows = pd.read_csv(path)
            found.append(rows.assign(folder=path.parent.name)[RELATION_COLUMNS])
        except (ValueError, KeyError, OSError) as error:
            raise InputError(f"{path} is not of eval.py: {error}; move it elsewhere") from error
    return _plain(pd.concat(found)) if found else pd.DataFrame(columns=RELATION_COLUMNS)


def _plain(value: Any) -> Any:
    """A table or a record whose texts are one line and cannot begin or end code in Markdown."""
    if isinstance(value, str):
        return printable(value).replace("`", "'")
    if isinstance(value, pd.DataFrame):
        return value.map(_plain)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


@lru_cache(64)
def compare(results: Results, experiment: str, *free: str) -> Compared | None:
    """The largest set of runs of an experiment alike in all but the seed and the `free` keys.

    A free key is a group (``loader``) or a key of one (``train.starts``). The quick form stands in
    for an experiment without finished runs. Of two runs alike in everything, which a seed makes
    only once, the first counts. None if there are no runs.
    """
    there = {*results.finished.experiment}
    name = experiment if experiment in there else f"{experiment}_quick"
    if name not in there:
        return None
    runs = results.runs[results.runs.experiment == name].sort_values("run")
    finished = runs[runs.state == "finished"]
    once = finished[~_settings(finished).duplicated()]
    setting = _settings(once, "train.seed", *free)
    chosen = once[setting == setting.value_counts(sort=False).idxmax()].assign(extra=False)
    others: dict[str, list[str]] = {}
    for _, run in finished.drop(chosen.index).iterrows():
        keys = {key: text_of(run[key]) for key in _keys(once, "train.seed", *free)}
        unlike = [f"{key} {of}" for key, of in keys.items() if of != text_of(chosen[key].iloc[0])]
        others.setdefault(", ".join(unlike) or "the same again", []).append(run.run)
    return Compared(name, in_order(chosen), others, runs[runs.state == "failed"])


def text_of(value: Any) -> str:
    """A value of a config as on a command line."""
    if pd.isna(value):
        return "null"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


@lru_cache(64)
def equal_epochs(results: Results) -> Compared | None:
    """The runs of `paper_table`; without them, the first others that compare loaders."""
    found = compare(results, "paper_table", "loader")
    ours = {file.stem for file in (CONFIGS / "experiment").glob("*.yaml")}
    for name in [] if found else results.finished.experiment.unique():
        other = compare(results, name, "loader")
        if other and name not in ours and len(other.by_loader) > 1:
            return other
    return found


@lru_cache(64)
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
    return runs.groupby(_keys(runs, *free), sort=False, dropna=False).ngroup()


def _keys(runs: pd.DataFrame, *free: str) -> list[str]:
    # Ranks and device decide what an epoch costs; ranks and their batches of a step the batch.
    batch = [key for key in ("ranks", "device", "train.micro_batches") if key in runs]
    return list(dict.fromkeys([*config_keys(runs, *free), *batch]))


def config_keys(runs: pd.DataFrame, *aside: str) -> list[str]:
    """The columns that are keys of configs and decide what is trained, but those `aside`."""
    without = tuple(f"{key}." for key in (*_not_defining(TrainJob), "dataset.root", *aside))
    return [key for key in runs if "." in key and not f"{key}.".startswith(without)]


def _not_defining(schema: Any, prefix: str = "") -> Iterator[str]:
    """The keys of a config that do not decide what is trained."""
    for key in fields(schema):
        if not key.metadata.get("defining", True):
            yield prefix + key.name
        elif is_dataclass(key.type):
            yield from _not_defining(key.type, f"{prefix}{key.name}.")


def in_order(runs: pd.DataFrame, *then: str) -> pd.DataFrame:
    """By loader, in the order of `PACKERS`, then by these columns, epochs and seed."""
    places = {name: number for number, name in enumerate(PACKERS)}
    place = runs.loader.map(lambda loader: places.get(loader.split(" ")[0], len(places)))
    by = [key for key in ("loader", *then, "epochs", "train.seed", "run") if key in runs]
    return runs.assign(place=place).sort_values(["place", *by]).drop(columns="place")


def _loader(run: dict[str, Any]) -> str:
    """The loader with what is not the default: ``bload draw=length``, ``bload t_max=64``."""
    name = run["loader.name"]
    if not isinstance(name, str):  # it failed before its config was written
        return str(run["overrides"]).partition("loader=")[2].split(" ")[0] or "unknown"
    options = [name]
    for key in fields(loader_schema(name) if name in PACKERS else LoaderConfig)[1:]:
        value = run.get(f"loader.{key.name}")
        if pd.notna(value) and value != key.default:
            options.append(f"{key.name}={f'{value:g}' if isinstance(value, float) else value}")
    return " ".join(options)
