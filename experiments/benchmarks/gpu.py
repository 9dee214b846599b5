"""`model=dds` in bf16 on a card: frames a second under the loaders, and their use of the card.

    python -m experiments.benchmarks gpu            # minutes on an H200; no Hydra, no wandb
    python -m experiments.benchmarks gpu --quick    # a toy on the CPU, two minutes; for runs/

Frames are those of the default synthetic data, enlarged on the card to about as many pixels as
Action Genome's; whole training steps are timed, reading from a cache included. Frames a second are
an epoch's frames per step over the mean seconds of a step, since a few steps could hold more frames
than usual. Each loader trains its own network, one after another; the walk's share of a step is
what ``temporal=none`` saves.

The share of the peak counts all computed slots, padding included, a backward pass as two forward
ones, and nothing for recomputation (``model.checkpoint=auto``). The peak is the data sheet's, for
other cards the best of a few matrix products.

Then steps of `bload_exact` on blocks of 94 frames of 600 x 800, of fewer videos, and one of them
under `torch.profiler`: its kernels, the time that they take, and how often the host waits for them.
"""

import gc
import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
import yaml
from torch.autograd import DeviceType
from torch.profiler import profile
from torch.utils.benchmark import Timer

from bload import InputError
from datasets.config import SyntheticConfig
from experiments.benchmarks import QUICK_VIDEOS, Row, Table
from experiments.interleaved import Way
from models.config import LossConfig, ModelConfig
from models.cost import measure_cost
from training.config import CONFIGS, TrainConfig, TrainJob
from training.loader_config import loader_schema
from training.memory import SHARE, free_memory, peak_memory_mib
from training.ranks import Ranks, autocast

LOADERS = ("naive", "mix", "sampling", "bucket", "ragged", "bload", "bload_exact")
TERAFLOPS = {
    **{"H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "GH200": 990, "H200": 989, "A100": 312},
    **{"A10": 125, "A40": 149.7, "A30": 165, "L40S": 362, "L4": 121, "RTX 4090": 165.2},
}
"""Words in torch's name of a card -> dense bf16 on NVIDIA's data sheets; the first match counts."""
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")
ROOT = "data/synthetic-{train_videos}-{test_videos}-{validation_videos}-{final_videos}"
ROOT += "-{image_size}px-s{seed}"
TOY = {"backbone": "conv", "width": 16, "heads": 2, "feedforward": 32, "queries": 4}
TOY |= {"encoder_layers": 1, "decoder_layers": 1, "temporal_layers": 1}


def job(toy: bool, loader: str, **changes: Any) -> TrainJob:
    """Return the job ``train.py model=dds train.amp=bf16``, with model `changes`, without Hydra."""

    def read(name: str) -> Any:
        return yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())

    recipe, data = read("recipe/dds"), read("dataset/synthetic")
    videos = QUICK_VIDEOS if toy else {}
    data = {key: value for key, value in data.items() if key != "defaults"} | videos
    data |= {"root": ROOT.format(**data), "cache": f"data/cache-gpu-{data['train_videos']}"}
    data["frame_size"] = [32, 32] if toy else [544, 544]
    return TrainJob(
        loader=loader_schema(loader)(loader),
        dataset=SyntheticConfig(**data),
        model=ModelConfig(**read("model/dds") | (TOY if toy else {}) | changes),
        loss=LossConfig(**recipe["loss"]),
        train=replace(TrainConfig(**recipe["train"]), amp="bf16", workers=0 if toy else 1),
    )


def step_job(toy: bool) -> TrainJob:
    """Return that job with a block of 94 slots, few videos and frames of 600 x 800."""
    made = job(toy, LOADERS[-1], checkpoint="none")
    few = vars(made.dataset) | QUICK_VIDEOS | {"train_videos": 24 if toy else 100, "cache": None}
    few |= {"root": ROOT.format(**few)} | ({} if toy else {"frame_size": [600, 800]})
    return replace(made, dataset=SyntheticConfig(**few), loader=replace(made.loader, t_max=94))


