"""Checkpoints: written whole or not at all, read without executing anything."""

import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast
from warnings import catch_warnings

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel
from torch.utils._pytree import tree_map_only

from bload import InputError
from datasets.files import reading, write_whole
from models import build_model
from models.config import ModelConfig
from models.dds import DDS
from training.build import Training
from training.folder import LAST, PREVIOUS
from training.stopping import AgreedError


@dataclass
class Progress:
    """State of a run besides weights and position."""

    best: float | None = None
    """Highest Recall@20 on the validation videos so far, in 0..1."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """Figures of every finished epoch."""
    recall: float | None = None
    """Recall@20 of the last evaluation on the validation videos."""
    evaluated_at: float = 0
    """Epochs, with a fraction, that were done when `recall` was measured."""
    epoch_sums: list[dict[str, dict[str, float]]] = field(default_factory=list)
    """Sums over the current epoch so far, one per rank, see `training.figures.EpochSums`."""
    row_states: list[Any] = field(default_factory=list)
    """Row states at the current step, one list per rank, see `training.step.train_step`."""


def save_checkpoint(path: Path, training: Training, progress: Progress) -> None:
    """Write a checkpoint on rank 0; a former ``last.pt`` stays as ``previous.pt``.

    All ranks call this.
    """
    rank_states, loader, is_auto = [], training.loader, training.cfg.model.recompute == "auto"
    if training.has_own_weights:
        state = tree_map_only(Tensor, Tensor.cpu, training.state_dict())
        rank_states = training.ranks.gather(state)
    with training.mean_over_ranks():
        if not training.ranks.is_first:
            return
        state = {
            "config": asdict(training.cfg),
            "epoch": loader.epoch,
            "epochs": training.cfg.train.epochs,
            "loader": loader.state_dict(),
            "progress": asdict(progress),
            "recomputed": training.model.recomputed_share if is_auto else None,
            "rank_states": rank_states,
            **training.state_dict(),
        }
        previous = path.with_name(PREVIOUS) if path.name == LAST else None
        write_whole(path, lambda file: torch.save(state, file), previous)


def restore(saved: dict[str, Any], path: Path, training: Training) -> tuple[Progress, str]:
    """Restore a run from the contents of a checkpoint; return its progress and a message.

    Raises:
        InputError: the checkpoint belongs to other data.
    """
    ranks, loader = training.ranks, training.loader
    with ranks.agree_on_errors(), reading(path, "give another checkpoint"):
        with catch_warnings(action="ignore"):  # of other steps, as run.resume=elastic asks for
            loader.load_state_dict(saved["loader"])
        training.load_state_dict(saved)
        if states := saved["rank_states"]:
            training.load_state_dict(states[ranks.rank])
        progress = Progress(**saved["progress"])
    position = f"{path}: epoch {loader.epoch + 1}, step {loader.step}"
    if len(positions := sorted({*ranks.gather(position)})) > 1:
        raise AgreedError(f"ranks would go on from different positions: {'; '.join(positions)}")
    return progress, f"going on from {position}"


def open_checkpoint(paths: Sequence[Path]) -> tuple[Path | None, dict[str, Any], list[str]]:
    """Return the first readable checkpoint, its contents, and what is wrong with earlier ones.

    Raises:
        InputError: there are checkpoints, and none can be read.
    """
    errors: list[str] = []
    for path in paths:
        try:
            return path, load_checkpoint(path), errors
        except InputError as error:
            errors.append(str(error))
    if errors:
        raise InputError(f"{'; '.join(errors)}; run.resume=never starts anew")
    return None, {}, []


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint, to the host.

    Raises:
        InputError: it is missing, is not a checkpoint of `train.py`, or is damaged.
    """
    with reading(path, "give another checkpoint"):
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()  # by its CRC-32; torch does not look
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} is damaged")
        return torch.load(path, map_location="cpu", weights_only=True)


def find_checkpoints(path: Path | str) -> dict[str, Path]:
    """Find the checkpoints of a path, by name: a file, a run's folder, or a folder of runs.

    Raises:
        InputError: nothing is found.
    """
    if not str(path):
        raise InputError("checkpoint is empty; give checkpoint=runs/NAME, a .pt file, or runs")
    path = Path(path)
    runs = sorted(path.rglob(LAST))
    if runs and not (path / LAST).exists():
        return {str(last.parent.relative_to(path)): last for last in runs}
    file = path / LAST if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"there is no {file}; give checkpoint=runs/NAME, a .pt file, or runs")
    return {path.name: file}


def load_model(path: Path, device: torch.device) -> tuple[DDS, dict[str, Any]]:
    """Load a checkpoint; return its model, in evaluation mode, and its contents.

    The weights are the averaged ones if it has them.

    Raises:
        InputError: it cannot be read.
    """
    checkpoint = load_checkpoint(path)
    with reading(path, "give another checkpoint"):
        model = build_model(ModelConfig(**checkpoint["config"]["model"])).to(device)
        model.load_state_dict(checkpoint["model"])
        if "average" in checkpoint:
            average = AveragedModel(model)
            average.load_state_dict(checkpoint["average"])
            model = cast(DDS, average.module)
    return model.eval(), checkpoint
