"""What all parts of `experiments.gpu_card` measure with: a device, networks and batches for it."""

import gc
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml
from torch._subclasses.fake_tensor import FakeTensorMode

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.build import build_letterbox
from datasets.config import DatasetConfig
from experiments.card.frames import FramesInMemory
from experiments.card.peak import Peak, find_peak
from experiments.card.scale import LOADERS, Scale, Subject
from models import build_criterion, build_model
from models.config import LossConfig, ModelConfig
from models.cost import forward_flops
from models.temporal.layers import walk_orders
from training.build import Training, build_network, build_training
from training.config import CONFIGS, TrainConfig, TrainJob
from training.loader_config import loader_schema
from training.ranks import Ranks

SLOTS = 8
"""FLOPs are counted for blocks of so many slots and of twice as many; a slot is the difference."""


class Bench:
    """A device, and how much of everything is measured on it."""

    def __init__(self, device: torch.device, scale: Scale) -> None:
        self.device, self.scale = device, scale
        self._sources: dict[str, VideoSource] = {}
        self._flops: dict[str, float] = {}

    @cached_property
    def peak(self) -> Peak:
        """The card's peak in bf16."""
        return find_peak(self.device, self.scale.matrix)

    def source(self, subject: Subject) -> VideoSource:
        """The videos of a subject, made once."""
        if subject.model not in self._sources:
            made = FramesInMemory(subject.lengths, subject.frame_size)
            self._sources[subject.model] = made
        return self._sources[subject.model]

    def flops(self, subject: Subject) -> float:
        """FLOPs that a slot adds to a forward pass, found once; a multiply-add counts as two."""
        if subject.model not in self._flops:
            sizes, nothing = (SLOTS, 2 * SLOTS), (None,) * 5
            orders = {slots: walk_orders(torch.arange(slots)[None] == 0, None) for slots in sizes}
            with FakeTensorMode(allow_non_fake_inputs=True), torch.device(self.device):
                model = build_model(job_of(subject, "none", "off").model).train()
                pixels = torch.empty(1, 2 * SLOTS, 3, *subject.frame_size, dtype=torch.uint8)
                flags_BT = torch.zeros(1, 2 * SLOTS, dtype=torch.bool)
                less, more = (
                    forward_flops(
                        model, (pixels[:, :slots], flags_BT[:, :slots], *nothing, orders[slots])
                    ).total()
                    for slots in sizes
                )
            self._flops[subject.model] = (more - less) / SLOTS
        return self._flops[subject.model]

    def loader(self, subject: Subject, name: str = LOADERS[-1]) -> BlockLoader:
        """Its loader; batches are in page-locked memory if there is a card."""
        pin = self.device.type == "cuda"
        source, frames = self.source(subject), subject.batch_frames
        return BlockLoader(source, name, batch_frames=frames, rank=0, world_size=1, pin_memory=pin)

    def training(
        self,
        subject: Subject,
        recompute: str = "none",
        compiled: bool = False,
        amp: str = "bf16",
        source: VideoSource | None = None,
        device: torch.device | None = None,
    ) -> Training:
        """A network of a subject, the same weights each time, and what training it takes.

        Args:
            recompute: as ``model.checkpoint``.
            compiled: its per-frame part, by `compile_network`.
            amp: as ``train.amp``.
            source: whose frames come in; None: `source` of the subject.
            device: another one than the bench's.
        """
        job = job_of(subject, recompute, amp)
        device, source = device or self.device, source or self.source(subject)
        torch.manual_seed(job.train.seed)
        model = build_network(job, device)
        if compiled:
            compile_network(model, self.scale.backend)
        letterbox = build_letterbox(source, None, job.train.seed)
        ranks = Ranks(0, 1, device)
        return build_training(job.train, ranks, model, build_criterion(job.loss), letterbox)

    def wait(self) -> None:
        """Return once the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def release(self) -> None:
        """Give back what networks that are gone have left."""
        torch.compiler.reset()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def compile_network(model: Any, backend: str) -> None:
    """Compile the per-frame part of a `models.DDS`, in place."""
    model.encode_alone = torch.compile(model.encode_alone, backend=backend)


def job_of(subject: Subject, recompute: str, amp: str) -> TrainJob:
    """The job of ``train.py model=...`` with these choices, without Hydra."""
    recipe = _read(CONFIGS / "recipe" / f"{subject.model}.yaml")
    model = _read(CONFIGS / "model" / f"{subject.model}.yaml")
    train = TrainConfig(**recipe["train"])
    return TrainJob(
        loader=loader_schema(LOADERS[-1])(LOADERS[-1]),
        dataset=DatasetConfig("memory", "", list(subject.frame_size)),
        model=ModelConfig(**model | subject.changes | {"checkpoint": recompute}),
        loss=LossConfig(**recipe["loss"]),
        train=replace(train, batch_frames=subject.batch_frames, amp=amp),
    )


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    return values
