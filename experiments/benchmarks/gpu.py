"""A card in one run: a step, loaders, README's run, walks, a language model, larger steps.

    python -m experiments.benchmarks gpu            # ten minutes on an H100 or H200
    python -m experiments.benchmarks gpu --quick    # toys on the CPU, for runs/; nothing recorded

Parts come in order of their worth, each within seconds and in a process of its own. A row that
fails, for lack of memory for example, or does not end in time is one printed line; a new process
measures the rest of its part, since what fails in a recording may spoil the process. Networks train
in bf16 on default videos, enlarged on the card. Loaders take turns of 20 steps; their frames a
second are an epoch's frames per step over the mean seconds of a step, since a few steps could hold
more frames than usual. The peak is that of a matrix product. The language model needs an
environment with transformers, see trainer.py.
"""

import gc
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from statistics import fmean
from subprocess import PIPE, Popen
from tempfile import gettempdir
from time import monotonic
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.profiler import profile
from torch.utils.benchmark import Timer

from bload import BlockLoader, InputError, action_genome_lengths, from_dataset, walk
from experiments.benchmarks import FEW_VIDEOS, Row, Table, trainer
from experiments.interleaved import ALONE, Contender
from models.cost import measure_cost
from training.compose import compose_job
from training.data import open_data
from training.graph import Recorded
from training.ranks import Ranks, autocast, peak_memory_mib
from training.stopping import detach_worker

Rows = Iterator[tuple[str, Callable[[], Row]]]
"""Words for each row of a part, and what measures it."""
LOADERS, GRAPHS = ("bload_exact", "naive", "bload", "bucket"), ("off", "auto")
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")
TOY = ["dataset.frame_size=[32,32]", "dataset.cache=data/cache-toy", "dataset.train_videos=24"]
TOY += [*FEW_VIDEOS, "model.backbone=conv", "model.width=16", "model.heads=2", "model.queries=4"]
TOY += [f"model.{part}_layers=1" for part in ("encoder", "decoder", "temporal")]
TOY += ["model.feedforward=32", "train.workers=0"]
BF16 = ["model=dds", "train.amp=bf16", "model.recompute=none", "wandb.mode=disabled"]
REAL = ["dataset.frame_size=[544,544]", "dataset.cache=data/cache-gpu", "train.workers=1"]
STEP = ["dataset.frame_size=[600,800]", "dataset.cache=null", "dataset.train_videos=100"]


def measure(toy: bool) -> Iterator[Row]:
    """Yield the rows of all parts."""
    if not (toy or torch.cuda.is_available()):
        raise InputError("torch sees no GPU; use a machine with one, or give --quick")
    for name in PARTS:
        for row in rows_of(name, toy):
            yield {"table": name, **row}


def rows_of(name: str, toy: bool) -> Iterator[Row]:
    """Yield the rows of a part, and print a line for each that is not measured."""
    seconds, part = PARTS[name]
    seconds = 600 if toy else seconds
    end, waiting = monotonic() + seconds, deque(enumerate(words for words, _ in part(toy, ALONE)))
    while waiting and monotonic() < end:
        try:
            with new_process() as pool:
                while waiting:
                    row = pool.submit(measure_row, name, waiting[0][0], toy)
                    yield row.result(max(0, end - monotonic()))
                    waiting.popleft()
        except Exception as error:
            first = str(error).partition("\n")[0] or f"{seconds} seconds are over"
            (_, words), kind = waiting.popleft(), type(error).__name__
            print(f"{name}: no row for {words}: {kind}: {first}", flush=True)
    for _, words in waiting:
        print(f"{name}: no row for {words}: {seconds} seconds are over", flush=True)


@contextmanager
def new_process() -> Iterator[ProcessPoolExecutor]:
    """A process without what others left on the card; all that it started ends with it."""
    pool = ProcessPoolExecutor(1, get_context("spawn"), detach_worker, (0,))
    group = pool.submit(os.getpid).result()
    try:
        yield pool
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(group, signal.SIGKILL)
        pool.shutdown()


def measure_row(name: str, index: int, toy: bool) -> Row:
    """Measure a row of a part, in the part's process."""
    ranks = ALONE if toy else Ranks(0, 1, torch.device("cuda", 0))
    _, row = [*PARTS[name][1](toy, ranks)][index]
    try:
        return row()
    finally:
        gc.collect()  # one network, and one graph, at a time


def contender(toy: bool, ranks: Ranks, *overrides: str) -> Contender:
    """Open the run of a line of ``train.py``; on few toys if asked."""
    run = Contender(compose_job("train", [*overrides, *TOY * toy]), ranks)
    if run.cfg.train.cuda_graph == "auto" and graphs_of(run) == "none" and not toy:
        raise InputError("its steps are not recorded, see above")
    return run


def graphs_of(run: Contender) -> str:
    """Say whether all of a run's steps were replayed, whatever was asked for."""
    network = run.training.network
    return "recorded" if isinstance(network, Recorded) and not network.computed else "none"


