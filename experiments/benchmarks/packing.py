"""Planning: seconds, memory, empty slots and randomness of packers, beside what people install.

TRL, Grain and `binpacking` run in their own environment; those not installed are left out. TRL and
Grain pack the data, so their seconds include copying one number per frame. torchtune's and
multipack's rules are restated from their definitions.

    python -m venv /tmp/packers && /tmp/packers/bin/pip install trl grain binpacking
    PACKERS=/tmp/packers/bin/python python -m experiments.benchmarks packing
"""

import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from bload import action_genome_lengths, make_plan
from bload.packing.pieces import whole_pieces
from bload.packing.plan import Plan, plan_from_blocks
from bload.packing.randomness import partner_information, repeat_share
from experiments.benchmarks import Row, Table
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory

CPU = torch.device("cpu")
SEEDS = {10_000: 1_000, 200_000: 5, 2_000_000: 3}
"""Sequences -> plans, for at most so many sequences; beyond that one plan."""
PAIRS = 200_000
"""Most sequences for which randomness is measured."""
STEP = 8
"""Blocks that multipack fills in a step, one per rank, and bins that Grain keeps open."""
Blocks = list[list[int]]
Pack = Callable[[np.ndarray, int], tuple[Blocks, float]]
"""Blocks of lengths for a `T_max`, and seconds."""


class Case(NamedTuple):
    """Lengths to pack into blocks of `t_max`."""

    name: str
    lengths: np.ndarray
    t_max: int


def cases(most: int) -> list[Case]:
    """Return Action Genome's lengths, and drawn ones of up to `most` sequences."""
    train, test = (action_genome_lengths(split) for split in ("train", "test"))
    found = [Case("Action Genome, train", train, 94), Case("Action Genome, test", test, 121)]
    for number in (n for n in (100_000, 1_000_000, 10_000_000) if n <= most):
        drawn = np.random.default_rng(0).lognormal(6.0, 1.3, number).astype(np.int64)
        name = f"{number:,} of lognormal(6.0, 1.3)"
        found.append(Case(name, drawn.clip(1, 8_192), 8_192))
        if number == 1_000_000:
            drawn = np.random.default_rng(0).choice(train, number)
            found.append(Case("1,000,000 drawn from train", drawn, 94))
    return found


def own(packer: str, case: Case, seed: int) -> tuple[Plan, float, float]:
    """Return a plan of bload's, its seconds, and its peak in MiB above the memory held before."""
    trim_memory()
    before = taken_memory(CPU) / 2**20
    reset_peak_memory(CPU)
    began = time.perf_counter()
    plan = make_plan(case.lengths, packer, t_max=case.t_max, seed=seed)
    return plan, time.perf_counter() - began, peak_memory_mib(CPU) - before


def other(pack: Pack, case: Case, seed: int) -> tuple[Plan, float, float]:
    """Return the plan that `pack` makes of the lengths in random order, and its seconds."""
    order = np.random.default_rng(seed).permutation(len(case.lengths))
    blocks, seconds = pack(case.lengths[order], case.t_max)
    pieces = whole_pieces(case.lengths, case.t_max, "error")
    named = [order[block].tolist() for block in blocks]
    return plan_from_blocks(named, pieces, case.lengths, case.t_max), seconds, np.nan


def installed(name: str, lengths: np.ndarray, t_max: int) -> tuple[Blocks, float]:
    """Return blocks and seconds of a package, from an interpreter without this project."""
    code = f"{inspect.getsource(pack_alone)}\nimport sys\npack_alone(*sys.argv[1:])"
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, lengths)
        file.flush()
        command = [os.environ.get("PACKERS", sys.executable), "-I", "-c", code, name, file.name]
        made = subprocess.run([*command, str(t_max), str(STEP)], capture_output=True, text=True)
    if "ModuleNotFoundError" in made.stderr:
        raise ModuleNotFoundError(made.stderr.strip().splitlines()[-1])
    made.check_returncode()
    blocks, seconds = json.loads(made.stdout.splitlines()[-1])
    return blocks, seconds


def pack_alone(name: str, file: str, t_max: str, bins: str) -> None:
    """Print blocks and seconds as JSON; its source runs by itself, in another environment."""
    import json
    import time
    from functools import partial
    from importlib import import_module

    import numpy as np

    package, lengths, slots = import_module(name), np.load(file), int(t_max)
    rows = [np.full(length, number, np.int32) for number, length in enumerate(lengths)]
    if name == "trl":
        data = import_module("datasets").Dataset.from_dict({"of": rows})
        pack = partial(package.pack_dataset, data, slots, "bfd")
    elif name == "grain":
        data = package.MapDataset.source([{"of": row} for row in rows]).to_iter_dataset()
        packer = import_module("grain.experimental").FirstFitPackIterDataset
        pack = partial(list, packer(data, length_struct={"of": slots}, num_packing_bins=int(bins)))
    else:
        pack = partial(package.to_constant_volume, dict(enumerate(lengths.tolist())), slots)
    began = time.perf_counter()
    found = pack()
    seconds = time.perf_counter() - began
    if name == "trl":
        found = found.with_format("numpy")["of"]
    elif name == "grain":
        found = [row["of"][row["of_segment_ids"] > 0] for row in found]
    blocks = [[*dict.fromkeys(map(int, block))] for block in found]
    print(f"\n{json.dumps([blocks, seconds])}")


