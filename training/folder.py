"""The folder of a run: its name, which follows from the config, and its files.

config.json       what is trained, on how many ranks
made_on.json      machine, versions and commit
metrics.jsonl     a line per logged step, epoch and evaluation
last.pt           the latest checkpoint; previous.pt the one before; best.pt the best on the
                  validation videos
summary.json      figures of the whole run; it is there once the run has finished
relations.csv     recall of every relation at the end
report.html       the page of the run, with prediction.png and prediction.webp
rank0.log         one per rank, with the traceback if it failed
wandb_id          id of the run in wandb
lock              held by the run that is writing here
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, is_dataclass
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

from bload import BlockSampler
from bload.errors import InputError, plural
from datasets.files import lock_folder, reading, write_whole
from training.config import RESUMING, TrainJob
from training.ranks import Ranks

NAME_PARTS = (
    ("loader", "t_max", None, "T{}"),
    ("model", "temporal", "dds", "{}"),
    ("train", "starts", "table", "starts_{}"),
    ("train", "padding", "masked", "padding_{}"),
)
"""Group, key, default and format of values that a run's name shows unless they are default."""
LAST, PREVIOUS = "last.pt", "previous.pt"
"""Names of a run's latest checkpoint and of the one before."""
PATIENCE = 10.0
"""Seconds that processes of a killed run may take to end."""


def defining_values(config: Any, with_defaults: bool = True) -> dict[str, Any]:
    """Return the part of a config that decides what is trained, as plain values."""
    values = {}
    for key in fields(config):
        value = getattr(config, key.name)
        is_group = is_dataclass(value)
        is_shown = with_defaults or is_group or value != key.default
        if is_shown and key.metadata.get("defining", True):
            values[key.name] = defining_values(value, with_defaults) if is_group else value
    return values


def changed_keys(saved: dict[str, Any], cfg: TrainJob) -> dict[str, tuple[Any, Any]]:
    """Return the defining keys that differ from a saved config, with both values.

    A key that the saved config does not have, as it is newer, had its default.
    """
    changed = defining_values(cfg, with_defaults=False)
    return {
        f"{group}.{key}": (saved.get(group, {}).get(key), value)
        for group, values in defining_values(cfg).items()
        for key, value in values.items()
        if (key in saved.get(group, {}) or key in changed[group])
        and saved.get(group, {}).get(key) != value
    }


def run_name(cfg: TrainJob, world_size: int) -> str:
    """Return a name such as ``bload-dds_tiny-synthetic-s0-1a2b3c4d``, with a hash of the config.

    With blocks of 32 and a GRU: ``bload-dds_tiny-synthetic-T32-gru-s0-5e6f7a8b``. The hash is over
    the values that are not their key's default, so that a new key leaves names as they are. In
    place of a rank's slots it has those of all ranks, so that the number of ranks does not matter,
    unless their weights differ (``train.sync``).
    """
    config = defining_values(cfg, with_defaults=False)
    config["train"]["batch_slots"] = cfg.train.batch_slots * world_size * cfg.train.micro_batches
    if cfg.train.sync != "allreduce":
        config["train"]["ranks"] = world_size
    parts = [cfg.loader.name, cfg.model.name, cfg.dataset.name]
    for group, key, default, form in NAME_PARTS:
        if config[group].get(key, default) != default:
            parts.append(form.format(config[group][key]))
    parts.append(f"s{cfg.train.seed}")
    text = json.dumps(config, sort_keys=True)
    return "-".join([*parts, hashlib.sha256(text.encode()).hexdigest()[:8]])


