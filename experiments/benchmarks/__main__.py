"""Measure what the library costs, and write the tables of docs/performance.md.

    python -m experiments.benchmarks                 # two idle cores, under 30 minutes
    python -m experiments.benchmarks packing step    # some of them
    python -m experiments.benchmarks --tables        # the tables of what was measured before
    python -m experiments.benchmarks --quick         # a rehearsal of a minute, written to runs/

They run one after another, on one thread. Rows go to results/benchmarks/NAME.csv, tables into the
marked blocks. What needs a GPU has a command of its own: ``python -m experiments.benchmarks.gpu``.
"""

import argparse
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd
import torch

from experiments.benchmarks import CSV, PERFORMANCE, in_markdown
from experiments.study import publish, write_rows

NAMES = ("packing", "loading", "step", "evaluation", "scaling")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m experiments.benchmarks", None, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--quick", action="store_true", help="measure little, for runs/")
    args = parser.parse_args(arguments)
    if unknown := {*args.names} - {*NAMES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    os.environ["OMP_NUM_THREADS"] = "1"  # for processes that are started
    torch.set_num_threads(1)
    folder = Path("runs/benchmarks_quick") if args.quick else CSV
    folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or NAMES:
        module, path = import_module(f"experiments.benchmarks.{name}"), folder / f"{name}.csv"
        print(f"\n{name}\n", flush=True)
        if not args.tables:
            write_rows(path, [*module.measure(args.quick)])
        block = in_markdown(pd.read_csv(path), module.TABLES)
        publish(f"benchmarks.{name}", block, committed=not args.quick, document=PERFORMANCE)


if __name__ == "__main__":
    main()
