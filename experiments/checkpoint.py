"""Checkpoints: written whole or not at all, read without executing anything."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from omegaconf import MISSING

from bload.errors import InputError
from experiments.config import NOT_COMPUTED, ModelConfig


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write `state` so that `path` always holds a whole checkpoint, the old one or the new."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        torch.save(state, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def load_checkpoint(path: Path | str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint; a folder stands for the ``last.pt`` in it.

    Raises:
        InputError: it is missing, or is not a checkpoint of `train.py`.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "last.pt"
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path}; give a .pt file or the folder of a run")
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # what a broken file makes the unpickler raise has no bounds
        raise InputError(
            f"{path} ({path.stat().st_size} bytes) cannot be read as a checkpoint "
            f"({type(error).__name__}): it is broken or something else; give another, or start "
            "anew with run.resume=never"
        ) from error
    if not isinstance(state, dict) or not {"model", "config"} <= state.keys():
        raise InputError(f"{path} is not a checkpoint of train.py; give a last.pt or best.pt")
    return state


def check_same_model(saved: dict[str, Any], wanted: dict[str, Any], path: Path | str) -> None:
    """Refuse a checkpoint whose model config differs in what is computed, naming what differs."""
    # A key that came later stands for what was done before it: its default.
    before = {key.name: key.default for key in fields(ModelConfig) if key.default != MISSING}
    before |= saved
    differs = [
        f"model.{key} was {before.get(key)} and is {wanted.get(key)}"
        for key in {**wanted, **saved}
        if key not in NOT_COMPUTED and before.get(key) != wanted.get(key)
    ]
    if differs:
        raise InputError(
            f"the checkpoint {path} is of another model: {'; '.join(differs)}; restore these "
            "settings or start anew with run.resume=never"
        )