def card(toy: bool, ranks: Ranks) -> Rows:
    """The card's name, and what it reaches; makes the videos that loaders read."""

    def row() -> Row:
        open_data(compose_job("train", [*REAL, *TOY * toy]), ranks)
        name = "CPU" if toy else torch.cuda.get_device_name(ranks.device)
        return {"card": name, "matrix product, TFLOP/s": peak_of(ranks.device)}

    yield "the card", row


@cache
def peak_of(device: torch.device) -> float:
    """Return teraflops of a matrix product in bf16, the best of a few."""
    size = 8_192 if device.type == "cuda" else 256
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    timer = Timer("left @ right", globals={"left": left, "right": right})  # it waits for the card
    return 2 * size**3 / min(timer.blocked_autorange(min_run_time=1).times) / 1e12


def steps(toy: bool, ranks: Ranks) -> Rows:
    """A step of 94 slots, without graphs, with them, and without the walk; looked into."""

    def row(graphs: str, temporal: str) -> Row:
        line = [*BF16, *STEP, *FEW_VIDEOS, "loader=bload_exact", "loader.t_max=94"]
        line += [f"model.temporal={temporal}"]
        run = contender(toy, ranks, *line, f"train.cuda_graph={graphs}")
        turn = run.take_steps(1 if toy else 10)
        seconds, peak = fmean(turn.seconds), peak_memory_mib(ranks.device) / 2**10
        with profile() as profiler:
            run.take_steps(1)
        events = profiler.events() or ()
        kernels = [
            event.time_range.elapsed_us()
            for event in events
            if event.device_type == DeviceType.CUDA
            and not (event.is_user_annotation or event.name.startswith(("Memcpy", "Memset")))
        ]
        flops = 94 * 3 * slot_flops(*line, *TOY * toy)
        share = flops / seconds / 1e10 / peak_of(ranks.device)
        row: Row = {"walk": temporal, "graphs": graphs_of(run)}
        row |= {"ms": 1e3 * seconds, "share of peak, %": share, "GiB": peak}
        row |= {"frames/s": fmean(turn.frames) / seconds, "kernels": len(kernels)}
        waits = sum(event.name in WAITS for event in events)
        return row | {"kernels, ms": sum(kernels) / 1e3, "waits": waits}

    for temporal, graphs in product(("dds", "none"), GRAPHS):
        yield f"{temporal}, graphs {graphs}", partial(row, graphs, temporal)


@cache
def slot_flops(*line: str) -> float:
    """Return the operations of a slot in a forward pass; 16 slots tell it within 0.1 %."""
    cfg, cpu = compose_job("train", line), ALONE.device
    height, width = cfg.dataset.frame_size
    return measure_cost(cfg.model, (height, width), (1, 16), autocast("bf16", cpu), cpu).flops


def loader_row(toy: bool, ranks: Ranks, turn: int, loader: str, graphs: str, blocks: int) -> Row:
    """Time steps of so many blocks under a loader."""
    line = [*BF16, *REAL, f"loader={loader}", f"train.cuda_graph={graphs}"]
    run = contender(toy, ranks, *line, f"train.batch_slots={86 * blocks}")
    seconds, account = fmean(run.take_steps(1 if toy else 20).seconds), run.loader.account
    row = {"loader": loader, "turn": turn, "blocks": blocks, "graphs": graphs_of(run)}
    row |= {"frames/s": account.frames / account.steps / seconds}
    row |= {"GiB": peak_memory_mib(ranks.device) / 2**10, "steps": account.steps}
    return row | {"padded": account.padding, "deleted": account.deleted}


def loaders(toy: bool, ranks: Ranks) -> Rows:
    """Each loader with and without graphs, which `bucket` cannot have, in two turns."""
    ways = [way for way in product((1, 2), LOADERS, GRAPHS) if way[1:] != ("bucket", "auto")]
    for way in ways[-1:] if toy else ways:
        yield "turn {}, {}, graphs {}".format(*way), partial(loader_row, toy, ranks, *way, 1)


def larger_steps(toy: bool, ranks: Ranks) -> Rows:
    """Steps of more blocks."""
    for blocks in (2, 4):
        yield f"{blocks} blocks", partial(loader_row, toy, ranks, 1, "bload_exact", "auto", blocks)


def own_run(toy: bool, ranks: Ranks) -> Rows:
    """README's own run, and the share of its time that waits for data."""

    def row(graphs: str) -> Row:
        line = "loader=bload", "train.workers=4", "wandb.mode=disabled"
        run = contender(toy, ranks, *line, f"train.cuda_graph={graphs}")
        turn = run.take_steps(2 if toy else 100)
        row: Row = {"graphs": graphs_of(run), "frames/s": turn.frames_per_second}
        return row | {"waits for data, %": 100 * turn.waiting / sum(turn.seconds)}

    for graphs in GRAPHS:
        yield f"graphs {graphs}", partial(row, graphs)


