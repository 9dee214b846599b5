"""Plans of one rank of eight: whole epochs, and chunks, until the second is packed.

Each row is a process of its own. *MiB* is the most memory that it takes beyond its imports; pages
of the file of lengths, which ranks share, are not counted. The source costs nothing.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from bload import BlockLoader
from experiments.benchmarks import Row, Table
from experiments.study import ROOT

T_MAX = 94


class Zeros:
    """A source of frames that are there already."""

    def __init__(self, path: str) -> None:
        self.lengths, self.frames = np.load(path, mmap_mode="r"), torch.zeros(T_MAX, 1)

    def read(self, sequence: int, first: int, length: int) -> torch.Tensor:
        return self.frames[:length]


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each number of sequences and packer, whole and in chunks."""
    million, base = 10_000 if quick else 1_000_000, 0.0
    packers = ("bload_exact",) if quick else ("bload_exact", "bload")
    for factor, chunks in ((1, [0]), (10, [0, million]), (100, [million])):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            rng = np.random.default_rng(0)
            drawn = (rng.lognormal(2.8, 0.85, million) for _ in range(factor))
            np.save(file, np.concatenate([part.clip(1, T_MAX).astype(np.uint16) for part in drawn]))
            file.flush()
            for packer in packers:
                for chunk in chunks:
                    row: Row = {"table": "chunks", "sequences": factor * million, "packer": packer}
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
    """Return the MiB that a process holds without pages of files (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return sum(map(int, re.findall(r"RssAnon:\s+(\d+)", status))) / 2**10


def train(path: str, packer: str, chunk: int) -> Row:
    """Take the first batch of a rank and, in chunks, all until the second chunk is packed."""
    row, began = {"MiB": anonymous_memory("self")}, time.perf_counter()
    options: Row = {"batch_slots": 8 * T_MAX, "rank": 3, "world_size": 8, "chunk": chunk or None}
    loader = BlockLoader(Zeros(path), packer, **options)
    batches = iter(loader)
    next(batches)
    row |= {"first batch, s": time.perf_counter() - began}
    while chunk and not loader.state_dict()["chunk"]:
        next(batches)
    return row


COLUMNS = {"sequences": ",.0f", "packer": "", "chunk": ",.0f", "MiB": ",.0f", "first batch": ".1f"}
TABLES = {"chunks": Table("Plans of one rank of eight, whole and in chunks:", COLUMNS)}

if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
