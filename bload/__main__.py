"""``python -m bload``: the padding table and the drawing.

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
from bload.errors import InputError
from bload.lengths import action_genome_lengths, read_lengths
from bload.packers import CUTS_CLIPS, PACKERS, make_plan
from bload.table import NOT_DERIVABLE, format_table, table_rows


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        args.run(args)
    except InputError as error:
        print(f"bload: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has seen enough
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bload", description="Plan epochs of blocks from sequence lengths."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    lengths = argparse.ArgumentParser(add_help=False)
    data = lengths.add_mutually_exclusive_group()
    data.add_argument("--lengths", metavar="FILE", help="csv, json, npy or txt; one a sequence")
    data.add_argument(
        "--split", default="train", choices=("train", "test"), help="of Action Genome (default)"
    )
    lengths.add_argument("--clip", type=_positive, help="frames of sampling and mix; default: mean")
    lengths.add_argument(
        "--long",
        choices=("error", "split", "truncate"),
        help="what becomes of sequences longer than the block; default: error, and split where "
        "table has several --t-max",
    )
    lengths.add_argument("--seed", type=_seed, default=0)

    table = commands.add_parser("table", parents=[lengths], help="padding and deletion by loader")
    table.add_argument("--t-max", type=_sizes, help="block size, or several: 32,64,94")
    table.add_argument("--epochs", type=_positive, default=1, help="plans drawn a loader")
    table.add_argument("--randomness", action="store_true", help="how fresh and free blocks are")
    table.add_argument("--json", action="store_true", help="a list of objects, one a loader")
    table.set_defaults(run=_table)

    draw = commands.add_parser("draw", parents=[lengths], help="blocks as a picture")
    draw.add_argument("--t-max", type=_positive, help="block size")
    draw.add_argument("--out", default="blocks.png", metavar="FILE", help=".png or .svg")
    draw.add_argument("--rows", type=_positive, default=12, help="blocks shown a loader")
    draw.add_argument("--loaders", default=",".join(PACKERS), metavar="A,B", help="which to draw")
    draw.add_argument("--epoch", type=_seed, default=0)
    draw.set_defaults(run=_draw)

    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _lengths(args: argparse.Namespace) -> np.ndarray:
    return read_lengths(args.lengths) if args.lengths else action_genome_lengths(args.split)


def _table(args: argparse.Namespace) -> None:
    lengths = _lengths(args)
    is_paper = args.lengths is None and args.split == "train"
    long = args.long or ("split" if args.t_max and len(args.t_max) > 1 else "error")
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
    if args.json:
        rows = [row for rows in tables for row in rows]
        for row in rows:
            if row["loader"] == "bload" and row["paper_padding"] is not None:
                row["paper_note"] = NOT_DERIVABLE
        print(json.dumps(rows, indent=2))
        return
    source = args.lengths or f"Action Genome, {args.split} split"
    print(
        f"{source}: {len(lengths):,} sequences, {lengths.sum():,} frames, "
        f"{lengths.min()} to {lengths.max()}, mean {lengths.mean():.3f}"
        + (f"; means over {args.epochs} epochs" if args.epochs > 1 else "")
    )
    for rows in tables:
        print("\n" + format_table(rows))
    print("\nlimit: the fewest blocks any packing of the kept frames can reach, and its padding")
    print("clips=all: every whole clip of a video, where sampling draws one a video and epoch")
    print("draw=length: a length that fits, then a video of it, as the authors' released code")
    if args.randomness:
        print("repeat: share of pairs sharing a block that do so in the next epoch again")
        print("partner nats: mutual information of the lengths of two sequences sharing a block")
    cut = [str(t_max) for t_max in args.t_max or [] if t_max < lengths.max()]
    if cut:
        became = {"split": "split", "truncate": "cut off"}[long]
        print(f"longer sequences are {became} at T_max {', '.join(cut)} (--long {long})")
    shown = [row for rows in tables for row in rows if row["paper_padding"] is not None]
    if shown:
        print("paper: arXiv 2310.10879")
    if any(row["loader"] == "bload" for row in shown):
        print(textwrap.fill(f"* {NOT_DERIVABLE}", 100))


def _draw(args: argparse.Namespace) -> None:
    lengths = _lengths(args)
    plans = {}
    for name in args.loaders.split(","):
        clips = name in CUTS_CLIPS
        options = {} if clips else {"long": args.long or "error"}
        size = args.clip if clips else args.t_max
        plans[name] = make_plan(lengths, name, size, args.seed, args.epoch, **options)
    print(draw_plans(plans, args.out, args.rows))


if __name__ == "__main__":
    sys.exit(main())
