"""Training steps of the first version, c2e38f9, in its own words: not for this version's packages.

    cd FOLDER && PYTHONPATH=FOLDER python THIS_FILE PLAN.npz OVERRIDE...

FOLDER has the files of that commit. A line ``take 5`` on the standard input is answered by one with
the frames, seconds and losses of 5 steps, ``calls`` by the operators of a forward and a backward
pass. The blocks are those of the plan in the file, read before the clock starts.
"""
# mypy: ignore-errors
# ruff: noqa: I001

import json
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from torch import nn

from call_counter import CallCounter

from bload import BlockLoader
from bload.packers import PACKERS
from bload.plan import Plan
from bload.training.config import NOT_COMPUTED, plain, register, without
from bload.training.optimiser import Schedule, build_optimiser, set_rates
from datasets.build import build_letterbox, build_source
from datasets.gaps import frame_gaps
from models import Criterion, build_model, counts, to_tensors

CPU = torch.device("cpu")


class Steps:
    """The network, its data, and steps as ``train.py`` takes them."""

    def __init__(self, cfg, plan):
        job = self.job = cfg["train"]
        source = build_source("train", **cfg["dataset"])
        PACKERS["given"] = lambda lengths, t_max, rng: Plan(t_max, lengths, **plan)
        frames = job["batch_frames"]
        self.loader = BlockLoader(source, "given", batch_frames=frames, names=source.videos)
        self.letterbox = build_letterbox(source, cfg["dataset"]["augment"], job["seed"])
        torch.manual_seed(job["seed"])
        self.model = build_model(**without(cfg["model"], "name", *NOT_COMPUTED))
        self.model.recompute = False
        self.queries, self.criterion = cfg["model"]["queries"], Criterion(**cfg["loss"])
        rates = job["lr"], job["backbone_lr"], job["weight_decay"]
        self.optimiser = build_optimiser(self.model, *rates)
        times = job["epochs"], job["warmup_epochs"], job["step_at"]
        self.schedule = Schedule(job["schedule"], *times)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.batches = iter(self.loader)
        self.take(2)  # as `experiments.turns.Way` does, the first steps are slower
        self.batches = iter(self.loader)

    def backward(self, batch):
        """Losses and gradient norm of a batch."""
        gap_BT = frame_gaps(batch)
        batch, extent_BT2 = self.letterbox(batch, CPU, 0)
        targets = to_tensors(batch.targets, CPU)
        total = counts(targets, self.queries)
        known = {"bptt": None, "extent_BT2": extent_BT2, "gap_BT": gap_BT}
        outputs = self.model(batch.frames_BT, batch.start_BT, batch.valid_BT, **known)
        losses = self.criterion(outputs, targets, batch.valid_BT, total)
        self.optimiser.zero_grad()
        losses["loss"].backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.job["clip_norm"])
        return losses, norm

    def take(self, count):
        """Take so many steps on blocks that are in memory."""
        ready, losses = list(islice(self.batches, count)), []
        first = self.loader.step - count
        began = time.perf_counter()
        for step, batch in enumerate(ready, first):
            seed = np.random.SeedSequence([self.job["seed"], 0, step, 0])
            torch.manual_seed(int(seed.generate_state(1)[0]))
            set_rates(self.optimiser, self.schedule((step + 1) / len(self.loader)))
            found, norm = self.backward(batch)
            losses.append(torch.stack([norm, *found.values()]).tolist()[1])
            self.optimiser.step()
        seconds = time.perf_counter() - began
        return {"frames": sum(int(b.valid_BT.sum()) for b in ready), "seconds": seconds} | {
            "losses": losses
        }


def main():
    torch.set_num_threads(1)
    register()
    with initialize_config_dir(str(Path("configs").absolute()), version_base="1.3"):
        cfg = plain(compose("train", sys.argv[2:]))
    steps = Steps(cfg, dict(np.load(sys.argv[1])))
    for line in sys.stdin:
        word, _, count = line.strip().partition(" ")
        if word == "take":
            answer = steps.take(int(count))
        else:
            batch = next(steps.batches)
            with CallCounter() as counter:
                steps.backward(batch)
            answer = sum(counter.calls.values())
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
