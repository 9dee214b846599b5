"""Prints, for ZeRO 0 to 3 on two ranks, how far gradients are from those of sequences alone."""

import runpy
import sys
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.utils import safe_get_full_grad
from torch.nn.functional import cross_entropy

from bload import BlockLoader, mean_loss

FOLDER = Path(__file__).parents[2] / "examples/trainers"
sys.path.insert(0, str(FOLDER))
Source, Tagger = (runpy.run_path(str(FOLDER / "task.py"))[name] for name in ("Source", "Tagger"))
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled first


def tagger():
    torch.manual_seed(0)
    return Tagger()


def alone(sequences):
    """The gradient of the mean over the sequences, each alone."""
    model = tagger()
    items = [Source().read(s, 0, Source.lengths[s]) for s in sequences]
    logits = [model.head(model.gru(frames[None])[0][0]) for frames, _ in items]
    cross_entropy(torch.cat(logits), torch.cat([kinds for _, kinds in items])).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def compare(stage, **scaling):
    model = tagger()
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": stage},
        "optimizer": {"type": "Adam", "params": {"lr": 0.0, "torch_adam": True}},
    }
    engine, *_ = deepspeed.initialize(model=model, config=config)
    assert engine.gradient_clipping() == 1  # the default
    for step, batches in enumerate(BlockLoader(Source(), micro_batches=2).by_step()):
        for batch in batches:
            engine.set_gradient_accumulation_boundary(batch.ends_step)
            engine.backward(mean_loss(engine(batch), batch), **scaling)
            if batch.ends_step:
                grads = [safe_get_full_grad(parameter) for parameter in model.parameters()]
            engine.step()
        everywhere = [None] * 2
        dist.all_gather_object(everywhere, [b.segments.sequence_S.tolist() for b in batches])
        wanted = alone([s for rank in everywhere for batch in rank for s in batch])
        grad = torch.cat([grad.flatten() for grad in grads])
        share = float(grad.norm() / wanted.norm())
        if dist.get_rank() == 0:
            distance = float((grad / share - wanted).abs().max() / wanted.abs().max())
            print(f"{stage} {step} {share:.4f} {distance:.1e}", flush=True)


if __name__ == "__main__":
    deepspeed.init_distributed("gloo")
    for stage in range(4):
        compare(stage, scale_wrt_gas=False)
    compare(0)
