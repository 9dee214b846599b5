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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import torch

from bload import action_genome_lengths, make_plan
from bload.packing.pieces import whole_pieces
from bload.packing.plan import Plan, plan_from_blocks
from bload.packing.randomness import partner_information, repeat_share
from experiments.benchmarks import Row, Table
from training.memory import peak_memory_mib, reset_peak_memory, taken_memory, trim_memory

CODE = ("bload/packing", "bload/lengths.py")
CPU = torch.device("cpu")
SEEDS = {10_000: 1_000, 200_000: 5, 2_000_000: 3}
"""Sequences -> plans, for at most so many sequences; beyond that one plan."""
PAIRS = 200_000
"""Most sequences for which randomness is measured."""
STEP = 8
"""Blocks that multipack fills in a step, one per rank, and bins that Grain keeps open."""
Blocks = list[list[int]]
Planned = tuple[Plan, float, float]
"""A plan, its seconds, and the peak of memory in MiB above that held before."""


def cases(limit: int) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield names, lengths and `T_max`: Action Genome's, and drawn ones of up to `limit`."""
    train = action_genome_lengths("train")
    yield "Action Genome, train", train, 94
    yield "Action Genome, test", action_genome_lengths("test"), 121
    for count in (n for n in (100_000, 1_000_000, 10_000_000) if n <= limit):
        drawn = np.random.default_rng(0).lognormal(6.0, 1.3, count).astype(np.int64)
        yield f"{count:,} of lognormal(6.0, 1.3)", drawn.clip(1, 8_192), 8_192
        if count == 1_000_000:
            yield "1,000,000 drawn from train", np.random.default_rng(0).choice(train, count), 94


def plan_alone(packer: str, lengths: np.ndarray, t_max: int, seed: int) -> Planned:
    """Plan with one of bload's packers."""
    trim_memory()
    memory_before = taken_memory(CPU) / 2**20
    reset_peak_memory(CPU)
    began = time.perf_counter()
    plan = make_plan(lengths, packer, t_max=t_max, seed=seed)
    return plan, time.perf_counter() - began, peak_memory_mib(CPU) - memory_before


