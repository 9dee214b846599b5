"""Run ``python examples/trainers/with_ray.py``; if a worker is lost for good, the rest go on."""

from pathlib import Path
from tempfile import TemporaryDirectory

import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model
from task import Source, Tagger, checked, resume, save

from bload import BlockLoader, mean_loss


def train():
    tagger = checked(Tagger())
    model = prepare_model(tagger)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = BlockLoader(Source(), num_workers=1, elastic=True)  # on the workers that are there
    parts = {"model": tagger, "optimiser": optimiser, "loader": loader}
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            resume(f"{folder}/parts.pt", parts)
    for epoch in range(loader.epoch, 8):
        loader.set_epoch(epoch)  # new blocks
        for batch in loader:
            optimiser.zero_grad()
            mean_loss(model(batch.to(get_device())), batch).backward()
            optimiser.step()
            if loader.step % 4 == 0 or loader.step == loader.steps:
                with TemporaryDirectory() as folder:
                    save(f"{folder}/parts.pt", parts)
                    checkpoint = Checkpoint(folder) if dist.get_rank() == 0 else None
                    ray.train.report({"epoch": epoch}, checkpoint=checkpoint)


storage = Path("ray_run").absolute().as_uri()
run = RunConfig(name="tagger", storage_path=storage, failure_config=FailureConfig(max_failures=3))
TorchTrainer(train, scaling_config=ScalingConfig(num_workers=(1, 2)), run_config=run).fit()
