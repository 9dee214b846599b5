"""Plans of one rank of eight: whole epochs, and chunks that are packed beside training.

Each row is a process of its own. *MiB* is the most memory that it takes beyond its imports; pages
of the file of lengths, which ranks share, are not counted. Training is a loop of matrix products
with batches of a source that costs nothing, until the second chunk is packed and as many steps
again.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bload import BlockLoader
from experiments.benchmarks import Row, Table
from experiments.study import ROOT

T_MAX, PRODUCTS = 94, 4
"""Block size; matrix products of a training step, about 12 ms."""


class Zeros:
    """A source of frames that are there already."""

    def __init__(self, path: str) -> None:
        self.lengths, self.frames = np.load(path, mmap_mode="r"), torch.zeros(T_MAX, 1)

    def read(self, sequence: int, first: int, length: int) -> torch.Tensor:
        return self.frames[:length]


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each number of sequences and packer, whole and in chunks."""
    million, base = 100_000 if quick else 1_000_000, 0.0
    for sequences in (million, 10 * million, 100 * million):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            rng = np.random.default_rng(0)
            drawn = (rng.lognormal(2.8, 0.85, million) for _ in range(sequences // million))
            np.save(file, np.concatenate([part.clip(1, T_MAX).astype(np.uint16) for part in drawn]))
            file.flush()
            for packer in ("bload_exact", "bload"):
                for chunk in (0, million)[sequences > 10 * million : 1 + (sequences > million)]:
                    row: Row = {"table": "chunks", "sequences": sequences, "packer": packer}
                    row |= {"chunk": chunk or None} | run_rank(file.name, packer, str(chunk))
                    base = base or row["first batch, s"]
                    yield row | {"first batch": row["first batch, s"] / base}


def run_rank(*arguments: str) -> Row:
    """Run a rank and return what it prints, with the peak of its memory."""
    command, peak = [sys.executable, "-m", "experiments.benchmarks.chunks", *arguments], 0.0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous_memory(process.pid))
            time.sleep(0.01)
        row: Row = json.load(process.stdout)  # type: ignore[arg-type]
    return row | {"MiB": peak - row.pop("MiB")}


def anonymous_memory(process: int | str) -> float:
    """Return the MiB that a process and its children hold without pages of files (Linux)."""
    commands, mib = set[str](), 0.0
    for number in (process, *child_processes(process)):
        with suppress(OSError):  # it has ended
            command = Path(f"/proc/{number}/cmdline").read_text()
            status = Path(f"/proc/{number}/status").read_text()
            if command not in commands:  # a child that has just begun shares its parent's memory
                mib += sum(map(int, re.findall(r"RssAnon:\s+(\d+)", status))) / 2**10
            commands.add(command)
    return mib


def child_processes(process: int | str) -> list[str]:
    """List the children of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [child for task in tasks for child in task.read_text().split()]


def train(path: str, packer: str, chunk: int) -> Row:
    """Take the first batch of a rank and, in chunks, train until the second chunk is packed."""
    torch.set_num_threads(1)
    now, row = time.perf_counter, {"MiB": anonymous_memory("self")}
    began, make_loader = now(), partial(BlockLoader, batch_slots=8 * T_MAX, rank=3, world_size=8)
    loader = make_loader(Zeros(path), packer, chunk=chunk or None)
    batches = iter(loader)
    next(batches)
    row |= {"first batch, s": now() - began}
    if not chunk:
        return row
    matrix, seconds, packed, was_packing = torch.randn(512, 512), list[float](), 0, False
    while not packed or len(seconds) < 2 * packed:
        began = now()
        next(batches)
        _ = [matrix @ matrix for _ in range(PRODUCTS)]
        seconds.append(now() - began)
        is_packing = bool(child_processes("self"))
        packed = packed or (len(seconds) if was_packing and not is_packing else 0)
        was_packing = is_packing
    return row | {"while packing": float(np.mean(seconds[:packed]) / np.mean(seconds[packed:]))}


COLUMNS = {"sequences": ",.0f", "packer": "", "chunk": ",.0f", "MiB": ",.0f"}
COLUMNS |= {"first batch": ".1f", "while packing": ".2f"}
TABLES = {"chunks": Table("Plans of one rank of eight, whole and in chunks:", COLUMNS)}

if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
