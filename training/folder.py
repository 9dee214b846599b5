"""A run: a folder whose name follows from its config, and what is written into it."""

import hashlib
import json
import logging
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bload.errors import InputError
from datasets.annotations.problems import shown
from datasets.write_whole import write_whole
from training.config import TrainJob, defining
from training.runs import metric_lines, read_object
from training.same_steps import counted, fitting

if TYPE_CHECKING:
    from bload import BlockSampler

IN_NAME = (
    ("loader", "t_max", None, "T{}"),
    ("model", "temporal", "dds", "{}"),
    ("train", "starts", "table", "starts_{}"),
    ("train", "padding", "masked", "padding_{}"),
)
"""Group, key, default and form of values that a run's name has if they are not the default."""


def identity(cfg: TrainJob, world_size: int) -> dict[str, Any]:
    """What is trained. The frames of a step count, not over how many ranks they are shared out.

    Of ranks that step by themselves the number counts too.
    """
    config = defining(cfg)
    config["train"]["batch_frames"] *= world_size * cfg.train.micro_batches
    if cfg.train.sync != "allreduce":
        config["train"]["ranks"] = world_size
    return config


def run_name(cfg: TrainJob, world_size: int) -> str:
    """``bload-dds_tiny-synthetic-s0-1a2b3c4d``: from what is trained, see `identity`.

    With blocks of 32 and a GRU, ``bload-dds_tiny-synthetic-T32-gru-s0-5e6f7a8b``.
    """
    config = identity(cfg, world_size)
    text = json.dumps([config, 1], sort_keys=True)
    parts = [config[group]["name"] for group in ("loader", "model", "dataset")]
    for group, key, default, form in IN_NAME:
        if config[group][key] != default:
            parts.append(form.format(config[group][key]))
    parts.append(f"s{cfg.train.seed}")
    return "-".join([*parts, hashlib.sha256(text.encode()).hexdigest()[:8]])


GROUPS = tuple(group.name for group in fields(TrainJob))
LAST, PREVIOUS = "last.pt", "previous.pt"
"""Names of the latest checkpoint of a run, and of the one before."""


def checkpoint_file(path: Path | str) -> Path:
    """Return the file of a checkpoint, for which a run's folder stands too.

    Raises:
        InputError: it is not there.
    """
    path = Path(path)
    if path.is_dir():
        path = path / LAST
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path}; give a .pt file or the folder of a run")
    return path


