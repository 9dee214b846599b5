"""Plan epochs of blocks from lengths: a table of loaders, pictures of blocks.

examples:
  bload table                          Action Genome's lengths, no data set needed
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
from pathlib import Path

from bload import __version__
from bload.errors import InputError, plural, printable
from bload.lengths import LengthsFile, action_genome_lengths, read_file
from bload.packing.packers import PACKERS
from bload.packing.pieces import Long, check_fit
from bload.show.draw import draw_plans
from bload.show.recommendation import recommend_t_max
from bload.show.table import format_notes, format_table, sized_plan, table_rows


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 0, or 2 after a message about invalid input."""
    args = _parser().parse_args(arguments)
    try:
        data = LengthsFile(action_genome_lengths(args.split))
        if args.file:
            data = read_file(Path(args.file))
        args.run(args, data)
    except InputError as error:
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

    lengths = argparse.ArgumentParser(add_help=False)
    data = lengths.add_mutually_exclusive_group()
    data.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="lengths, one per sequence: csv, tsv or parquet (a column named length, or only one "
        "column), json, npy or txt, also as .gz; default: Action Genome's",
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
        "cleared at each cut, or carried on), or truncate them; default: error (a table of several "
        "T_max: split)",
    )
    lengths.add_argument("--seed", type=int, default=0, help="of the plans (default: 0)")

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
    draw.add_argument("--out", default="blocks.png", help=".png or .svg (default: blocks.png)")
    draw.add_argument("--rows", type=_positive, default=12, help="blocks shown per loader")
    draw.add_argument("--loaders", metavar="A,B", help="packers to draw; default: all")
    draw.add_argument("--epoch", type=int, default=0, help="epoch to draw (default: 0)")
    draw.set_defaults(run=_draw)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _check_fit(data: LengthsFile, t_max: int | None, long: Long) -> None:
    if t_max:
        check_fit(data.lengths, t_max, long, data.names.__getitem__ if data.names else str)


def _table(args: argparse.Namespace, data: LengthsFile) -> None:
    lengths, sizes = data.lengths, args.t_max or [None]
    long: Long = args.long or ("split" if len(sizes) > 1 else "error")
    _check_fit(data, sizes[0], long)
    predicts = bool(args.file or args.ranks or args.batch_slots)
    names = ("clip", "seed", "epochs", "randomness", "batch_slots")
    options = {name: getattr(args, name) for name in names} | {"long": long}
    options["ranks"] = args.ranks or (8 if predicts or args.json else None)
    tables = [table_rows(lengths, t_max=t_max, **options) for t_max in sizes]
    advice = recommend_t_max(lengths, args.ranks or 8, args.batch_slots, args.seed)
    summary = {
        "source": args.file or f"Action Genome, {args.split} split",
        "column": data.column,
        "sequences": len(lengths),
        "frames": int(lengths.sum()),
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "mean": float(lengths.mean()),
        "epochs": args.epochs,
    }
    if args.json:
        rows = [row for table in tables for row in table]
        print(json.dumps({**summary, "loaders": rows, "recommended": advice._asdict()}, indent=2))
        return
    column = "" if data.column is None else f", column {data.column}"
    print(
        "{source}{}: {sequences:,} sequences, {frames:,} frames, {shortest} to {longest}, "
        "mean {mean:.3f}".format(printable(column), **summary)
        + (f"; means over {args.epochs} epochs" if args.epochs > 1 else "")
    )
    for table in tables:
        print("\n" + format_table(table))
    print("\n" + format_notes(tables[0][0]))
    if any(t_max and t_max < lengths.max() for t_max in sizes):
        print(f"sequences longer than T_max: --long {long}; single, bucket and ragged never carry")
    if predicts:
        size = "one whole block"
        if args.batch_slots:
            size = f"{args.batch_slots:,} slots, but at least one block"
        print(f"steps and ratios: for {plural(advice.ranks, 'rank')}, each taking {size} per step")
        print(f"\n{advice}")


def _draw(args: argparse.Namespace, data: LengthsFile) -> None:
    long: Long = args.long or "error"
    _check_fit(data, args.t_max, long)
    sizes = args.t_max, args.clip, long, args.seed, args.epoch
    names = args.loaders.split(",") if args.loaders else PACKERS
    plans = {name: sized_plan(data.lengths, name, *sizes) for name in names}
    print(f"written to {draw_plans(plans, args.out, args.rows)}")


if __name__ == "__main__":
    sys.exit(main())
