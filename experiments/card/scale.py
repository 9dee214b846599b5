"""How large each part of `experiments.gpu_card` is: on a card, and rehearsed on CPUs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bload import action_genome_lengths

LOADERS = ("naive", "mix", "sampling", "bucket", "ragged", "bload", "bload_exact")
"""The last is what the others are compared with."""
RECOMPUTED = ("none", "backbone", "0.5")
"""Values of ``model.checkpoint``."""


@dataclass(frozen=True)
class Subject:
    """A network, and what it is measured on."""

    model: str
    """A file in configs/model and configs/recipe."""
    frame_size: tuple[int, int]
    lengths: np.ndarray
    batch_frames: int
    """Slots of a batch."""
    most_slots: int | None = None
    """Longer blocks are not tried; None: memory decides."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Keys of the model's config that differ from its file."""


@dataclass(frozen=True)
class Scale:
    """How much of everything is measured."""

    subjects: tuple[Subject, ...]
    settings: tuple[tuple[bool, str], ...]
    """Compiled or not, and what is recomputed, where loaders are timed."""
    backend: str
    """What `torch.compile` compiles with."""
    rounds: int
    """Turns that each loader takes."""
    steps: int
    """Steps of a turn."""
    repeated_steps: int
    """Steps of each of two runs that are compared."""
    curve_steps: int
    """Steps of the loss curve."""
    curve_videos: int
    """Synthetic videos that it is trained on."""
    matrix: int
    """Rows and columns of the matrices whose product is timed."""


def full() -> Scale:
    """What a card does within 25 minutes."""
    lengths = action_genome_lengths()
    return Scale(
        subjects=(
            Subject("dds", (600, 800), lengths, batch_frames=94),
            Subject("dds_tiny", (64, 64), lengths, batch_frames=376, most_slots=1504),
        ),
        settings=tuple((on, choice) for on in (False, True) for choice in RECOMPUTED),
        backend="inductor",
        rounds=3,
        steps=2,
        repeated_steps=5,
        curve_steps=200,
        curve_videos=200,
        matrix=8192,
    )


def rehearsal() -> Scale:
    """Every part at a size that two CPU cores do in minutes; its figures say nothing of speed."""
    lengths = action_genome_lengths()
    lengths = lengths[lengths <= 12][::30]
    small = {"backbone": "resnet18", "width": 16, "heads": 2, "feedforward": 32, "queries": 4}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "temporal_layers": 1}
    return Scale(
        subjects=(
            Subject("dds", (32, 48), lengths, 12, most_slots=20, changes=small | layers),
            Subject("dds_tiny", (32, 32), lengths, 12, most_slots=20),
        ),
        settings=((False, "none"), (True, "0.5")),
        backend="aot_eager",  # a graph as on a card, without minutes of C++ compiling
        rounds=2,
        steps=1,
        repeated_steps=2,
        curve_steps=6,
        curve_videos=8,
        matrix=256,
    )