class RunFolder:
    """The folder of one run; rank 0 makes the folder, every rank has its own log.

    Attributes: `path`, the folder; `last` and `best`, its checkpoints; `summary`, the file that
    exists once the run has finished; `error`, the file that exists instead where a rank failed, or
    a sweep saw the run fail.
    """

    def __init__(self, root: str, name: str) -> None:
        self.path = Path(root) / name
        self.last = self.path / LAST
        self.previous = self.path / PREVIOUS
        self.best = self.path / "best.pt"
        self.summary = self.path / "summary.json"
        self.error = self.path / "error.json"
        self.metrics = self.path / "metrics.jsonl"
        self.config = self.path / "config.json"
        self.cost = self.path / "cost.json"

    def check_accepts(self, checkpoint: Path | str, cfg: TrainJob, sampler: "BlockSampler") -> None:
        """Refuse to go on here from `checkpoint` if that would write over another run."""
        source = Path(checkpoint)
        home = source if source.is_dir() else source.parent
        if home.resolve() == self.path.resolve():
            self.check_same_config(cfg, sampler)
        elif held := self._held():
            raise InputError(
                f"{self.path} holds {held} of a run, which going on from {checkpoint} would write "
                f"over; give a run.name of its own, or put its {LAST} back if that is gone"
            )

    def check_same_config(self, cfg: TrainJob, sampler: "BlockSampler") -> None:
        """Refuse a folder in which something else was trained (only a given run.name can).

        A key that is not there had its default. The data may have moved; their lengths are checked
        with the plan.
        """
        if not self.config.exists():
            return
        here = self._config()
        differs = []
        for group, values in defining(cfg, later=True).items():
            keys = fields(getattr(cfg, group))
            held = {key.name: key.default for key in keys if key.default is not MISSING}
            held |= here.get(group, {})
            for key, value in values.items():
                aside = (group, key) in (("dataset", "root"), ("train", "batch_frames"))
                if held.get(key) != value and not aside:
                    differs.append(f"{group}.{key} was {shown(held.get(key))} and is {value}")
        if differs:
            raise InputError(
                f"{self.path} holds a run of another config: {'; '.join(differs)}; give another "
                "run.name, or run.resume=never to train anew there"
            )
        ranks = here.get("launch", {}).get("nproc", 1)
        if misfit := fitting(ranks, here["train"], sampler):
            raise InputError(f"{self.path} holds a run on {counted(ranks, 'rank')}; {misfit}")

    def checkpoints(self, resume: str) -> list[Path]:
        """Where a run may go on, best first; none if it starts anew.

        Args:
            resume: as in `RunConfig`.

        Raises:
            InputError: there is a run here, but its checkpoints are gone; or it would start anew
                over files that no run of ours wrote.
        """
        config, held = self._config(), self._held()
        ours = [path for path in (self.last, self.previous) if path.exists()]
        if resume == "never":
            if held and not config:
                raise InputError(
                    f"{self.path} has no {self.config.name} of a run, so nothing is deleted there; "
                    "give another run.name"
                )
            return []
        if resume == "auto" or (ours and config.get("run", {}).get("resume") == resume):
            if held and not ours:
                raise InputError(
                    f"{self.path} holds {held} of a run but neither {LAST} nor {PREVIOUS}; put one "
                    "back, or set run.resume=never to delete what is there"
                )
            return ours
        return [Path(resume)]

    def check_siblings(self, cfg: TrainJob, sampler: "BlockSampler") -> None:
        """Refuse to begin a run that the same command began on another number of ranks.

        Its frames per step differ, so its name does; it goes on with the ``batch_frames`` that
        keep its blocks per step.
        """
        for path in self.path.parent.glob("*/config.json"):
            other = RunFolder(str(path.parent.parent), path.parent.name)
            try:
                ranks = other._config().get("launch", {}).get("nproc", 1)
            except InputError:  # it is damaged, and not this run
                continue
            if ranks == sampler.world_size or other.summary.exists() or not other.last.exists():
                continue
            if other.path.name == run_name(cfg, ranks):
                name = f"run.name={other.path.name}"
                misfit = fitting(ranks, asdict(cfg.train), sampler, name)
                raise InputError(
                    f"{other.path} is this run on {counted(ranks, 'rank')}, unfinished; {misfit}"
                )

    def _held(self) -> str:
        """Names of what a run would lose here if another one began."""
        return " and ".join(path.name for path in self._files() if path.exists())

    def _files(self) -> tuple[Path, ...]:
        return self.last, self.previous, self.best, self.summary, self.metrics

    def _config(self) -> dict[str, Any]:
        """The config of the run that is here; empty if there is none.

        Raises:
            InputError: it cannot be read, or is not that of a run.
        """
        if not self.config.exists():
            return {}
        config = read_object(self.config)
        groups = all(isinstance(config.get(name, {}), dict) for name in GROUPS)
        groups = groups and {"loader", "train", "model"} <= config.keys()
        numbers = [config.get("launch", {}).get("nproc", 1)] if groups else []
        if groups:
            numbers += [config["train"].get(key, 1) for key in ("batch_frames", "micro_batches")]
        if not (numbers and all(type(number) is int and number > 0 for number in numbers)):
            raise InputError(f"{self.config} is no config of a run; put that back or remove it")
        return config

    def open(self, rank: int) -> logging.Logger:
        """Make the folder and open this rank's log."""
        self.path.mkdir(parents=True, exist_ok=True)
        logger = logging.getLogger(f"bload.rank{rank}")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        while logger.handlers:
            logger.handlers[0].close()
            logger.removeHandler(logger.handlers[0])
        logging.raiseExceptions = False  # a full disk is reported where it matters
        handler = logging.FileHandler(self.path / f"rank{rank}.log")
        handler.setFormatter(logging.Formatter(f"%(asctime)s rank {rank}: %(message)s"))
        logger.addHandler(handler)
        return logger

    def read_summary(self) -> dict[str, Any]:
        summary = read_object(self.summary)
        if not isinstance(summary.get("run"), str):
            raise InputError(
                f"{self.summary} is no summary of this run; remove it, and the same command writes "
                "it anew"
            )
        return summary

    def write_json(self, path: Path, value: Any) -> None:
        write_whole(path, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def note_error(self, sentence: str, when: str) -> None:
        """Write down why this run failed, unless an earlier one finished here."""
        if not self.summary.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            self.write_json(self.error, {"error": sentence, "when": when})

    def saved_at(self) -> list[int]:
        """Times at which checkpoint and summary, if they are there, were written, in ns."""
        return [path.stat().st_mtime_ns for path in (self.last, self.summary) if path.exists()]

    def clear(self) -> None:
        """Forget an earlier run in this folder, as `checkpoints` has allowed."""
        for path in (*self._files(), self.error, self.cost):
            path.unlink(missing_ok=True)

    def rewind_metrics(self, epoch: int, step: int, evaluated: float) -> None:
        """Drop the lines of what comes after a checkpoint, which will be done again.

        Args:
            epoch: of the checkpoint, from 0.
            step: of that epoch.
            evaluated: epochs that were done at the last evaluation.
        """
        if not self.metrics.exists():
            return
        kept = ""
        for text, line in metric_lines(self.metrics):
            if not isinstance(line.get("step"), int):
                continue
            before = (line["epoch"], line["step"]) <= (epoch, step)
            pending = line["kind"] == "eval" and line["epoch"] >= evaluated
            if before and not pending and line["kind"] != "summary":
                kept += f"{text}\n"
        write_whole(self.metrics, kept)
