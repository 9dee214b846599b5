"""The folder of a run: its name, which follows from the config, and its files."""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

import bload
from bload.errors import InputError
from bload.packing.packers import find_packer
from datasets.files import lock_folder, reading, write_whole
from training.config import CONFIGS, TrainJob
from training.ranks import Ranks

LAST, PREVIOUS = "last.pt", "previous.pt"
"""Names of a run's latest checkpoint and of the one before."""
PATIENCE = 10.0
"""Seconds that processes of a killed run may take to end."""
Row = dict[str, Any]


def defining_values(config: Any) -> Row:
    """Return the values that decide what is trained and are not their key's default."""
    values = {}
    for key in fields(config):
        value = getattr(config, key.name)
        default = key.default
        if is_dataclass(value):
            value, default = defining_values(value), {}
        if key.metadata.get("defining", True) and value != default:
            values[key.name] = value
    return values


def run_name(cfg: TrainJob, world_size: int) -> str:
    """Return a name such as ``bload-dds_tiny-synthetic-s0-1a2b3c4d``, with a hash of the config.

    The hash is over the values that are not their key's default, so that a new key leaves names as
    they are. In place of a rank's slots it has those of all ranks, in whole blocks if ``t_max`` is
    given, so that the number of ranks does not matter unless weights differ (``train.sync``).
    """
    config, batches = defining_values(cfg), world_size * cfg.train.micro_batches
    slots = slots_of_step(cfg.train.batch_slots, batches, cfg.loader.t_max)
    config["train"]["batch_slots"] = slots
    if cfg.train.sync != "allreduce":
        config["train"]["ranks"] = world_size
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
    names = cfg.loader.name, cfg.model.name, cfg.dataset.name
    return "-".join([*names, f"s{cfg.train.seed}", digest])


