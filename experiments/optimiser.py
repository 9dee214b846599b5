"""AdamW with the backbone's own rate, and rates that are a function of progress alone."""

import math
from dataclasses import dataclass

import torch
from torch import nn


def build_optimiser(
    model: nn.Module, lr: float, backbone_lr: float, weight_decay: float
) -> torch.optim.AdamW:
    """Three groups: backbone, everything else, and what is not decayed (norms, biases, queries)."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = backbone_lr if name.startswith("backbone.") else lr
        decay = weight_decay if parameter.dim() > 1 and "embed" not in name else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ],
        fused=True,
    )


SCHEDULES = ("cosine", "step")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Factor of the base rates, as a function of the epoch with its fraction.

    It has no state, so resuming needs none, and epochs may differ in steps.
    """

    name: str
    """``cosine`` to zero, or ``step``: a tenth from the share `step_at` of training on."""
    epochs: int
    warmup_epochs: float
    """Linear rise at the beginning."""
    step_at: float

    def __call__(self, epoch: float) -> float:
        warm = min(1.0, epoch / self.warmup_epochs) if self.warmup_epochs > 0 else 1.0
        done = epoch / self.epochs
        if self.name == "cosine":
            return warm * 0.5 * (1 + math.cos(math.pi * done))
        return warm * (1.0 if done < self.step_at else 0.1)


def set_rates(optimiser: torch.optim.Optimizer, factor: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = group["base_lr"] * factor
