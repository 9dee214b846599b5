"""Trained models: which checkpoints a path stands for, and the model in one."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from bload.errors import InputError
from experiments.checkpoint import load_checkpoint
from experiments.config import NOT_COMPUTED, without
from models import build_model


def find_checkpoints(path: Path | str) -> list[Path]:
    """The checkpoints under a file, a run folder, or a folder of runs or of checkpoints.

    A file stands for itself and a folder that holds ``last.pt`` (a run) for that; any other
    folder for every ``*.pt`` in it and for what its subfolders stand for, in order of names. A run
    that was configured but has no checkpoint yet stands for the ``last.pt`` it lacks, so that it
    is not passed over in silence. Raises `InputError` if nothing is found.
    """
    path = Path(path)
    found = _under(path) if path.is_dir() else [path]
    if not found:
        raise InputError(
            f"there is no checkpoint in {path}; give a .pt file, the folder of a run, or a folder "
            "of these"
        )
    return found


def _under(folder: Path) -> list[Path]:
    if (folder / "last.pt").exists():
        return [folder / "last.pt"]
    files = sorted(folder.glob("*.pt"))
    if not files and (folder / "config.json").exists():
        return [folder / "last.pt"]
    folders = sorted(child for child in folder.iterdir() if child.is_dir())
    return files + [path for child in folders for path in _under(child)]


def short_name(path: Path, asked: Path | str) -> str:
    """What tells a found checkpoint from the others: its place under `asked`; a run's folder."""
    asked = Path(asked)
    short = path.relative_to(asked) if path != asked else Path(path.name)
    return str(short.parent if short.name == "last.pt" and len(short.parts) > 1 else short)


def load_model(path: Path, device: torch.device) -> tuple[nn.Module, dict[str, Any]]:
    """The model of a checkpoint with its weights, and the checkpoint.

    Raises `InputError` if it cannot be read or holds no model of this version.
    """
    checkpoint = load_checkpoint(path, device)
    try:
        sizes = without(checkpoint["config"]["model"], "name", *NOT_COMPUTED)
        model = build_model(**sizes).to(device)
        model.load_state_dict(checkpoint["model"])
        if "average" in checkpoint:
            average = AveragedModel(model)
            average.load_state_dict(checkpoint["average"])
            model = average.module
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} holds a model that this version cannot build ({reason}); evaluate it with "
            "the version that trained it"
        ) from error
    return model, checkpoint