def timed(pack: Callable, lengths: np.ndarray, t_max: int) -> tuple[Blocks, float]:
    began = time.perf_counter()
    return pack(lengths, t_max), time.perf_counter() - began


def torchtune(lengths: np.ndarray, t_max: int) -> Blocks:
    """Pack like torchtune's ``PackedDataset``: the first sample that is too long closes a block."""
    blocks, room = [list[int]()], t_max
    for sequence, length in enumerate(lengths.tolist()):
        if length > room:
            blocks.append([])
            room = t_max
        blocks[-1].append(sequence)
        room -= length
    return blocks


def multipack(lengths: np.ndarray, t_max: int) -> Blocks:
    """Pack like multipack: a step takes as many next sequences as first-fit decreasing can fit.

    Bisection finds how many that are.
    """
    blocks, first, ends = Blocks(), 0, np.concatenate([[0], np.cumsum(lengths)])
    while first < len(lengths):
        most = int(np.searchsorted(ends, ends[first] + STEP * t_max, "right")) - first
        counts = range(1, min(most, len(lengths) - first) + 1)
        of = partial(_first_fit_decreasing, lengths, t_max, first)
        count = bisect_right(counts, STEP, key=lambda count: len(of(count)))
        blocks += of(count)
        first += count
    return blocks


def _first_fit_decreasing(lengths: np.ndarray, t_max: int, first: int, count: int) -> Blocks:
    blocks, rooms = Blocks(), list[int]()
    for sequence in (first + np.argsort(-lengths[first : first + count], kind="stable")).tolist():
        length = int(lengths[sequence])
        place = next((b for b, room in enumerate(rooms) if room >= length), len(rooms))
        if place == len(rooms):
            blocks.append([])
            rooms.append(t_max)
        blocks[place].append(sequence)
        rooms[place] -= length
    return blocks


OTHERS: dict[str, tuple[Pack, int]] = {
    "TRL `pack_dataset`, bfd": (partial(installed, "trl"), PAIRS),
    f"Grain first-fit, {STEP} bins": (partial(installed, "grain"), 10_000),
    "`binpacking`": (partial(installed, "binpacking"), 10_000),
    "torchtune's rule": (partial(timed, torchtune), PAIRS),
    f"multipack's rule, {STEP} ranks": (partial(timed, multipack), PAIRS),
}
"""Other packers, and the most sequences that they plan: `PAIRS`, fewer for the slowest."""


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each set of lengths and packer."""
    for case in cases(10_000 if quick else 10_000_000):
        size = len(case.lengths)
        times = next((many for most, many in SEEDS.items() if size <= most), 1)
        for name in ("bload", "bload_exact"):
            yield _row(case, name, partial(own, name), 2 if quick else times)
        for name, (pack, most) in OTHERS.items():
            if size <= most and "test" not in case.name:
                try:
                    yield _row(case, name, partial(other, pack), 2)
                except ModuleNotFoundError as error:
                    print(f"{name} is left out: {error}")


def _row(case: Case, name: str, pack: Callable, times: int) -> Row:
    plans, seconds, mibs, above = list[Plan](), [], [], []
    for seed in range(times):
        plans = plans[-1:] if len(case.lengths) <= PAIRS else []  # few large ones fit into memory
        plan, took, mib = pack(case, seed)
        plans.append(plan)
        seconds.append(took)
        mibs.append(mib)
        above.append(plan.blocks - plan.lower_bound)
    row = {"table": "packing", "lengths": case.name, "packer": name, "above the bound": max(above)}
    row |= {"s": statistics.median(seconds), "MiB": max(mibs), "empty": plans[-1].padding}
    if len(plans) == 2:
        row |= {"repeat": repeat_share(*plans), "partner": partner_information(plans)}
    return row


COLUMNS = {"lengths": "", "packer": "", "s": ",.4f", "MiB": ",.0f", "above the bound": ",.0f"}
COLUMNS |= {"empty": ",.0f", "repeat": ".5f", "partner": ".4f"}
TABLES = {"packing": Table("Plans of bload's packers, and of others:", COLUMNS)}