def slots_of_step(batch_slots: int, batches: int, t_max: int | None) -> int:
    """Return the slots of the batches of a step, in whole blocks if their size is known."""
    return batches * (max(batch_slots // t_max, 1) * t_max if t_max else batch_slots)


@cache
def environment() -> dict[str, Any]:
    """Return the machine, versions and the commit of this checkout, as of the first call."""
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    commit = ""
    with suppress(FileNotFoundError):  # no git
        commit = subprocess.run(describe, cwd=CONFIGS, capture_output=True, text=True).stdout
    info = Path("/proc/cpuinfo")
    cpus = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return {
        "machine": {
            "cpu": cpus[0] if cpus else platform.machine(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
            "system": platform.platform(),
        },
        "versions": {
            "python": platform.python_version(),
            **{module.__name__: module.__version__ for module in (torch, torchvision, np, bload)},
        },
        "git": commit.strip() or None,
    }


class RunFolder:
    """The files of one run; docs/reproduction.md says what each holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last, self.previous, self.best = path / LAST, path / PREVIOUS, path / "best.pt"
        self.config, self.made_on = path / "config.json", path / "made_on.json"
        self.metrics, self.summary = path / "metrics.jsonl", path / "summary.json"
        self.relations, self.page = path / "relations.csv", path / "report.html"
        self.picture = path / "prediction.png"
        self._results = self.last, self.previous, self.best, self.summary, self.metrics

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

    def check_same_config(self, cfg: TrainJob, world_size: int) -> None:
        """Raise `InputError` if something else was trained here, as a given run.name allows.

        A newer key of a group, which the saved config lacks, had its default. Before the end
        the data's root and the slots of a step may differ: its plan is compared when it goes on.
        """
        is_kept = self.config.exists() and cfg.run.resume != "never"
        saved, changed = read_json(self.config) if is_kept else {}, []
        depends_on_ranks = cfg.train.sync != "allreduce" or cfg.loader.balance == "queue"
        if saved and depends_on_ranks and saved["ranks"] != world_size:
            changed.append(f"the number of ranks was {saved['ranks']} and is {world_size}")
        if saved and self.summary.exists():
            t_max, was = read_json(self.summary)["t_max"], saved["train"]
            batches = world_size * cfg.train.micro_batches, saved["ranks"] * was["micro_batches"]
            slots = slots_of_step(cfg.train.batch_slots, batches[0], t_max)
            is_same = slots == (saved_slots := slots_of_step(was["batch_slots"], batches[1], t_max))
            if find_packer(cfg.loader.name).makes_batches or cfg.loader.block_sizes != 1:
                is_same &= batches[0] == batches[1]
            is_same |= cfg.run.resume == "elastic"
            if not is_same:
                changed.append(f"its steps had {saved_slots} slots and would have {slots}")
            if saved["dataset"]["root"] != cfg.dataset.root:
                changed.append(f"dataset.root was {saved['dataset']['root']}")
        for group in fields(cfg):
            values = asdict(getattr(cfg, group.name))
            for key in fields(getattr(cfg, group.name)):
                name, now = f"{group.name}.{key.name}", values[key.name]
                default = now if key.default is MISSING else key.default
                was = saved.get(group.name, {}).get(key.name, default)
                decides = all(part.metadata.get("defining", True) for part in (group, key))
                if decides and was != now and name not in ("dataset.root", "train.batch_slots"):
                    changed.append(f"{name} was {was} and is {now}")
        if saved and changed:
            raise InputError(
                f"{self.path} holds a run of another config: {'; '.join(changed)}; give another "
                "run.name, or run.resume=never to train anew there"
            )

    def checkpoints(self, resume: str) -> list[Path]:
        """Return the checkpoints to resume from, best first; none if the run starts anew.

        Raises:
            InputError: a run here would be written over, as it lost its checkpoints.
        """
        if resume == "never":
            return []
        if found := [*filter(Path.exists, (self.last, self.previous))]:
            return found
        written = (path for path in self._results if path.exists() and path.stat().st_size)
        if names := " and ".join(path.name for path in written):
            raise InputError(
                f"{self.path} holds {names} of a run, which this one would write over; to go on "
                f"with it put {LAST} or {PREVIOUS} back, else give another run.name, or set "
                "run.resume=never to delete what is there"
            )
        return []

    def clear(self) -> None:
        """Delete an earlier run in this folder, as `checkpoints` has allowed."""
        for path in self._results:
            path.unlink(missing_ok=True)

    def begin(self, cfg: TrainJob, ranks: Ranks) -> None:
        """Write what is trained and where; delete what an end of the run has left."""
        self.write_json(self.config, {**asdict(cfg), "ranks": ranks.world_size})
        self.write_json(self.made_on, environment())
        for path in (self.summary, self.page, self.picture, self.relations):
            path.unlink(missing_ok=True)

    def write_json(self, path: Path, value: Any) -> None:
        write_whole(path, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def rewind_metrics(self, epoch: int, step: int, evaluated_at: float) -> None:
        """Drop the lines from after a checkpoint, whose steps will run again.

        Args:
            epoch: the current one, from 1.
            step: finished steps of it.
            evaluated_at: epochs that were done at the last evaluation.
        """
        remaining = ""
        for text, line in read_lines(self.metrics):
            is_before = (line["epoch"], line["step"]) <= (epoch, step)
            is_pending_eval = line.get("after", 0) > evaluated_at
            if is_before and not is_pending_eval and line["kind"] != "summary":
                remaining += f"{text}\n"
        if self.metrics.exists():
            write_whole(self.metrics, remaining)


def read_json(path: Path) -> Row:
    """Read the object in a JSON file; raises `InputError` if it cannot be read."""
    with reading(path, "put it back or remove it"):
        return {**json.loads(path.read_text(encoding="utf-8"))}


def read_lines(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield text and values of each line of metrics.jsonl, except lines cut off by a kill."""
    content = path.read_bytes() if path.exists() else b""
    for text in content.decode(errors="replace").splitlines():
        with suppress(ValueError):
            yield text, json.loads(text)
