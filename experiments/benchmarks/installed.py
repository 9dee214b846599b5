"""What people install to pack sequences, side by side with this library's packers.

    pip install trl grain binpacking

Each gets the same shuffled lengths and returns blocks of sequence numbers; what is not installed is
left out of the table. TRL and Grain pack the data themselves, so their seconds hold the copying of
one int32 a frame. torchtune's and multipack's rules are restated from their definitions.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bload.pieces import whole_pieces
from bload.plan import Plan, plan_from_blocks
from experiments.benchmarks.cases import Case, usual_cases
from experiments.benchmarks.packing import CPU, randomness, timed_plans
from experiments.benchmarks.part import Cell, Part, Rows
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory

Blocks = list[list[int]]
Packed = tuple[Blocks, float, float]
"""Blocks, the seconds that they took, and the most memory above what was held before, in MiB."""
SCRIPT = Path(__file__).with_name("pack_with_trl.py")
BINS = 8
"""Blocks that multipack fills for a step, one a rank; and bins that Grain keeps open."""


def trl(lengths: np.ndarray, t_max: int) -> Packed:
    """``trl.pack_dataset``: best-fit decreasing among 1,000 sequences at a time, its default."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, lengths)
        file.flush()
        command = [sys.executable, "-I", str(SCRIPT), file.name, str(t_max)]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(made.stdout)
    return found["blocks"], found["seconds"], found["mib"]


def grain(lengths: np.ndarray, t_max: int) -> Blocks:
    """``grain.experimental.FirstFitPackIterDataset``: the first of some open blocks with room."""
    from grain import MapDataset
    from grain.experimental import FirstFitPackIterDataset

    data = MapDataset.source([{"tokens": np.full(n, i, np.int32)} for i, n in enumerate(lengths)])
    packed = FirstFitPackIterDataset(
        data.to_iter_dataset(), length_struct={"tokens": t_max}, num_packing_bins=BINS
    )
    blocks = []
    for block in packed:
        tokens, segment = block["tokens"], block["tokens_segment_ids"]
        blocks.append(list(dict.fromkeys(tokens[segment > 0].tolist())))
    return blocks


def binpacking(lengths: np.ndarray, t_max: int) -> Blocks:
    """``binpacking.to_constant_volume``: the longest first, into the fullest block with room."""
    from binpacking import to_constant_volume

    packed = to_constant_volume(dict(enumerate(lengths.tolist())), t_max)
    return [list(block) for block in packed]


def torchtune(lengths: np.ndarray, t_max: int) -> Blocks:
    """torchtune's ``PackedDataset``, whole samples: the first that is too long closes a block."""
    blocks, room = [list[int]()], t_max
    for sequence, length in enumerate(lengths.tolist()):
        if length > room:
            blocks.append([])
            room = t_max
        blocks[-1].append(sequence)
        room -= length
    return blocks


def multipack(lengths: np.ndarray, t_max: int) -> Blocks:
    """multipack's sampler: as many of the next sequences as first-fit decreasing puts into a step.

    It finds by bisection how many that are.
    """
    blocks: Blocks = []
    first, frames = 0, np.concatenate([[0], np.cumsum(lengths)])
    while first < len(lengths):
        fits = 1
        too_many = int(np.searchsorted(frames, frames[first] + BINS * t_max, "right")) - first
        too_many = min(too_many, len(lengths) - first) + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            found = _first_fit_decreasing(lengths[first : first + middle], t_max)
            fits, too_many = (middle, too_many) if len(found) <= BINS else (fits, middle)
        step = _first_fit_decreasing(lengths[first : first + fits], t_max)
        blocks += [[first + sequence for sequence in block] for block in step]
        first += fits
    return blocks


def _first_fit_decreasing(lengths: np.ndarray, t_max: int) -> Blocks:
    blocks, rooms = Blocks(), list[int]()
    for sequence in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[sequence])
        place = next((b for b, room in enumerate(rooms) if room >= length), len(rooms))
        if place == len(rooms):
            blocks.append([])
            rooms.append(t_max)
        blocks[place].append(sequence)
        rooms[place] -= length
    return blocks


def _watched(pack: Callable[[np.ndarray, int], Blocks]) -> Callable[[np.ndarray, int], Packed]:
    def watched(lengths: np.ndarray, t_max: int) -> Packed:
        trim_memory()
        before = taken_memory(CPU) / 2**20
        reset_peak_memory(CPU)
        began = time.perf_counter()
        blocks = pack(lengths, t_max)
        return blocks, time.perf_counter() - began, peak_memory_mib(CPU) - before

    return watched


@dataclass(frozen=True, slots=True)
class Packer:
    """A way to pack that is not this library's."""

    pack: Callable[[np.ndarray, int], Packed]
    needs: str | None = None
    """The package that it needs."""
    most: int = 100_000
    """Sequences above which it takes minutes."""


PACKERS = {
    "TRL `pack_dataset`, bfd": Packer(trl, "trl"),
    "Grain first-fit, 8 bins": Packer(_watched(grain), "grain", 10_000),
    "`binpacking`": Packer(_watched(binpacking), "binpacking", 10_000),
    "torchtune's rule": Packer(_watched(torchtune)),
    "multipack's rule, 8 ranks": Packer(_watched(multipack)),
}


def _of_others(case: Case, packer: Packer, seed: int) -> tuple[float, float, Plan]:
    order = np.random.default_rng(seed).permutation(len(case.lengths))
    blocks, seconds, mib = packer.pack(case.lengths[order], case.t_max)
    pieces = whole_pieces(case.lengths, case.t_max, "error")
    named = [order[block].tolist() for block in blocks]
    return seconds, mib, plan_from_blocks(named, pieces, case.lengths, case.t_max)


def measure(quick: bool) -> Rows:
    """A row for each set of lengths and packer: means of two epochs."""
    rows: Rows = []
    cases = [case for case in usual_cases(100_000) if "test" not in case.name]
    for case in cases[: 1 if quick else None]:
        for name in ("bload", "bload_exact"):
            ours = timed_plans(case, name, 2)
            rows.append(_row(case, name, ours.seconds, ours.mib, ours.plans))
        for name, packer in PACKERS.items():
            there = not packer.needs or importlib.util.find_spec(packer.needs)
            if there and len(case.lengths) <= packer.most:
                made = [_of_others(case, packer, seed) for seed in (0, 1)]
                seconds, mibs, plans = map(list, zip(*made, strict=True))
                rows.append(_row(case, name, seconds, max(mibs), plans))
    return rows


def _row(case: Case, name: str, seconds: list[float], mib: float, plans: list[Plan]) -> list[Cell]:
    empty = statistics.mean(plan.padding for plan in plans)
    return [case.name, name, statistics.mean(seconds), mib, empty, *randomness(plans)]


INSTALLED = Part(
    ("lengths", "packer", "s", "MiB", "empty", "repeat", "partner"),
    ("", "", ".3f", ",.0f", ",.0f", ".5f", ".4f"),
    measure,
)
