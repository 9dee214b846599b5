"""Ranks that share what they learn in four ways (``train.sync``): loss at equal data, and bytes.

    python -m experiments.sync_loss            # 16 minutes on two CPU cores with many other jobs
    python -m experiments.sync_loss --quick    # fewer sequences, no more than two ranks, one seed

Ranks on the CPU (gloo) train a small GRU on feature sequences, each of which is seen once, as in
the online training of Ergen and Kozat (arXiv 1710.08744). A step trains as many slots whatever the
number of ranks, so all runs take the same steps on the same data: dealt to the ranks at random, or
to each rank the sequences of its own classes. The loss is that of sequences that nobody trained on:
with the mean of all ranks' weights, which `train.py` evaluates and saves, and the mean of the
losses that each rank's own weights give. Bytes are those that a rank's process wrote. The rows are
written to runs/sync_loss/sync_loss.json; the figures to expect are in results/sync_loss.txt.
"""

import json
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from bload import BlockLoader, InputError
from experiments.measured import measure
from experiments.sequences import FeatureSequences, new_classifier, train_on
from training.sync import SYNCS, is_due, mean_of_ranks, trained

FULL = {
    "ranks": [1, 2, 4],
    "sequences": 3_000,
    "slots": 256,
    "every": 8,
    "rate": 3e-3,
    "seeds": 3,
}
QUICK = {"ranks": [1, 2], "sequences": 1_000, "seeds": 1}
TEXTS = {
    "ranks": "numbers of ranks",
    "sequences": "to train on, each once",
    "slots": "of a step, all ranks together",
    "every": "steps between averages of sync=local",
    "rate": "learning rate of Adam",
    "seeds": "runs of each row, with sequences of their own",
}
SHORTEST, LONGEST = 4, 16
"""Frames of a sequence; a block has as many slots as the longest."""
HELD_OUT = 256
"""Sequences, all of the longest length, on which losses are measured."""
DATA = ("dealt", "own")
"""Blocks of all sequences are dealt to the ranks at random; or every rank has its own classes."""
SHARES = (25, 50, 100)
"""Percent of the data after which they are."""


@dataclass(frozen=True)
class Part:
    """The sequences of one of several ranks: of two classes on two ranks, of one on four."""

    source: FeatureSequences
    rank: int
    ranks: int

    @property
    def lengths(self) -> list[int]:
        return self.source.lengths[self.rank :: self.ranks]

    def read(self, sequence: int, first: int, length: int) -> tuple[Tensor, list[int]]:
        return self.source.read(sequence * self.ranks + self.rank, first, length)


def run(
    ranks: list[int], sequences: int, slots: int, every: int, rate: float, seeds: int
) -> dict[str, Any]:
    """Train every row, print the table and return it; `TEXTS` says what the arguments are.

    Raises:
        InputError: an option is out of range.
    """
    if min(*ranks, sequences, every, seeds) < 1 or not rate > 0:
        raise InputError(
            f"--ranks is {ranks}, --sequences {sequences}, --every {every}, --rate {rate} and "
            f"--seeds {seeds}; all have to be above 0"
        )
    if any(slots % (number * LONGEST) for number in ranks) or slots < 1:
        raise InputError(f"--slots is {slots}; give a multiple of {LONGEST} x each of {ranks}")
    rows: list[dict[str, Any]] = []
    for number in ranks:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(_serve, (number, folder, sequences, slots, every, rate, seeds), number)
            rows += json.loads(Path(folder, "rows.json").read_text())
    print(_table(pd.DataFrame(rows)))
    return {"rows": rows}


