"""Plan epochs of blocks from lengths: a table of loaders.

examples:
  bload table                          Action Genome's lengths, no data set needed
  bload table lengths.csv --ranks 8    your own lengths
  bload table lengths.csv --t-max 256,512 --long split --json

A loader is a packer with its options: "bload draw=length" in a table is
BlockLoader(source, packer="bload", draw="length") in Python, and
train.py loader=bload loader.draw=length in the experiments of a checkout.
"""

import argparse
import json
import os
import sys

import numpy as np

from bload import __version__
from bload.errors import InputError, check_whole, plural
from bload.lengths import action_genome_lengths, read_lengths
from bload.packing.pieces import check_fit
from bload.table import NOTES, format_table, table_rows


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 0, or 2 after a message about invalid input."""
    args = _parser().parse_args(arguments)
    try:
        lengths, names = action_genome_lengths(args.split), None
        if args.file:
            lengths, names = read_lengths(args.file)
        _table(args, lengths, names)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (InputError, OSError) as error:
        print(f"bload: error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bload {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    table = commands.add_parser("table", help="padding and deletion per loader")
    data = table.add_mutually_exclusive_group()
    data.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="lengths, one per sequence: csv or tsv (a column named length, or only one column), "
        "npy or txt; default: those of Action Genome's split train",
    )
    data.add_argument("--split", default="train", choices=("train", "test"), help="without FILE")
    table.add_argument("--t-max", type=sizes, help="block size, or several: 32,64,94")
    table.add_argument(
        "--long",
        default="error",
        choices=("error", "split", "carry", "truncate"),
        help="sequences longer than the block: refuse them, split them into pieces (the state is "
        "cleared at each cut, or carried on), or truncate them; default: error. single, bucket and "
        "ragged never carry",
    )
    table.add_argument("--epochs", type=int, default=1, help="plans drawn per loader")
    table.add_argument("--ranks", type=int, default=8, help="to predict for (default: 8)")
    table.add_argument("--batch-slots", type=int, help="of a rank and step; default: one block")
    table.add_argument("--json", action="store_true", help="one object with all figures")
    return parser


def sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _table(args: argparse.Namespace, lengths: np.ndarray, names: list[str] | None) -> None:
    for t_max in args.t_max or ():
        check_whole("t_max", t_max, 1)
        check_fit(lengths, t_max, args.long, names)
    keys = ("long", "epochs", "ranks", "batch_slots")
    options = {key: getattr(args, key) for key in keys}
    tables = [table_rows(lengths, t_max=t_max, **options) for t_max in args.t_max or [None]]
    summary = {
        "source": args.file or f"Action Genome, {args.split} split",
        "sequences": len(lengths),
        "frames": int(lengths.sum()),
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "mean": float(lengths.mean()),
        "epochs": args.epochs,
    }
    if args.json:
        rows = [row for table in tables for row in table]
        print(json.dumps({**summary, "loaders": rows}, indent=2))
        return
    print(
        "{source}; plans of {}\n{sequences:,} sequences, {frames:,} frames, {shortest} to "
        "{longest}, mean {mean:.3f}\n".format(plural(args.epochs, "epoch"), **summary)
    )
    text = "\n\n".join(map(format_table, tables))
    left_out = {"fewest", "used"} - {*text.split()}
    notes = [note for note in NOTES.splitlines() if note.split(":")[0] not in left_out]
    size = f"{args.batch_slots:,} (or one block's)" if args.batch_slots else "the largest block's"
    print("\n".join([text, *notes]))
    print(f"steps and ratios: for {plural(args.ranks, 'rank')}, each taking {size} slots per step")


if __name__ == "__main__":
    sys.exit(main())
