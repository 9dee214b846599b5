"""AdamW, with Muon where it suits, and learning rates as a function of progress alone."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from training.muon import Muon

LAYERS = ("encoder.", "object_branch.", "relation_branch.")
"""Parts of the network whose matrices lie between hidden layers."""


class Optimisers:
    """List of optimisers that acts as one, with their groups and states in order."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, part_state in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(part_state)


Optimiser = torch.optim.Optimizer | Optimisers


def build_optimiser(
    model: nn.Module,
    lr: float,
    backbone_lr: float,
    weight_decay: float,
    muon_lr: float | None = None,
) -> Optimiser:
    """Build AdamW for everything, or with a `muon_lr` Muon for the matrices of transformer layers.

    The backbone has its own rate; norms, biases and embeddings are not decayed. Muon's updates are
    scaled to the size of AdamW's, so that its rate is of the same order (arXiv 2502.16982). Groups
    do not depend on the rates, so a checkpoint fits other ones.
    """
    groups: dict[tuple[bool, bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        matrix = parameter.dim() > 1 and "embed" not in name
        uses_muon = muon_lr is not None and matrix and name.startswith(LAYERS)
        key = uses_muon, name.startswith("backbone."), matrix
        groups.setdefault(key, []).append(parameter)
    muon_groups: list[dict[str, Any]] = []
    adamw_groups: list[dict[str, Any]] = []
    for (uses_muon, in_backbone, matrix), parameters in groups.items():
        rate = muon_lr if uses_muon else backbone_lr if in_backbone else lr
        group = {"params": parameters, "lr": rate, "base_lr": rate}
        group["weight_decay"] = weight_decay if matrix else 0.0
        (muon_groups if uses_muon else adamw_groups).append(group)
    adamw = torch.optim.AdamW(adamw_groups, fused=True)
    if not muon_groups:
        return adamw
    return Optimisers(Muon(muon_groups), adamw)


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """Factor of the base rates, as a function of the epoch with its fraction.

    It is stateless, so resuming needs nothing, and epochs may differ in steps.
    """

    name: str
    """``cosine`` to zero, or ``step``: a tenth after the fraction `step_at` of training."""
    epochs: int
    warmup_epochs: float
    """Length of the linear rise at the beginning."""
    step_at: float

    def __call__(self, epoch: float) -> float:
        warmup_factor = min(1.0, epoch / self.warmup_epochs) if self.warmup_epochs > 0 else 1.0
        progress = epoch / self.epochs
        if self.name == "cosine":
            return warmup_factor * 0.5 * (1 + math.cos(math.pi * progress))
        return warmup_factor * (1.0 if progress < self.step_at else 0.1)


def set_rates(optimiser: Optimiser, factor: float) -> None:
    """Set the learning rate of every group to its base rate times `factor`."""
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * factor
