"""AdamW, with Muon where it suits, and learning rates as a function of progress alone.

M matrices of one shape, R rows, C columns.
"""

import math
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from training.config import TrainConfig

LAYERS = ("encoder.", "object_branch.", "relation_branch.")
"""Parts of the network whose matrices Muon trains."""


class Muon(torch.optim.Muon):
    """Muon of PyTorch, but it orthogonalises all matrices of one shape in one call, in float32.

    PyTorch's own takes them one by one, in bfloat16: the 46 matrices of ``dds_tiny`` in 14 to 45 ms
    on CPUs, here in 7 to 8. Options and state are those of `torch.optim.Muon` with Nesterov
    momentum and ``match_rms_adamw``.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append((parameter, parameter.grad))
            for pairs in by_shape.values():
                self._step(pairs, group)

    def _step(self, pairs: list[tuple[Tensor, Tensor]], group: dict[str, Any]) -> None:
        for parameter, _ in pairs:
            if not self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        parameters, gradients = ([*column] for column in zip(*pairs, strict=True))
        momenta = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        updates = torch._foreach_lerp(gradients, momenta, group["momentum"])
        updates_MRC = orthogonalise(
            torch.stack(updates), group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        rate = group["lr"] * 0.2 * max(updates_MRC.shape[1:]) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_sub_(parameters, [*updates_MRC.unbind()], alpha=rate)


def orthogonalise(
    matrices_MRC: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Move all singular values of the matrices to about 1, by Newton-Schulz iteration.

    The polynomial and its coefficients are Keller Jordan's: fast rather than exact, it leaves the
    values between 0.7 and 1.2 (https://kellerjordan.github.io/posts/muon).
    """
    a, b, c = coefficients
    is_tall = matrices_MRC.shape[1] > matrices_MRC.shape[2]
    x = (matrices_MRC.mT if is_tall else matrices_MRC).float()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices_MRC.dtype)


def build_optimisers(model: nn.Module, cfg: TrainConfig) -> list[torch.optim.Optimizer]:
    """Build AdamW for everything, or with `muon_lr` Muon for the matrices of transformer layers.

    The backbone has its own rate; norms, biases and embeddings are not decayed. Muon's updates are
    scaled to the size of AdamW's, so that its rate is of the same order (arXiv 2502.16982).
    """
    groups: dict[tuple[bool, bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        matrix = parameter.dim() > 1 and "embed" not in name
        is_layer = matrix and parameter.dim() == 2 and name.startswith(LAYERS)
        key = is_layer and cfg.muon_lr is not None, name.startswith("backbone."), matrix
        groups.setdefault(key, []).append(parameter)
    muon_groups: list[dict[str, Any]] = []
    adamw_groups: list[dict[str, Any]] = []
    for (uses_muon, in_backbone, matrix), parameters in groups.items():
        rate = cfg.muon_lr if uses_muon else cfg.backbone_lr if in_backbone else cfg.lr
        group = {"params": parameters, "lr": rate, "base_lr": rate}
        group["weight_decay"] = cfg.weight_decay if matrix else 0.0
        (muon_groups if uses_muon else adamw_groups).append(group)
    adamw = torch.optim.AdamW(adamw_groups, fused=True)
    return [Muon(muon_groups), adamw] if muon_groups else [adamw]


def rate_factor(cfg: TrainConfig, epochs_done: float) -> float:
    """Return the factor of the base rates, as a function of the epochs done, with their fraction.

    It is stateless, so resuming needs nothing, and epochs may differ in steps. After the linear
    rise it falls to zero (``cosine``), or to a tenth after the share `step_at` (``step``).
    """
    warmup = min(1.0, epochs_done / cfg.warmup_epochs) if cfg.warmup_epochs > 0 else 1.0
    progress = epochs_done / cfg.epochs
    if cfg.schedule == "cosine":
        return warmup * 0.5 * (1 + math.cos(math.pi * progress))
    return warmup * (1.0 if progress < cfg.step_at else 0.1)