def advise_on_steps(saved: dict[str, Any], sampler: BlockSampler) -> str:
    """Say how to take steps of the size that a saved run has; return '' if they have it.

    Args:
        saved: config of the run, with its number of ranks.
        sampler: of this run.
    """
    ranks, train = saved["ranks"], saved["train"]
    batches, batch_slots = ranks * train["micro_batches"], max(train["batch_slots"], sampler.t_max)
    elastic = ""
    if sampler.plan.has_one_size:  # a step is its blocks, in any batches
        blocks = batches * (batch_slots // sampler.t_max)
        is_same = blocks == sampler.blocks_per_step
        share, rest = divmod(blocks, sampler.world_size)
        micro_batches = gcd(share, sampler.micro_batches)
        batch_slots = share // micro_batches * sampler.t_max
        elastic = ", or run.resume=elastic for steps of another size"
    else:
        micro_batches, rest = divmod(batches, sampler.world_size)
        here = sampler.world_size * sampler.micro_batches, sampler.batch_slots
        is_same = (batches, batch_slots) == here
    if is_same:
        return ""
    keys = f"set train.batch_slots={batch_slots} train.micro_batches={micro_batches}"
    return (f"start it on {plural(ranks, 'rank')}" if rest else keys) + elastic


def checkpoint_file(path: Path | str) -> Path:
    """Return the file of a checkpoint, given as the file or as a run's folder.

    Raises:
        InputError: it is not there.
    """
    path = Path(path)
    if path.is_dir():
        path = path / LAST
    if not path.is_file():
        raise InputError(
            f"there is no checkpoint {path}; give a .pt file or the folder of a run; run.resume "
            "also takes auto, elastic and never"
        )
    return path


class RunFolder:
    """The files of one run, listed at the top of this module."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last, self.previous = path / LAST, path / PREVIOUS
        self.best = path / "best.pt"
        self.summary = path / "summary.json"
        self.metrics = path / "metrics.jsonl"
        self.config = path / "config.json"

    @classmethod
    def for_job(cls, cfg: TrainJob, world_size: int) -> "RunFolder":
        """Return the folder of a job's run, named by `run.name` or by its config.

        An elastic run that has not begun on this number of ranks may go on in another's folder.

        Raises:
            InputError: there are several such folders.
        """
        folder = cls(Path(cfg.run.root, cfg.run.name or run_name(cfg, world_size)))
        if cfg.run.resume != "elastic" or cfg.run.name or folder.config.exists():
            return folder
        others = folder.runs_on_other_ranks(cfg, world_size)
        unfinished = [other for other in others if not other.summary.exists()]
        if len(unfinished) > 1:
            names = " and ".join(other.path.name for other in unfinished)
            raise InputError(f"{names} in {cfg.run.root} are this run on other ranks; set run.name")
        finished_here = [other for other in others if other._config()["ranks"] == world_size]
        return (*unfinished, *finished_here, folder)[0]

    def runs_on_other_ranks(self, cfg: TrainJob, world_size: int) -> list["RunFolder"]:
        """Return the folders beside this one that are named by a job on other numbers of ranks."""
        paths = sorted(self.path.parent.glob("*/config.json"))
        return [
            folder
            for folder in (RunFolder(path.parent) for path in paths)
            if folder.last.exists()
            and world_size != (ranks_in_name := folder.ranks_in_name)
            and folder.path.name == run_name(cfg, ranks_in_name)
        ]

    @property
    def ranks_in_name(self) -> int:
        """Number of ranks that the run in this folder is named by."""
        config = self._config()
        return config.get("ranks_in_name", config["ranks"])

    @contextmanager
    def lock(self, ranks: Ranks) -> Iterator[None]:
        """Lock the folder against other runs, on rank 0; make it first if needed.

        Raises:
            InputError: another run holds it, or the folder cannot be written.
        """
        remedy = "set another run.name or run.root"
        lock = lock_folder(self.path, lock=self.path / "lock", seconds=PATIENCE, remedy=remedy)
        with ExitStack() as stack:
            with ranks.agree_on_errors():
                if ranks.is_first:
                    stack.enter_context(lock)
            self.path.mkdir(parents=True, exist_ok=True)  # on the other machines
            yield

    def check_same_config(self, cfg: TrainJob, sampler: BlockSampler) -> None:
        """Raise `InputError` if something else was trained here, as a given run.name allows.

        The data's root may differ; their lengths are checked with the plan.
        """
        if not (saved_config := self._config()):
            return
        differs = [
            f"{key} was {was} and is {value}"
            for key, (was, value) in changed_keys(saved_config, cfg).items()
            if key not in ("dataset.root", "train.batch_slots")
        ]
        if differs:
            raise InputError(
                f"{self.path} holds a run of another config: {'; '.join(differs)}; give another "
                "run.name, or run.resume=never to train anew there"
            )
        if cfg.run.resume == "elastic":
            return
        if advice := advise_on_steps(saved_config, sampler):
            ranks = plural(saved_config["ranks"], "rank")
            raise InputError(
                f"{self.path} holds a run on {ranks}, with steps of another size; to go on with "
                f"it, {advice}"
            )

    def checkpoints(self, resume: str) -> list[Path]:
        """Return the checkpoints to resume from, best first; none if the run starts anew.

        Args:
            resume: as in `RunConfig`.

        Raises:
            InputError: the run here has lost its checkpoints, or files of something else would be
                overwritten.
        """
        config = self._config()
        existing_names = " and ".join(p.name for p in self._files() if p.exists())
        checkpoint_paths = [path for path in (self.last, self.previous) if path.exists()]
        if resume == "never":
            if existing_names and not config:
                raise InputError(
                    f"{self.path} has no {self.config.name} of a run, so nothing is deleted there; "
                    "give another run.name"
                )
            return []
        has_same_resume = config.get("run", {}).get("resume") == resume
        if resume in RESUMING or (checkpoint_paths and has_same_resume):
            if existing_names and not checkpoint_paths:
                raise InputError(
                    f"{self.path} holds {existing_names} of a run but neither {LAST} nor "
                    f"{PREVIOUS}; put one back, or set run.resume=never to delete what is there"
                )
            return checkpoint_paths
        if existing_names and checkpoint_file(resume).parent.resolve() != self.path.resolve():
            raise InputError(
                f"{self.path} holds {existing_names} of a run, which going on from {resume} would "
                "write over; give a run.name of its own"
            )
        return [Path(resume)]

    def is_finished(self, resume: str) -> bool:
        """Return True if a run with this `resume` has nothing left to do."""
        is_this_run = resume in RESUMING or self._config().get("run", {}).get("resume") == resume
        return resume != "never" and is_this_run and self.summary.exists()

    def check_other_ranks(self, cfg: TrainJob, sampler: BlockSampler) -> None:
        """Raise `InputError` if this run has begun on other ranks, and is not finished."""
        if cfg.run.name:
            return
        for other in self.runs_on_other_ranks(cfg, sampler.world_size):
            if other.summary.exists():
                continue
            saved_config, name = other._config(), other.path.name
            advice = advise_on_steps(saved_config, sampler)
            raise InputError(
                f"{other.path} is this run, unfinished on {plural(saved_config['ranks'], 'rank')}; "
                f"to go on with it, {f'{advice}, with' if advice else 'set'} run.name={name}; to "
                "begin another, give that a run.name"
            )

    def describe_other_epochs(self, cfg: TrainJob) -> str:
        """Describe a run beside this one with another number of epochs; empty if there is none."""
        sentence = ""
        for path in sorted(self.path.parent.glob("*/config.json")):
            other_folder, saved_config = RunFolder(path.parent), read_object(path)
            if not other_folder.last.exists() or other_folder.path == self.path:
                continue
            if [*changed_keys(saved_config, cfg)] == ["train.epochs"]:
                epochs = saved_config["train"]["epochs"]
                sentence = (
                    f"{other_folder.path} is the same with train.epochs={epochs}; this run starts "
                    "from the beginning, since learning rates follow from the number of epochs "
                    f"(run.resume={other_folder.last} run.name=NAME trains that one further)"
                )
        return sentence

    def _files(self) -> tuple[Path, ...]:
        return self.last, self.previous, self.best, self.summary, self.metrics

    def _config(self) -> dict[str, Any]:
        """Return the config of the run in this folder; empty if there is none."""
        return read_object(self.config) if self.config.exists() else {}

    def begin(self, cfg: TrainJob, ranks: Ranks) -> None:
        """Write the config, and the number of ranks that names the folder; remove a summary."""
        ranks_in_name = ranks.world_size
        if self.config.exists() and self.path.name != run_name(cfg, ranks_in_name):
            ranks_in_name = self.ranks_in_name
        config = {**asdict(cfg), "ranks": ranks.world_size, "ranks_in_name": ranks_in_name}
        self.write_json(self.config, config)
        self.summary.unlink(missing_ok=True)

    def write_json(self, path: Path, value: Any) -> None:
        write_whole(path, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def clear(self) -> None:
        """Delete an earlier run in this folder, as `checkpoints` has allowed."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def rewind_metrics(self, epoch: int, step: int, evaluated_epochs: float) -> None:
        """Drop the lines from after a checkpoint, whose steps will run again.

        Args:
            epoch: the current one, from 1.
            step: finished steps of it.
            evaluated_epochs: epochs that were done at the last evaluation.
        """
        if not self.metrics.exists():
            return
        remaining = ""
        for text, line in metric_lines(self.metrics):
            is_before = (line["epoch"], line["step"]) <= (epoch, step)
            is_pending_eval = line["kind"] == "eval" and line["after"] > evaluated_epochs
            if is_before and not is_pending_eval and line["kind"] != "summary":
                remaining += f"{text}\n"
        write_whole(self.metrics, remaining)


class Saved(dict[str, Any]):
    """An object in a file; a missing key raises an `InputError` that begins with `location`."""

    def __init__(self, location: Path | str, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.location = location

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{self.location} has no {key}; put back a whole one")


def read_object(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file, as `Saved`; raises `InputError` if there is none."""
    with reading(path, "put it back or remove it"):
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, object_hook=partial(Saved, path))
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no JSON object; put it back or remove it")
    return value


def metric_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield text and values of each line of metrics.jsonl, except lines cut off by a kill.

    Raises:
        InputError: a line has no kind, epoch or step.
    """
    content = path.read_bytes() if path.exists() else b""
    for number, text in enumerate(content.decode(errors="replace").splitlines(), 1):
        location = f"{path}, line {number},"
        try:
            line = json.loads(text, object_hook=partial(Saved, location))
        except (ValueError, RecursionError):
            continue
        if not isinstance(line, Saved) or {type(line["epoch"]), type(line["step"])} != {int}:
            raise InputError(f"{location} has no epoch and step in numbers; put back a whole one")
        if line["kind"]:
            yield text, line