def measure(toy: bool) -> Iterator[Row]:
    """Yield a row for each loader, one for the card, and one for a step."""
    if not (toy or torch.cuda.is_available()):
        raise InputError("torch sees no GPU; use a machine with one, or give --quick")
    device = torch.device("cpu") if toy else torch.device("cuda", 0)
    ranks, usual = Ranks(0, 1, device), job(toy, LOADERS[-1])
    slots, size = usual.train.batch_slots, usual.dataset.frame_size
    precision = autocast("bf16", device)
    cost = measure_cost(usual.model, (size[0], size[1]), slots, precision, device)
    share = cost.share(slots, SHARE * free_memory(device))  # model.checkpoint=auto
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    product = matrix_product(device, 256 if toy else 8_192)
    known = next((of for name, of in TERAFLOPS.items() if re.search(rf"\b{name}\b", card)), None)
    rates = {}
    for loader, temporal in [*((one, "dds") for one in LOADERS), (LOADERS[-1], "none")]:
        way = Way(job(toy, loader, temporal=temporal, checkpoint=str(share)), ranks)
        seconds = fmean(way.take(1 if toy else 40).seconds)
        account, peak = way.loader.account, peak_memory_mib(device) / 2**10
        rates[loader, temporal] = account.frames / account.steps / seconds
        flops = 3 * sum(cost.flops.values()) * account.processed / account.steps / seconds
        row = {"table": "loaders", "loader": loader, "frames/s": rates[loader, temporal]}
        row |= {"share of peak, %": 100 * flops / (1e12 * (known or product)), "GiB": peak}
        row |= {"steps": account.steps, "padded": account.padding, "deleted": account.deleted}
        if temporal == "dds":
            yield row
        del way
        gc.collect()
    walk = 1 - rates[LOADERS[-1], "dds"] / rates[LOADERS[-1], "none"]
    row = {"table": "card", "card": card, "matrix product, TFLOP/s": product, "data sheet": known}
    yield row | {"recomputed, %": 100 * share, "walk, % of a step": 100 * walk}
    try:
        yield step_row(Way(step_job(toy), ranks), toy)
    except torch.OutOfMemoryError:
        print(f"no row for a step of 600 x 800: it does not fit into the memory of {card}")


def step_row(way: Way, toy: bool) -> Row:
    """Time steps, and look into one of them."""
    turn, device = way.take(1 if toy else 10), way.ranks.device
    seconds, peak = fmean(turn.seconds), peak_memory_mib(device) / 2**10
    with profile() as profiler:
        way.take(1)
    events = profiler.events() or ()
    kernels = [
        event.time_range.elapsed_us()
        for event in events
        if event.device_type == DeviceType.CUDA
        and not (event.is_user_annotation or event.name.startswith(("Memcpy", "Memset")))
    ]
    return {
        "table": "steps",
        "frames/s": fmean(turn.frames) / seconds,
        "ms": 1e3 * seconds,
        "GiB": peak,
        "kernels": len(kernels),
        "kernels, ms": sum(kernels) / 1e3,
        "waits": sum(event.name in WAITS for event in events),
    }


def matrix_product(device: torch.device, size: int) -> float:
    """Return the teraflops of a bf16 matrix product, the best of a few."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    timer = Timer("left @ right", globals={"left": left, "right": right})  # it waits for the card
    return 2 * size**3 / min(timer.blocked_autorange(min_run_time=1).times) / 1e12


CARD = {"card": "", "matrix product, TFLOP/s": ",.3g", "data sheet": ",.0f"}
CARD |= {"recomputed, %": ".0f", "walk, % of a step": ".0f"}
FOUND = {"loader": "", "frames/s": ",.0f", "share of peak, %": ".1f", "GiB": ".1f"}
FOUND |= {"steps": ",.0f", "padded": ",.0f", "deleted": ",.0f"}
STEP = {"frames/s": ",.0f", "ms": ",.0f", "GiB": ".1f", "kernels": ",.0f"}
STEP |= {"kernels, ms": ",.0f", "waits": ".0f"}
TABLES = {
    "card": Table("The card:", CARD),
    "loaders": Table("`model=dds`, bf16, one block per step:", FOUND),
    "steps": Table("A step of `bload_exact`, 94 slots of 600 x 800:", STEP),
}
