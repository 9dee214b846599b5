"""``train.compile``: the network's forward and backward pass in training as one compiled graph.

Batches of one shape take one graph for the whole run, and one more where a memory goes on from
batch to batch, since the first batch has none. Walks over segments are a node of it, see
`models.temporal.compiled`. Evaluation is not compiled.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler
from torch.nn.parallel import DistributedDataParallel

from bload.errors import InputError
from training.config import TrainJob

Backend = str | Callable[..., Any]


def check_compile(cfg: TrainJob, device: torch.device) -> None:
    """Refuse what cannot be compiled, before data are read.

    Raises:
        InputError: says what to install, or which key to change.
    """
    if not cfg.train.compile:
        return
    for key, value, other in (
        ("model.padding", cfg.model.padding, "computed"),
        ("train.exchange", cfg.train.exchange, "none"),
    ):
        if value != other:
            raise InputError(
                f"train.compile=true needs batches of one shape, and {key}={value} makes others; "
                f"set {key}={other}, or train.compile=false"
            )
    if cfg.model.checkpoint == "offload":
        raise InputError(
            "train.compile=true cannot keep activations in host memory; choose another "
            "model.checkpoint than offload, or set train.compile=false"
        )
    if device.type == "cpu":
        check_compiler()


def check_compiler() -> None:
    """Raise an `InputError` if torch finds no C++ compiler, which it needs on a CPU."""
    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError) as error:
        raise InputError(
            "train.compile=true needs a C++ compiler on a CPU, and torch finds none; install one "
            "(apt-get install g++), name it in the environment variable CXX, or set "
            "train.compile=false"
        ) from error


def compile_network(module: nn.Module, backend: Backend = "inductor") -> nn.Module:
    """Return what calls a `models.DDS`, or one under DDP, in compiled form.

    The module's own parameters are trained, and its names and its own calls stay as they are. DDP
    is not compiled; what it calls is, in parts as large as its buckets.
    """
    if isinstance(module, DistributedDataParallel):
        module.module = compile_network(module.module, backend)
        return module
    return torch.compile(module, backend=backend)  # type: ignore[return-value]


class FirstStep:
    """Says once how long the first step took, beside the ones after it."""

    AFTER = 3
    """Steps after which it speaks."""

    def __init__(self, speaks: bool) -> None:
        self.seconds: list[float] | None = [] if speaks else None

    def add(self, seconds: float) -> str:
        """Note what a step took; return the sentence, empty but after the third step."""
        if self.seconds is None:
            return ""
        self.seconds.append(seconds)
        if len(self.seconds) < self.AFTER:
            return ""
        first, *later = self.seconds
        self.seconds = None
        return f"compiling: the first step took {first:.0f} s; later ones {min(later):.2g} s"
