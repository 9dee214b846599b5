"""The command line: the padding table and the drawing of blocks.

python -m bload table                              the paper's table, no data set needed
python -m bload table --lengths my.csv --t-max 512
python -m bload table --epochs 20 --randomness
python -m bload draw --out blocks.png
"""

import argparse
import json
import sys
import textwrap

import numpy as np

from bload.draw import draw_plans
from bload.errors import InputError, spelling
from bload.lengths import action_genome_lengths, read_lengths
from bload.packers import PACKERS
from bload.pieces import Long
from bload.table import format_table, sized_plan, table_rows


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 2 for invalid input, reported in one sentence."""
    args = _parser().parse_args(arguments)
    with spelling(_as_typed):
        try:
            args.run(args)
        except InputError as error:
            print(f"{_parser().prog}: error: {error}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the pipe has seen enough
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bload", description="Plan epochs of blocks from sequence lengths."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    lengths = argparse.ArgumentParser(add_help=False)
    data = lengths.add_mutually_exclusive_group()
    data.add_argument("--lengths", metavar="FILE", help="csv, json, npy or txt; one per sequence")
    data.add_argument(
        "--split",
        default="train",
        choices=("train", "test"),
        help="of Action Genome (default: train)",
    )
    lengths.add_argument("--clip", type=_positive, help="T_max of sampling and mix; default: mean")
    lengths.add_argument(
        "--long",
        choices=("error", "split", "truncate"),
        help="sequences longer than the block: refuse them, split them into pieces (the state is "
        "cleared at each cut), or truncate them; default: error, but split for a table of several "
        "--t-max",
    )
    lengths.add_argument("--seed", type=_whole, default=0)

    table = commands.add_parser("table", parents=[lengths], help="padding and deletion per loader")
    table.add_argument("--t-max", type=_sizes, help="block size, or several: 32,64,94")
    table.add_argument("--epochs", type=_positive, default=1, help="plans drawn per loader")
    table.add_argument("--randomness", action="store_true", help="add two measures of randomness")
    table.add_argument("--json", action="store_true", help="a list of objects, one per loader")
    table.set_defaults(run=_table)

    draw = commands.add_parser("draw", parents=[lengths], help="draw blocks as a picture")
    draw.add_argument("--t-max", type=_positive, help="block size")
    draw.add_argument("--out", default="blocks.png", metavar="FILE", help=".png or .svg")
    draw.add_argument("--rows", type=_positive, default=12, help="blocks shown per loader")
    draw.add_argument("--loaders", default=",".join(PACKERS), metavar="A,B", help="loaders to draw")
    draw.add_argument("--epoch", type=_whole, default=0)
    draw.set_defaults(run=_draw)
    return parser


def _as_typed(name: str, value: str | None) -> str:
    option = f"--{name.replace('_', '-')}"
    return option if value is None else f"{option} {value}"


def _whole(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
    return int(text)


def _positive(text: str) -> int:
    return _whole(text, least=1)


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _lengths(args: argparse.Namespace) -> np.ndarray:
    return read_lengths(args.lengths) if args.lengths else action_genome_lengths(args.split)


def _table(args: argparse.Namespace) -> None:
    lengths = _lengths(args)
    is_paper = args.lengths is None and args.split == "train"
    long: Long = args.long or ("split" if args.t_max and len(args.t_max) > 1 else "error")
    tables = [
        table_rows(
            lengths,
            t_max=t_max,
            clip=args.clip,
            long=long,
            seed=args.seed,
            epochs=args.epochs,
            is_paper=is_paper,
            randomness=args.randomness,
        )
        for t_max in args.t_max or [None]
    ]
    rows = [row for table in tables for row in table]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    source = args.lengths or f"Action Genome, {args.split} split"
    print(
        f"{source}: {len(lengths):,} sequences, {lengths.sum():,} frames, "
        f"{lengths.min()} to {lengths.max()}, mean {lengths.mean():.3f}"
        + (f"; means over {args.epochs} epochs" if args.epochs > 1 else "")
    )
    for table in tables:
        print("\n" + format_table(table))
    print("\nlimit: a lower bound on the blocks of any packing of the kept frames, and its padding")
    print("clips=all: every whole clip of a video, where sampling draws one per video and epoch")
    print("draw=length: draws a length that fits, then a video of it, as the authors' code does")
    if args.randomness:
        print("repeat: share of pairs sharing a block that do so again in the next epoch")
        print("partner nats: mutual information of the lengths of two sequences sharing a block")
    cut = [str(t_max) for t_max in args.t_max or [] if t_max < lengths.max()]
    if cut:
        how = "split, the state cleared at each cut" if long == "split" else "truncated"
        print(f"at T_max {', '.join(cut)} longer sequences are {how} (--long {long})")
    if any(row["paper_padding"] is not None for row in rows):
        print("paper: arXiv 2310.10879")
    for note in {row["paper_note"]: None for row in rows if row["paper_note"]}:
        print(textwrap.fill(f"* {note}", 100))


def _draw(args: argparse.Namespace) -> None:
    lengths = _lengths(args)
    long: Long = args.long or "error"
    plans = {
        name: sized_plan(lengths, name, args.t_max, args.clip, long, args.seed, args.epoch)
        for name in args.loaders.split(",")
    }
    print(draw_plans(plans, args.out, args.rows))


if __name__ == "__main__":
    sys.exit(main())