def plan_by(pack: Callable, lengths: np.ndarray, t_max: int, seed: int) -> Planned:
    """Plan with `pack`, which makes blocks of lengths, here in random order, and times itself."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    blocks, seconds = pack(lengths[order], t_max)
    pieces = whole_pieces(lengths, t_max, "error")
    blocks = [order[block].tolist() for block in blocks]
    return plan_from_blocks(blocks, pieces, lengths, t_max), seconds, np.nan


def pack_installed(name: str, lengths: np.ndarray, t_max: int) -> tuple[Blocks, float]:
    """Return blocks and seconds of a package, from an interpreter without this project."""
    code = f"{inspect.getsource(pack_alone)}\nimport sys\npack_alone(*sys.argv[1:])"
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, lengths)
        file.flush()
        command = [os.environ.get("PACKERS", sys.executable), "-I", "-c", code, name, file.name]
        process = subprocess.run([*command, str(t_max), str(STEP)], capture_output=True, text=True)
    if "ModuleNotFoundError" in process.stderr:
        raise ModuleNotFoundError(process.stderr.strip().splitlines()[-1])
    process.check_returncode()
    blocks, seconds = json.loads(process.stdout.splitlines()[-1])
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
        data = import_module("datasets").Dataset.from_dict({"item": rows})
        pack = partial(package.pack_dataset, data, slots, "bfd")
    elif name == "grain":
        data = package.MapDataset.source([{"item": row} for row in rows]).to_iter_dataset()
        packer = import_module("grain.experimental").FirstFitPackIterDataset
        pack = partial(
            list, packer(data, length_struct={"item": slots}, num_packing_bins=int(bins))
        )
    else:
        pack = partial(package.to_constant_volume, dict(enumerate(lengths.tolist())), slots)
    began = time.perf_counter()
    packed = pack()
    seconds = time.perf_counter() - began
    if name == "trl":
        packed = packed.with_format("numpy")["item"]
    elif name == "grain":
        packed = [row["item"][row["item_segment_ids"] > 0] for row in packed]
    blocks = [[*dict.fromkeys(map(int, block))] for block in packed]
    print(f"\n{json.dumps([blocks, seconds])}")


def pack_by_rule(pack: Callable, lengths: np.ndarray, t_max: int) -> tuple[Blocks, float]:
    """Return the blocks of a rule, and its seconds."""
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
        limit = int(np.searchsorted(ends, ends[first] + STEP * t_max, "right")) - first
        counts = range(1, min(limit, len(lengths) - first) + 1)
        fill = partial(first_fit_decreasing, lengths, t_max, first)
        count = bisect_right(counts, STEP, key=lambda count: len(fill(count)))
        blocks += fill(count)
        first += count
    return blocks


def first_fit_decreasing(lengths: np.ndarray, t_max: int, first: int, count: int) -> Blocks:
    """Put `count` sequences from `first` on into the first block with room, the longest first."""
    blocks, rooms = Blocks(), list[int]()
    for sequence in (first + np.argsort(-lengths[first : first + count], kind="stable")).tolist():
        length = int(lengths[sequence])
        block = next((b for b, room in enumerate(rooms) if room >= length), len(rooms))
        if block == len(rooms):
            blocks.append([])
            rooms.append(t_max)
        blocks[block].append(sequence)
        rooms[block] -= length
    return blocks


PACKERS = {
    "bload": (partial(plan_alone, "bload"), 10_000_000),
    "bload_exact": (partial(plan_alone, "bload_exact"), 10_000_000),
    "TRL `pack_dataset`, bfd": (partial(plan_by, partial(pack_installed, "trl")), PAIRS),
    f"Grain first-fit, {STEP} bins": (partial(plan_by, partial(pack_installed, "grain")), 10_000),
    "`binpacking`": (partial(plan_by, partial(pack_installed, "binpacking")), 10_000),
    "torchtune's rule": (partial(plan_by, partial(pack_by_rule, torchtune)), PAIRS),
    f"multipack's rule, {STEP} ranks": (partial(plan_by, partial(pack_by_rule, multipack)), PAIRS),
}
"""Packers, and the most sequences that they plan: `PAIRS`, fewer for the slowest."""


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each set of lengths and packer."""
    for case, lengths, t_max in cases(10_000 if quick else 10_000_000):
        seeds = next((count for limit, count in SEEDS.items() if len(lengths) <= limit), 1)
        for name, (plan, limit) in PACKERS.items():
            is_own_packer = name.startswith("bload")
            if len(lengths) > limit or (not is_own_packer and "test" in case):
                continue
            row = {"table": "packing", "lengths": case, "packer": name}
            planned = (
                plan(lengths, t_max, seed)
                for seed in range(seeds if is_own_packer and not quick else 2)
            )
            try:
                yield row | summarise(planned, len(lengths) <= PAIRS)
            except ModuleNotFoundError as error:
                print(f"{name} is left out: {error}")


def summarise(planned: Iterable[Planned], compare: bool) -> Row:
    """Return the median seconds, the most memory, and what the last plans leave empty and repeat.

    Args:
        compare: keep two plans and compare them; few large ones fit into memory.
    """
    plans: deque[Plan] = deque(maxlen=2 if compare else 1)
    seconds, mibs, excess_blocks = [], [], []
    for plan, duration, mib in planned:
        plans.append(plan)
        seconds.append(duration)
        mibs.append(mib)
        excess_blocks.append(plan.blocks - plan.lower_bound)
    row = {"above the bound": max(excess_blocks), "s": statistics.median(seconds), "MiB": max(mibs)}
    row |= {"empty": plans[-1].padding}
    if len(plans) == 2:
        row |= {"repeat": repeat_share(*plans), "partner": partner_information([*plans])}
    return row


COLUMNS = {"lengths": "", "packer": "", "s": ",.4f", "MiB": ",.0f", "above the bound": ",.0f"}
COLUMNS |= {"empty": ",.0f", "repeat": ".5f", "partner": ".4f"}
TABLES = {"packing": Table("Plans of bload's packers, and of others:", COLUMNS)}
