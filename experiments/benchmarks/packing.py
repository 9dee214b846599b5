"""Planning: seconds, memory and padding of packers, beside what people install.

TRL, Grain and `binpacking` run in an environment of their own; those not installed are left out.
TRL and Grain pack the data, so their seconds include copying one number per frame.

    python -m venv /tmp/packers && /tmp/packers/bin/pip install trl grain binpacking
    BENCHMARK_PYTHON=/tmp/packers/bin/python python -m experiments.benchmarks packing
"""

import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from bload import action_genome_lengths, make_plan
from bload.packing.pieces import whole_pieces
from bload.packing.plan import Plan, plan_from_blocks
from experiments.benchmarks import Row, Table
from training.ranks import peak_memory_mib, reset_peak_memory

CPU = torch.device("cpu")
SEEDS = {10_000: 1_000, 200_000: 5, 2_000_000: 3, 10_000_000: 1}
"""Sequences -> plans of bload's packers, for at most so many sequences; of others: 2 plans."""
OTHERS = {
    "TRL `pack_dataset`, bfd": ("trl.data_utils", 200_000),
    "Grain first-fit, 8 bins": ("grain", 10_000),
    "`binpacking`": ("binpacking", 10_000),
}
"""Name -> module, and the most sequences that it plans."""
Planned = tuple[Plan, float, float]
"""A plan, its seconds, and the peak of memory in MiB above that held before."""


def cases(quick: bool) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield names, lengths and `T_max`: Action Genome's, and drawn ones."""
    train = action_genome_lengths("train")
    yield "Action Genome, train", train, 94
    yield "Action Genome, test", action_genome_lengths("test"), 121
    for count in () if quick else (100_000, 1_000_000, 10_000_000):
        drawn = np.random.default_rng(0).lognormal(6.0, 1.3, count).astype(np.int64)
        yield f"{count:,} of lognormal(6.0, 1.3)", drawn.clip(1, 8_192), 8_192
        if count == 1_000_000:
            yield "1,000,000 drawn from train", np.random.default_rng(0).choice(train, count), 94


def plan_here(packer: str, lengths: np.ndarray, t_max: int, seed: int) -> Planned:
    """Plan with one of bload's packers."""
    memory_before = reset_peak_memory(CPU) / 2**20
    began = time.perf_counter()
    plan = make_plan(lengths, packer, t_max=t_max, seed=seed)
    return plan, time.perf_counter() - began, peak_memory_mib(CPU) - memory_before


def plan_apart(package: str, lengths: np.ndarray, t_max: int, seed: int) -> Planned:
    """Plan shuffled lengths with a package, by an interpreter without this project."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    code = f"{inspect.getsource(pack_alone)}\nimport sys\npack_alone(*sys.argv[1:])"
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, lengths[order])
        file.flush()
        command = [os.environ.get("BENCHMARK_PYTHON", sys.executable), "-I", "-c", code]
        command += [package, file.name, str(t_max)]
        process = subprocess.run(command, capture_output=True, text=True)
    if "ModuleNotFoundError" in process.stderr:
        raise ModuleNotFoundError(process.stderr.strip().splitlines()[-1])
    process.check_returncode()
    blocks, seconds = json.loads(process.stdout.splitlines()[-1])
    blocks, pieces = [order[block].tolist() for block in blocks], whole_pieces(lengths, t_max)
    return plan_from_blocks(blocks, pieces, lengths, t_max), seconds, np.nan


def pack_alone(name: str, file: str, t_max: str) -> None:
    """Print blocks and seconds as JSON; its source runs by itself, in another environment."""
    import json
    import time
    from importlib import import_module

    import numpy as np

    package, lengths, slots = import_module(name), np.load(file), int(t_max)
    rows = [np.full(length, number, np.int32) for number, length in enumerate(lengths)]
    if name == "trl.data_utils":
        data = import_module("datasets").Dataset.from_dict({"item": rows})
    elif name == "grain":
        data = package.MapDataset.source([{"item": row} for row in rows]).to_iter_dataset()
        packer = import_module("grain.experimental").FirstFitPackIterDataset
    began = time.perf_counter()
    if name == "trl.data_utils":
        packed = package.pack_dataset(data, slots, "bfd")
    elif name == "grain":
        packed = [*packer(data, length_struct={"item": slots}, num_packing_bins=8)]
    else:
        packed = package.to_constant_volume(dict(enumerate(lengths.tolist())), slots)
    seconds = time.perf_counter() - began
    if name == "trl.data_utils":
        packed = packed.with_format("numpy")["item"]
    elif name == "grain":
        packed = [row["item"][row["item_segment_ids"] > 0] for row in packed]
    blocks = [[*dict.fromkeys(map(int, block))] for block in packed]
    print(f"\n{json.dumps([blocks, seconds])}")


def measure(quick: bool) -> Iterator[Row]:
    """Yield a row for each set of lengths and packer."""
    for case, lengths, t_max in cases(quick):
        count = 2 if quick else next(n for most, n in SEEDS.items() if len(lengths) <= most)
        ways = {name: (partial(plan_here, name), count) for name in ("bload", "bload_exact")}
        for name, (package, most) in OTHERS.items():
            if len(lengths) <= most and "test" not in case:
                ways[name] = partial(plan_apart, package), 2
        for name, (plan, seeds) in ways.items():
            try:
                planned = [plan(lengths, t_max, seed) for seed in range(seeds)]
            except ModuleNotFoundError as error:
                print(f"{name} is left out: {error}")
                continue
            plans, seconds, mibs = zip(*planned, strict=True)
            above = max(plan.num_blocks - plan.lower_bound for plan in plans)
            row = {"table": "packing", "lengths": case, "packer": name, "above the bound": above}
            row |= {"s": statistics.median(seconds), "MiB": max(mibs), "padded": plans[-1].padding}
            yield row


COLUMNS = {"lengths": "", "packer": "", "s": ",.4f", "MiB": ",.0f"}
COLUMNS |= {"above the bound": ",.0f", "padded": ",.0f"}
TABLES = {"packing": Table("Plans of bload's packers, and of others:", COLUMNS)}
