"""`model=dds` in bf16 on a card: frames a second under the loaders, and their use of the card.

    python -m experiments.benchmarks gpu            # minutes on an H200
    python -m experiments.benchmarks gpu --quick    # a toy of one loader on the CPU; for runs/

Each loader trains its own network, one after another, on frames enlarged on the card. Frames a
second are an epoch's frames per step over the mean seconds of a step, since a few steps could hold
more frames than usual. The peak is the data sheet's, for other cards the best of a few matrix
products. Then a step of `bload_exact` is timed, and looked into under `torch.profiler`.
"""

import gc
import re
from collections.abc import Iterator
from statistics import fmean

import torch
from torch.autograd import DeviceType
from torch.profiler import profile
from torch.utils.benchmark import Timer

from bload import InputError
from experiments.benchmarks import FEW_VIDEOS, Row, Table, make_job
from experiments.interleaved import Contender
from models.cost import measure_cost
from training.build import MEMORY_SHARES
from training.config import TrainJob
from training.ranks import Ranks, autocast, free_memory, peak_memory_mib

LOADERS = ("naive", "mix", "sampling", "bucket", "ragged", "bload", "bload_exact")
TERAFLOPS = {
    **{"H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "GH200": 990, "H200": 989, "A100": 312},
    **{"A10": 125, "A40": 149.7, "A30": 165, "L40S": 362, "L4": 121, "RTX 4090": 165.2},
}
"""Words in torch's name of a card -> dense bf16 on NVIDIA's data sheets; the first match counts."""
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")
TOY = ["dataset.frame_size=[32,32]", "dataset.cache=data/cache-toy", "model.backbone=conv"]
TOY += ["model.width=16", "model.heads=2", "model.feedforward=32", "model.queries=4"]
TOY += [f"model.{part}_layers=1" for part in ("encoder", "decoder", "temporal")]
REAL = ["dataset.frame_size=[544,544]", "dataset.cache=data/cache-gpu", "train.workers=1"]


def make_gpu_job(toy: bool, loader: str, *overrides: str) -> TrainJob:
    """Return the job ``train.py model=dds train.amp=bf16`` with these overrides."""
    line = ["model=dds", f"loader={loader}", "train.amp=bf16", "train.cuda_graph=off"]
    line += TOY if toy else REAL
    return make_job(toy, *line, *overrides)


def make_step_job(toy: bool, *overrides: str) -> TrainJob:
    """Return that job with a block of 94 slots, few videos and frames of 600 x 800."""
    line = ["model.recompute=none", "loader.t_max=94", "dataset.cache=null"]
    line += [] if toy else ["dataset.frame_size=[600,800]", "dataset.train_videos=100", *FEW_VIDEOS]
    return make_gpu_job(toy, LOADERS[-1], *line, *overrides)


def measure(toy: bool) -> Iterator[Row]:
    """Yield a row for each loader, one for the card, and one for a step."""
    if not (toy or torch.cuda.is_available()):
        raise InputError("torch sees no GPU; use a machine with one, or give --quick")
    device = torch.device("cpu") if toy else torch.device("cuda", 0)
    ranks, base_job = Ranks(0, 1, device), make_gpu_job(toy, LOADERS[-1])
    slots, size = base_job.train.batch_slots, base_job.dataset.frame_size
    precision = autocast("bf16", device)
    cost = measure_cost(base_job.model, (size[0], size[1]), (1, slots), precision, device)
    free = MEMORY_SHARES[device.type] * free_memory(device)  # as model.recompute=auto
    share = cost.least_share(free)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    product = matrix_product(device, 256 if toy else 8_192)
    sheets = [peak for name, peak in TERAFLOPS.items() if re.search(rf"\b{name}\b", card)]
    peak_teraflops, rates = sheets[0] if sheets else None, {}
    loaders = LOADERS[-1:] if toy else LOADERS
    for loader, temporal in [*((loader, "dds") for loader in loaders), (LOADERS[-1], "none")]:
        changes = f"model.temporal={temporal}", f"model.recompute={share}"
        job = make_gpu_job(toy, loader, *changes)
        contender = Contender(job, ranks)
        seconds = fmean(contender.take_steps(1 if toy else 40).seconds)
        account, peak = contender.loader.account, peak_memory_mib(device) / 2**10
        rates[loader, temporal] = account.frames / account.steps / seconds
        flops = 3 * cost.flops * account.processed / account.steps / seconds
        row = {"table": "loaders", "loader": loader, "frames/s": rates[loader, temporal]}
        row |= {"share of peak, %": 100 * flops / (1e12 * (peak_teraflops or product)), "GiB": peak}
        row |= {"steps": account.steps, "padded": account.padding, "deleted": account.deleted}
        if temporal == "dds":
            yield row
        del contender
        gc.collect()
    walk = 1 - rates[LOADERS[-1], "dds"] / rates[LOADERS[-1], "none"]
    row = {
        "table": "card",
        "card": card,
        "matrix product, TFLOP/s": product,
        "data sheet": peak_teraflops,
    }
    yield row | {"recomputed, %": 100 * share, "walk, % of a step": 100 * walk}
    for graphs in ("off", "auto"):
        try:
            job = make_step_job(toy, f"train.cuda_graph={graphs}")
            yield {"graphs": graphs} | step_row(Contender(job, ranks), toy)
        except torch.OutOfMemoryError:
            print(f"no row for a step of 600 x 800, graphs {graphs}: it does not fit into {card}")
        gc.collect()


def step_row(contender: Contender, toy: bool) -> Row:
    """Time steps, and look into one of them."""
    turn, device = contender.take_steps(1 if toy else 10), contender.ranks.device
    seconds, peak = fmean(turn.seconds), peak_memory_mib(device) / 2**10
    with profile() as profiler:
        contender.take_steps(1)
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
LOADED = {"loader": "", "frames/s": ",.0f", "share of peak, %": ".1f", "GiB": ".1f"}
LOADED |= {"steps": ",.0f", "padded": ",.0f", "deleted": ",.0f"}
STEP = {"graphs": "", "frames/s": ",.0f", "ms": ",.0f", "GiB": ".1f", "kernels": ",.0f"}
STEP |= {"kernels, ms": ",.0f", "waits": ".0f"}
TABLES = {
    "card": Table("The card:", CARD),
    "loaders": Table("`model=dds`, bf16, one block per step:", LOADED),
    "steps": Table("A step of `bload_exact`, 94 slots of 600 x 800:", STEP),
}
