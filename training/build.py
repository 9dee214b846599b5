"""Objects shared by the steps of a run, with the options that change them.

B blocks, T slots.
"""

import gc
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from bload import BlockLoader, BlockSampler
from datasets.letterbox import Letterbox
from datasets.source import VideoSource
from models import build_model
from models.backbone import freeze_first_stage
from models.criterion import Criterion
from models.dds import DDS
from models.network_input import NetworkInput
from models.outputs import trained_fields
from training.ablations import Ablation
from training.config import TrainJob
from training.data import Data, ToInputs
from training.optimiser import build_optimisers, rate_factor
from training.ranks import Ranks, autocast, free_memory
from training.sync import mean_weights, synchronise

MEMORY_SHARES = {"cuda": 0.8, "cpu": 0.45}
"""Share of the free memory to plan for. The rest is for temporaries and losses, and on CPUs also
for freed tensors that the C library keeps: up to three quarters of what is in use."""


@dataclass(frozen=True)
class Training:
    """Objects that the steps of a run share, from `build_training`."""

    cfg: TrainJob
    """With the number of epochs to train, also where ``train.slots`` says it."""
    ranks: Ranks
    model: DDS
    network: nn.Module
    """The model, or the DDP wrapper that synchronises its gradients."""
    average: AveragedModel | None
    """Moving average of the weights, evaluated in place of the model."""
    criterion: Criterion
    to_inputs: ToInputs
    optimisers: list[torch.optim.Optimizer]
    ablation: Ablation
    """Applied to every batch first; the identity but in ablations."""
    loader: BlockLoader

    @property
    def has_own_weights(self) -> bool:
        """True if every rank trains weights of its own, see `training.sync`."""
        return self.cfg.train.sync != "allreduce" and self.ranks.world_size > 1

    def state_dict(self) -> dict[str, Any]:
        """Return the state dicts that steps change, by name of the attribute."""
        averaged = self.average and self.average.n_averaged  # before, it has first weights
        parts = {"model": self.model, "average": self.average if averaged else None}
        state: dict[str, Any] = {name: part.state_dict() for name, part in parts.items() if part}
        return state | {"optimisers": [part.state_dict() for part in self.optimisers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        if self.average and "average" in state:
            self.average.load_state_dict(state["average"])

    def set_rates(self, epochs_done: float) -> float:
        """Set all learning rates by the epochs done; return that of ``train.lr``."""
        factor = rate_factor(self.cfg.train, epochs_done)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["base_lr"] * factor
        return factor * self.cfg.train.lr

    def after_step(self) -> None:
        """Let ranks with weights of their own agree after a step, and update the average."""
        if self.has_own_weights:
            step, steps, cfg = self.loader.step, self.loader.account.steps, self.cfg.train
            synchronise(cfg.sync, self.model, step, steps, cfg.sync_every)
        if self.average:
            self.average.update_parameters(self.model)

    def mean_over_ranks(self) -> AbstractContextManager[None]:
        """Give all weights their mean over ranks within this context; all ranks enter it."""
        if not self.has_own_weights:
            return nullcontext()
        return mean_weights([module for module in (self.model, self.average) if module])


def choose_kernels(amp: str, deterministic: bool, one_shape: bool) -> None:
    """Enable the fastest GPU kernels that a config allows, for this process.

    TF32 serves what ``amp=auto`` and ``bf16`` leave in float32. cuDNN tries out convolutions if all
    batches have one shape.
    """
    torch.backends.cudnn.benchmark = one_shape and not deterministic
    tf32 = amp != "off" and not deterministic
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def choose_recomputed(cfg: TrainJob, ranks: Ranks, sampler: BlockSampler) -> float:
    """Choose the least share of pictures to recompute so that a step fits on every rank.

    It is for ``model.recompute=auto``, and prints the memory that a step takes.
    """
    from models.cost import GIB, measure_cost  # rarely needed

    height, width = cfg.dataset.frame_size
    shape_BT = sampler.planner.batch_slots // sampler.plan.t_max, sampler.plan.t_max
    precision = autocast(cfg.train.amp, ranks.device)
    cost = measure_cost(cfg.model, (height, width), shape_BT, precision, ranks.device, False)
    free = MEMORY_SHARES[ranks.device.type] * free_memory(ranks.device)
    share: float = max(ranks.gather(cost.least_share(free)))
    whole, least, chosen = (cost.step_bytes(part) / GIB for part in (0, 1, share))
    ranks.print(
        f"a step of {cost.frames} frames takes about {whole:.1f} GiB, or {least:.1f} with "
        f"activations recomputed; {free / GIB:.1f} GiB are there: recomputing {share:.0%} of the "
        f"pictures, which takes {chosen:.1f} GiB (model.recompute=auto)"
    )
    return share


def open_training(
    cfg: TrainJob, ranks: Ranks, data: Data, saved: Mapping[str, Any] = {}
) -> Training:
    """Build the model of a job on this rank's device, with its optimiser, losses and inputs.

    Args:
        saved: contents of the checkpoint to resume.
    """
    sampler, recomputed = data.loader.sampler, 1.0
    if cfg.model.recompute == "auto":
        share = saved.get("recomputed")
        recomputed = choose_recomputed(cfg, ranks, sampler) if share is None else share
    exchange = cfg.train.exchange == "frames" and ranks.world_size > 1
    torch.manual_seed(cfg.train.seed)
    gc.collect()  # a recorded network refers to itself
    torch.cuda.empty_cache()  # of the run before, which its peak would have
    with ranks.agree_on_errors():
        model = build_model(cfg.model, recomputed_share=recomputed, exchange=exchange)
        model = model.to(ranks.device)
    model.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if cfg.model.weights:
        freeze_first_stage(model.backbone)
    one_shape = sampler.plan.has_one_size and not cfg.model.skip_padding
    choose_kernels(cfg.train.amp, cfg.train.deterministic, one_shape)
    train = cfg.train
    if train.slots:  # the epochs nearest to them; the warm-up keeps its share
        epochs = saved.get("epochs") or max(1, round(train.slots / data.loader.account.processed))
        warmup_epochs = train.warmup_epochs * epochs / train.epochs
        cfg = replace(cfg, train=replace(train, epochs=epochs, warmup_epochs=warmup_epochs))
    return build_training(cfg, ranks, model, data.train, data.loader)


def build_training(
    cfg: TrainJob, ranks: Ranks, model: DDS, source: VideoSource, loader: BlockLoader
) -> Training:
    """Build the `Training` of a model that is already on its device, on the videos of `source`."""
    train, example = cfg.train, None
    network: nn.Module = model
    average_fn = get_ema_multi_avg_fn(train.ema) if train.ema else None
    average = AveragedModel(model, multi_avg_fn=average_fn) if average_fn else None
    to_inputs = ToInputs(Letterbox(source, cfg.dataset.augment, train.seed), ranks.device)
    if train.cuda_graph == "auto":
        from training.graph import record_if_possible  # rarely needed

        network, example = record_if_possible(cfg, ranks, model, loader, to_inputs)
    training = Training(
        cfg=cfg,
        ranks=ranks,
        model=model,
        network=network,
        average=average,
        criterion=Criterion(**vars(cfg.loss)),
        to_inputs=to_inputs,
        optimisers=build_optimisers(model, train),
        ablation=Ablation(train.starts, train.padding, train.seed),
        loader=loader,
    )
    if ranks.world_size == 1 or training.has_own_weights:
        return training
    return replace(training, network=wrap_in_ddp(network, ranks, example))


def wrap_in_ddp(
    network: nn.Module, ranks: Ranks, example: NetworkInput | None = None
) -> DistributedDataParallel:
    """Wrap a model in DDP so that gradients are summed in one order from step 0 on.

    DDP rearranges its buckets after the first backward pass. That changes the order of sums over
    three or more ranks, so the first step of a resumed run would differ. A backward pass on two
    black frames, here, gets the rearrangement over with; on an example of what is recorded, if the
    network is, since a graph gives all gradients at once.
    """
    parallel = DistributedDataParallel(network, gradient_as_bucket_view=True)
    parallel.broadcast_buffers = False  # they are constant
    pixels_BTCHW = torch.zeros(1, 2, 3, 64, 64, dtype=torch.uint8, device=ranks.device)
    zeros_BT = torch.zeros(1, 2, dtype=torch.bool, device=ranks.device)
    inputs = example or NetworkInput(pixels_BTCHW, zeros_BT, gap_BT=zeros_BT.float())
    torch.stack([values.sum() for values in trained_fields(parallel(inputs))]).sum().backward()
    parallel.zero_grad()
    return parallel