def _serve(
    rank: int,
    ranks: int,
    folder: str,
    sequences: int,
    slots: int,
    every: int,
    rate: float,
    seeds: int,
) -> None:
    """Entry point of a rank: train the rows of so many ranks, which rank 0 writes down."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks
    )
    me, _ = dist.new_subgroups(1)
    rows = []
    for seed in range(seeds):
        lengths = np.random.default_rng(seed).integers(SHORTEST, LONGEST + 1, sequences)
        source = FeatureSequences(lengths, seed)
        features_BTF, classes = _held_out(seed)
        for data, sync in product(DATA, SYNCS) if ranks > 1 else [("dealt", "allreduce")]:
            mine, group = (source, None) if data == "dealt" else (Part(source, rank, ranks), me)
            loader = BlockLoader(
                mine,
                "bload",
                batch_frames=slots // ranks,
                t_max=LONGEST,
                seed=seed,
                process_group=group,
            )
            figures = _train(loader, sync, every, rate, features_BTF, classes)
            rows.append({"ranks": ranks, "data": data, "sync": sync, "seed": seed, **figures})
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.destroy_process_group()


def _held_out(seed: int) -> tuple[Tensor, Tensor]:
    """Features ``(B, T, F)`` of sequences that nobody trains on, and their classes ``(B,)``."""
    source = FeatureSequences([LONGEST] * HELD_OUT, seed, held_out=True)
    read = [source.read(sequence, 0, LONGEST) for sequence in range(HELD_OUT)]
    return torch.stack([frames for frames, _ in read]), torch.tensor([one[0] for _, one in read])


@torch.no_grad()
def _loss(model: nn.Module, features_BTF: Tensor, class_B: Tensor) -> float:
    """Mean cross-entropy over all frames."""
    start_BT = torch.zeros(features_BTF.shape[:2], dtype=torch.bool)
    start_BT[:, 0] = True
    logits_BTK, _ = model(features_BTF, start_BT)
    wanted_BT = class_B[:, None].expand(start_BT.shape)
    return float(nn.functional.cross_entropy(logits_BTK.flatten(0, 1), wanted_BT.flatten()))


def _train(
    loader: BlockLoader,
    sync: str,
    every: int,
    rate: float,
    features_BTF: Tensor,
    class_B: Tensor,
) -> dict[str, Any]:
    """Train on every block once; return the losses, and how far ranks are apart in the end.

    `train_on` divides by the slots of a rank, of which all have as many: the gradients of all
    ranks average to that of the whole step.
    """
    model, optimiser = new_classifier()
    optimiser.param_groups[0]["lr"] = rate
    parallel = DistributedDataParallel(model) if sync == "allreduce" else model
    steps = min(_gathered(loader.steps))  # of their own sequences ranks may have one block more
    points = {max(1, steps * share // 100): share for share in SHARES}
    losses, sent = {}, 0
    for step, batch in zip(range(steps), loader, strict=False):
        before = _written()
        train_on(parallel, optimiser, batch)
        SYNCS[sync](trained(model), is_due(step, steps, every))
        sent += _written() - before
        if share := points.get(step + 1):
            mean = mean_of_ranks(model)
            losses[f"loss_{share}"] = _loss(mean, features_BTF, class_B)
    mean_P, own_P = (parameters_to_vector(one.parameters()).detach() for one in (mean, model))
    return {
        "steps": steps,
        "parameters": len(own_P),
        **losses,
        "own_loss": fmean(_gathered(_loss(model, features_BTF, class_B))),
        "distance": fmean(_gathered(float((own_P - mean_P).norm() / mean_P.norm()))),
        "bytes_per_step": fmean(_gathered(sent / steps)),
    }


def _gathered(value: Any) -> list[Any]:
    """The value of every rank."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _written() -> int:
    """Bytes that this process has written so far: while it trains, to other ranks (Linux)."""
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


def _table(rows: pd.DataFrame) -> str:
    """Means over seeds; `sd` is that of the last loss less that of allreduce, seed by seed."""
    same = ["ranks", "data", "seed"]
    base = rows[rows.sync == "allreduce"].set_index(same)["loss_100"]
    rows = rows.assign(
        less_allreduce=rows["loss_100"].sub(rows[same].join(base, on=same)["loss_100"])
    )
    groups = rows.groupby(["ranks", "data", "sync"], sort=False)
    mean = groups.mean().assign(sd=groups["less_allreduce"].std()).reset_index()
    mean["kib_per_step"] = mean["bytes_per_step"] / 1024
    losses = [f"loss_{share}" for share in SHARES]
    columns = ["ranks", "data", "sync", "steps", *losses, "less_allreduce", "sd", "own_loss"]
    columns += ["distance", "kib_per_step"]
    names = [name.replace("_", "\n") for name in columns]
    forms = ("", "", "", ".0f", *[".3f"] * 6, ".4f", ".1f")
    return tabulate(mean[columns].values.tolist(), names, floatfmt=forms)


def main() -> None:
    measure("sync_loss", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()
