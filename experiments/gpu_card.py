"""All that is measured on a GPU, in 25 minutes on one card; needs no Hydra, wandb or network.

    python -m experiments.gpu_card                     # writes results/gpu/CARD.json
    python -m experiments.gpu_card --parts walk memory # these alone; the file keeps the others
    python -m experiments.gpu_card --cpu-rehearsal     # every part at a small size, on CPUs
    python -m experiments.gpu_card --tables results/gpu/CARD.json --into docs/performance.md

Parts: `peak` times a large matrix product; `throughput` is frames a second under every loader, with
and without compiling and recomputing; `walk` the share of the temporal parts in a step; `memory`
the longest block that fits; `one_rank` a step under DDP beside one without; `loss_curve` the losses
beside those on the CPU.

The file is written after every part. A part that uses up its share of the minutes leaves out what
it has not begun, and says so; one that fails is recorded with its sentence, and the others go on.
The exit status is 1 if any failed, 2 for bad options, 130 for Ctrl-C.
"""

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bload.errors import InputError, check_number
from experiments.card import (
    loss_curve,
    memory,
    one_rank,
    tables,
    throughput,
    walk_share,
)
from experiments.card.bench import Bench
from experiments.card.peak import card_name
from experiments.card.record import Unit, read_json, run_part, write_json
from experiments.card.scale import full, rehearsal
from experiments.commands import wrong_input_in_one_sentence
from experiments.measured import now
from training.provenance import surroundings


def peak_units(bench: Bench) -> list[Unit]:
    """The card's peak, which other parts use too."""
    return [("matrix product", lambda: [asdict(bench.peak)])]


PARTS: dict[str, tuple[float, Callable[[Bench], list[Unit]]]] = {
    "peak": (0.01, peak_units),
    "one_rank": (0.05, one_rank.units),
    "walk": (0.1, walk_share.units),
    "loss_curve": (0.1, loss_curve.units),
    "throughput": (0.52, throughput.units),
    "memory": (0.14, memory.units),
}
"""In their order: share of the time, and what makes the units. What is left over is the next's."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.gpu_card",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--minutes", type=float, default=25.0, help="for all parts (25)")
    parser.add_argument("--out", type=Path, help="folder (results/gpu; runs/gpu_card)")
    parser.add_argument("--cpu-rehearsal", action="store_true", help="small, on CPUs")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="print the tables of a record")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="put them between its markers")
    options = parser.parse_args(arguments)
    with wrong_input_in_one_sentence():
        check_number("--minutes", options.minutes, 0.01)
        if options.into and not options.tables:
            raise InputError("--into names a page for tables; give their record with --tables FILE")
        if options.tables:
            tables.show(read_json(options.tables), options.into)
        elif not measure(options, shlex.join(sys.argv[1:] if arguments is None else arguments)):
            sys.exit(1)


def measure(options: argparse.Namespace, command: str) -> bool:
    """Run the parts and write the record; False if any failed.

    Raises:
        InputError: there is no card.
    """
    if not options.cpu_rehearsal and not torch.cuda.is_available():
        raise InputError("torch sees no GPU; use a machine with one, or give --cpu-rehearsal")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once
    device = torch.device("cpu") if options.cpu_rehearsal else torch.device("cuda", 0)
    bench = Bench(device, rehearsal() if options.cpu_rehearsal else full())
    card = card_name(device)
    name = "rehearsal" if options.cpu_rehearsal else re.sub(r"\W+", "_", card)
    folder = options.out or Path("runs/gpu_card" if options.cpu_rehearsal else "results/gpu")
    path = folder / f"{name}.json"
    parts: dict[str, Any] = {}
    if path.exists() and len(options.parts) < len(PARTS):
        parts = read_json(path)["parts"]
    made = {"command": f"python -m experiments.gpu_card {command}".strip(), **surroundings()}
    record = {"card": card, "rehearsal": options.cpu_rehearsal, "parts": parts}
    shares = sum(PARTS[part][0] for part in options.parts)
    until = time.monotonic()
    for part in (one for one in PARTS if one in options.parts):
        share, units = PARTS[part]
        until += 60 * options.minutes * share / shares
        print(part, flush=True)
        parts[part] = made | {"started": now()}
        parts[part] |= run_part(partial(units, bench), until, bench.release)
        write_json(path, record)
        for sentence in parts[part]["failed"]:
            print(f"  FAILED: {sentence}")
        if left := parts[part]["left_out"]:
            print(f"  no time was left for {'; '.join(left)}")
    print(f"\nWritten to {path}")
    return not any(parts[part]["failed"] for part in options.parts)


if __name__ == "__main__":
    main()
