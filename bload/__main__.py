"""Plan epochs of blocks from lengths: a table of loaders, pictures of blocks.

examples:
  bload table                          the paper's table, no data set needed
  bload table lengths.csv --ranks 8    your own lengths, a recommended T_max
  bload table lengths.csv --t-max 256,512 --json
  bload draw lengths.csv --out blocks.png

A loader is a packer with its options: "bload draw=length" in a table is
BlockLoader(source, packer="bload", draw="length") in Python, and
train.py loader=bload loader.draw=length in the experiments of a checkout.
"""

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bload import __version__
from bload.errors import InputError, TooLongError, printable
from bload.lengths import LengthsFile, action_genome_lengths, read_file
from bload.packing.packers import PACKERS
from bload.packing.pieces import Long
from bload.show.columns import columns_for, format_notes, format_recommendation, format_table
from bload.show.draw import draw_plans
from bload.show.recommendation import recommend_t_max
from bload.show.table import sized_plan, table_rows

FEW = (
    "fewer blocks than the {:,} ranks: the others compute fillers (blocks without a frame, not in "
    "blocks, padding and used) and a step takes as long, so naive and ragged say little of so few "
    "sequences"
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 2 for invalid input, reported in one sentence."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if "run" not in args:
        parser.print_help(sys.stderr)
        return 2
    try:
        _run(args)
    except InputError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has seen enough
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bload {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    lengths = argparse.ArgumentParser(add_help=False)
    data = lengths.add_mutually_exclusive_group()
    data.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="lengths, one per sequence: csv or tsv (a column named length, or one), json, npy or "
        "txt; default: Action Genome's",
    )
    data.add_argument(
        "--split",
        default="train",
        choices=("train", "test"),
        help="of Action Genome (default: train)",
    )
    lengths.add_argument("--clip", type=_positive, help="T_max of sampling and mix; default: mean")
    lengths.add_argument(
        "--long",
        choices=("error", "split", "carry", "truncate"),
        help="sequences longer than the block: refuse them, split them into pieces (the state is "
        "cleared at each cut, or carried on), or truncate them; default: error, with several T_max "
        "split",
    )
    lengths.add_argument("--seed", type=_whole, default=0)

    table = commands.add_parser("table", parents=[lengths], help="padding and deletion per loader")
    table.add_argument("--t-max", type=_sizes, help="block size, or several: 32,64,94")
    table.add_argument("--epochs", type=_positive, default=1, help="plans drawn per loader")
    table.add_argument("--randomness", action="store_true", help="add two measures of randomness")
    table.add_argument(
        "--ranks", type=_positive, help="predict the work on so many ranks; default: 8 for a FILE"
    )
    table.add_argument(
        "--batch-slots", type=_positive, help="slots of a rank and step; default: one block"
    )
    table.add_argument("--json", action="store_true", help="one object with all figures")
    table.set_defaults(run=_table)

    draw = commands.add_parser("draw", parents=[lengths], help="draw blocks as a picture")
    draw.add_argument("--t-max", type=_positive, help="block size")
    draw.add_argument("--out", metavar="FILE", help=".png or .svg")
    draw.add_argument("--rows", type=_positive, default=12, help="blocks shown per loader")
    draw.add_argument("--loaders", metavar="A,B", help="packers to draw")
    draw.add_argument("--epoch", type=_whole, default=0)
    draw.set_defaults(run=_draw)
    return parser


def _whole(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return int(text)


def _positive(text: str) -> int:
    return _whole(text, least=1)


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _run(args: argparse.Namespace) -> None:
    if args.file:
        found = read_file(Path(args.file))
    else:
        found = LengthsFile(action_genome_lengths(args.split))
    if args.clip and args.clip > found.lengths.max():
        raise InputError(
            f"--clip is {args.clip} but the longest sequence has {found.lengths.max()} frames, so "
            "sampling would delete everything; lower it"
        )
    try:
        args.run(args, found)
    except TooLongError as error:
        raise (error.named(found.names) if found.names else error) from None


def _table(args: argparse.Namespace, found: LengthsFile) -> None:
    lengths = found.lengths
    long: Long = args.long or ("split" if args.t_max and len(args.t_max) > 1 else "error")
    ranks = args.ranks or 8
    tables = [
        table_rows(
            lengths,
            t_max=t_max,
            clip=args.clip,
            long=long,
            seed=args.seed,
            epochs=args.epochs,
            is_paper=args.file is None and args.split == "train",
            randomness=args.randomness,
            ranks=ranks,
            batch_slots=args.batch_slots,
        )
        for t_max in args.t_max or [None]
    ]
    rows = [row for table in tables for row in table]
    work = bool(args.file or args.ranks or args.batch_slots)
    if args.json:
        advice = recommend_t_max(lengths, ranks, args.batch_slots, args.seed)
        results = {"ranks": ranks, "loaders": rows, "recommended": asdict(advice)}
        print(json.dumps(_summary(args, found) | results, indent=2))
        return
    columns = columns_for(rows, work)
    column = "" if found.column is None else f", column {found.column}"
    print(
        "{source}{}: {sequences:,} sequences, {frames:,} frames, {shortest} to {longest}, "
        "mean {mean:.3f}".format(printable(column), **_summary(args, found))
        + (f"; means over {args.epochs} epochs" if args.epochs > 1 else "")
    )
    for table in tables:
        print("\n" + format_table(table, columns))
    print("\n" + format_notes(rows, columns))
    cut = [str(t_max) for t_max in args.t_max or [] if t_max < lengths.max()]
    if cut:
        how = {"split": "split, the state cleared at each cut", "truncate": "truncated"}.get(
            long, "split, the state carried on (but for single, bucket and ragged)"
        )
        print(f"at T_max {', '.join(cut)} longer sequences are {how} (--long {long})")
    if work:
        size = f"{args.batch_slots:,} slots" if args.batch_slots else "one whole block"
        print(f"steps, naive, ragged: predicted for {ranks:,} ranks, each taking {size} per step;")
        print("naive, ragged: slots of naive padding and ragged batches, divided by the loader's")
        if min(row["blocks"] for row in rows) < ranks:
            print(textwrap.fill(FEW.format(ranks), 100))
        advice = recommend_t_max(lengths, ranks, args.batch_slots, args.seed)
        print("\n" + format_recommendation(advice))


def _summary(args: argparse.Namespace, found: LengthsFile) -> dict[str, Any]:
    lengths = found.lengths
    return {
        "source": args.file or f"Action Genome, {args.split} split",
        "column": found.column,
        "sequences": len(lengths),
        "frames": int(lengths.sum()),
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "mean": float(lengths.mean()),
        "epochs": args.epochs,
    }


def _draw(args: argparse.Namespace, found: LengthsFile) -> None:
    lengths = found.lengths
    plans = {
        name: sized_plan(
            lengths, name, args.t_max, args.clip, args.long or "error", args.seed, args.epoch
        )
        for name in (args.loaders.split(",") if args.loaders else PACKERS)
    }
    print(draw_plans(plans, args.out or "blocks.png", args.rows))


if __name__ == "__main__":
    sys.exit(main())
