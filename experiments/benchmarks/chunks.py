"""Plans of one rank of eight: whole epochs, and chunks that are packed beside training.

Each row is a process of its own. *MiB* is the most memory that it takes beyond its imports; pages
of the file of lengths, which ranks share, are not counted. Training is a loop of matrix products
with batches of a source that costs nothing, until the second chunk and as many steps again.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bload import BlockLoader
from bload.loading.chunks import ChunkSampler
from experiments.benchmarks import Row, Table
from experiments.study import ROOT

CODE = ("bload/loading/chunks.py", "bload/loading/sampler.py", "bload/packing")
CHUNK, T_MAX, RANKS, ROWS = 1_000_000, 94, 8, 8
STEP = 0.012
"""Seconds of a training step, about."""


class Zeros:
    """A source of frames that are there already."""

    def __init__(self, path: str) -> None:
        self.lengths, self.frames = np.load(path, mmap_mode="r"), torch.zeros(T_MAX, 1)

    def read(self, sequence: int, first: int, length: int) -> torch.Tensor:
        """Return a part of the zeros."""
        return self.frames[:length]


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each number of sequences and packer, whole and in chunks."""
    million, base = CHUNK // 10 if quick else CHUNK, 0.0
    for sequences in (million, 10 * million, 100 * million):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            rng = np.random.default_rng(0)
            drawn = (rng.lognormal(2.8, 0.85, million) for _ in range(sequences // million))
            np.save(file, np.concatenate([part.clip(1, T_MAX).astype(np.uint16) for part in drawn]))
            file.flush()
            for packer in ("bload_exact", "bload"):
                for chunk in (0, million)[sequences > 10 * million : 1 + (sequences > million)]:
                    row: Row = {"table": "chunks", "sequences": sequences, "packer": packer}
                    row |= {"chunk": chunk or None} | run_rank(file.name, packer, chunk)
                    base = base or row["first batch, s"]
                    yield row | {"first batch": row["first batch, s"] / base}


def run_rank(*arguments: Any) -> Row:
    """Run a rank and return what it prints, with the peak of its memory."""
    command = [sys.executable, "-m", "experiments.benchmarks.chunks", *map(str, arguments)]
    peak = 0.0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous_memory(process.pid))
            time.sleep(0.01)
        row: Row = json.loads(process.stdout.read()) if process.stdout else {}
    return row | {"MiB": peak - row.pop("MiB")}


def anonymous_memory(process: int | str, parent: str = "") -> float:
    """Return the MiB that a process and its children hold without pages of files."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_text()
        status = Path(f"/proc/{process}/status").read_text()
        tasks = [task.read_text() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended
        return 0.0
    if command == parent:  # it has just begun, and still shares its parent's memory
        return 0.0
    own = sum(map(int, re.findall(r"RssAnon:\s+(\d+)", status))) / 2**10
    return own + sum(anonymous_memory(child, command) for child in " ".join(tasks).split())


def train(path: str, packer: str, chunk: int) -> Row:
    """Take the first batch of a rank and, in chunks, train until the second chunk is packed."""
    torch.set_num_threads(1)
    row: Row = {"MiB": anonymous_memory("self")}
    packed: list[tuple[float, float]] = []
    pack = ChunkSampler._pack

    def timed(self: ChunkSampler, epoch: int, chunk: int) -> Any:
        began, blocks = time.perf_counter(), pack(self, epoch, chunk)
        packed.append((began, time.perf_counter()))
        return blocks

    ChunkSampler._pack = timed  # type: ignore[method-assign]
    clock = time.perf_counter()
    options: Row = {"batch_slots": ROWS * T_MAX, "rank": 3, "world_size": RANKS}
    loader = BlockLoader(Zeros(path), packer, chunk=chunk or None, **options)
    batches = iter(loader)
    next(batches)
    row |= {"first batch, s": time.perf_counter() - clock}
    if not chunk:
        return row
    matrix = torch.randn(512, 512)
    began = time.perf_counter()
    _ = [matrix @ matrix for _ in range(20)]
    products = max(1, round(STEP * 20 / (time.perf_counter() - began)))
    steps: list[tuple[float, float]] = []
    while len(steps) < 9 or len(packed) < 2 or steps[-1][0] < 2 * packed[1][1] - packed[1][0]:
        began = time.perf_counter()
        if next(batches, None) is None:
            break
        _ = [matrix @ matrix for _ in range(products)]
        steps.append((began, time.perf_counter()))
    ends = packed[1][1]
    alone = np.array([end - began for began, end in steps if began >= ends])
    beside = np.array([end - began for began, end in steps if began < ends] or alone)
    all_steps = loader.steps_estimate * chunk / len(loader.sampler.lengths)
    row |= {"packing, s": ends - packed[1][0], "step, ms": 1e3 * float(np.median(alone))}
    row |= {"while packing": beside.mean() / alone.mean()}
    cost = (beside.mean() / alone.mean() - 1) * len(beside) / all_steps
    return row | {"of a chunk, %": 100 * cost, "longest": beside.max() / np.median(alone)}


COLUMNS = {"sequences": ",.0f", "packer": "", "chunk": ",.0f", "MiB": ",.0f"}
COLUMNS |= {"first batch": ".1f", "while packing": ".2f", "longest": ".1f", "of a chunk, %": ".1f"}
TABLES = {"chunks": Table("Plans of one rank of eight, whole and in chunks:", COLUMNS)}

if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
