"""Measure what the library costs, and write the tables of docs/.

    python -m experiments.benchmarks                 # two idle cores, less than 25 minutes
    python -m experiments.benchmarks packing scaling # some of them
    python -m experiments.benchmarks --tables        # the tables of what was measured before
    python -m experiments.benchmarks --quick         # a trial of a minute, written to runs/
    python -m experiments.benchmarks gpu             # needs a GPU; not in the first command
    python -m experiments.benchmarks trainer         # needs transformers; not in the first
    python -m experiments.benchmarks chunks          # 100 million sequences; not in the first

They run one after another, on one thread. Rows go to results/benchmarks/NAME.csv, tables into the
marked blocks.
"""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import torch

from bload.errors import InputError, check_choice
from datasets.files import exit_on_input_error
from experiments.benchmarks import format_tables
from experiments.study import RESULTS, make_parser, publish, read_rows, write_rows

NAMES = ("packing", "loading", "scaling")
ALL = (*NAMES, "gpu", "trainer", "chunks")


@exit_on_input_error()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("benchmarks", __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--quick", action="store_true", help="measure little, for runs/")
    args = parser.parse_args(arguments)
    folder = Path("runs/benchmarks_quick") if args.quick else RESULTS / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # for processes started later
    torch.set_num_threads(1)
    for name in args.names:
        check_choice("name", name, ALL)
    for name in args.names or NAMES:
        module, path = import_module(f"experiments.benchmarks.{name}"), folder / f"{name}.csv"
        if not args.tables:
            rows, part = [], path.with_suffix(".part.csv")
            for row in module.measure(args.quick):
                rows.append(row)
                write_rows(part, rows)  # what ends early leaves them
            if not rows:
                raise InputError(f"{name} has no row, see above")
            part.replace(path)
        block = format_tables(read_rows(path), module.TABLES)
        publish(f"benchmarks.{name}", block, committed=not args.quick)


if __name__ == "__main__":
    main()