class Cell(nn.Module):
    """A GRU cell of 256 for `walk`."""

    def __init__(self, order: Literal["segments", "slots"]) -> None:
        super().__init__()
        self.cell, self.order = nn.GRUCell(256, 256), order

    def init_state(self, inputs_BD: Tensor) -> Tensor:
        return torch.zeros_like(inputs_BD)

    def step(self, inputs_BD: Tensor, state_BD: Tensor) -> tuple[Tensor, Tensor]:
        state_BD = self.cell(inputs_BD, state_BD)
        return state_BD, state_BD

    def forward(self, inputs_BT: Tensor, start_BT: Tensor) -> Tensor:
        return walk(self, inputs_BT, start_BT, order=self.order)[0]


def walks(toy: bool, ranks: Ranks) -> Rows:
    """Both passes of a GRU over 6 blocks of 94, in ways that have the same outputs."""
    lengths = action_genome_lengths()[::16]
    source = from_dataset([torch.randn(length, 256) for length in lengths], lengths)

    def row(way: str) -> Row:
        batch = next(iter(BlockLoader(source, t_max=94, batch_slots=564))).to(ranks.device)
        inputs = batch.inputs_BT, batch.start_BT

        def packed(inputs_BT: Tensor, start_BT: Tensor) -> Tensor:
            return batch.from_packed(gru(batch.to_packed(inputs_BT))[0])

        gru = nn.GRU(256, 256, batch_first=True).to(ranks.device)
        cell = Cell("slots" if "slots" in way else "segments").to(ranks.device)
        network: Any = packed if way == "torch's layer" else cell
        weights = [*(gru if way == "torch's layer" else cell).parameters()]
        if "recorded" in way:
            network = torch.cuda.make_graphed_callables(network, tuple(map(torch.clone, inputs)))
        values = {"network": network, "inputs": inputs, "weights": weights}
        values["grad"] = torch.autograd.grad  # a replay would overwrite what adds up in `.grad`
        timer = Timer("grad(network(*inputs).sum(), weights)", globals=values)
        return {"walk": way, "ms": 1e3 * timer.blocked_autorange(min_run_time=1).median}

    for way in ("segments", "slots", *["slots, recorded"] * (not toy), "torch's layer"):
        yield way, partial(row, way)


def language_model(toy: bool, ranks: Ranks) -> Rows:
    """A Llama of 104 million weights under `Trainer`: its samplers, blocks, and some compiled."""

    def row(way: str) -> Row:
        program = llamas(toy)
        print(way, file=program.stdin, flush=True)
        line = next(line for line in program.stdout or () if line.startswith(trainer.MARK))
        row: Row = json.loads(line.removeprefix(trainer.MARK))
        if "error" in row:
            raise InputError(row["error"])
        return row

    for way in trainer.ON_A_CARD[2:3] if toy else trainer.ON_A_CARD:
        yield way, partial(row, way)


@cache
def llamas(toy: bool) -> Popen[str]:
    """Start the program that times the ways it reads, so that it imports transformers once."""
    command = trainer.command(words=["-", str(int(toy))])
    return Popen(command, stdin=PIPE, stdout=PIPE, text=True, cwd=gettempdir())


PARTS = {
    "card": (75, card),
    "steps": (105, steps),
    "loaders": (150, loaders),
    "own run": (45, own_run),
    "walks": (30, walks),
    "language model": (120, language_model),
    "larger steps": (45, larger_steps),
}
"""Seconds and rows of each part."""
CARD = {"card": "", "matrix product, TFLOP/s": ",.3g", "data sheet": ",.0f"}
CARD |= {"recomputed, %": ".0f", "walk, % of a step": ".0f"}  # of earlier runs alone
RATE = {"graphs": "", "frames/s": ",.0f"}
OWN_RUN = {**RATE, "waits for data, %": ".0f"}
LOADED = {"loader": "", "turn": ".0f", "blocks": ".0f", **RATE}
LOADED |= {"share of peak, %": ".1f", "GiB": ".1f"}  # shares are of earlier runs
LOADED |= {"steps": ",.0f", "padded": ",.0f", "deleted": ",.0f"}
STEPS = {"walk": "", **RATE, "ms": ",.0f", "share of peak, %": ".1f", "GiB": ".1f"}
STEPS |= {"kernels": ",.0f", "kernels, ms": ",.0f", "waits": ".0f"}
TABLES = {
    "card": Table("The card:", CARD),
    "loaders": Table("`model=dds`, bf16:", LOADED),
    "steps": Table("A step of `bload_exact`, 94 slots of 600 x 800:", STEPS),
    "own run": Table("`train.py loader=bload train.workers=4`:", OWN_RUN),
    "walks": Table("A GRU of 256, both passes over 6 blocks of 94:", {"walk": "", "ms": ".2f"}),
    "language model": Table(
        "A Llama of 104 million weights, bf16, the second of two epochs:",
        {"way": "", "tokens/s": ",.0f", "GiB": ".1f", "graphs compiled": ".0f"},
    ),
    "larger steps": Table("More blocks per step, at 544 x 544:", LOADED),
}
