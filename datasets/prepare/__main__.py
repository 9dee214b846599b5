"""Write the annotated frames of Action Genome's videos.

python -m datasets.prepare --root ROOT [--format jpeg --quality 95] [--short-side 256]

Reads ROOT/videos/*.mp4 and ROOT/annotations/, writes ROOT/frames/VIDEO.mp4/000089.png and
ROOT/frames/manifest.json. The same command goes on where a run stopped, and extracts videos again
whose frames have another size in bytes than was written; with --check all are read, and other
content is found too. The exit status is 0 if every annotated frame is there, 1 if not, 2 for what
must be mended first, 130 for Ctrl-C, 143 for SIGTERM.
"""

import argparse
import signal
import sys
from pathlib import Path

from bload.errors import InputError
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import MANIFEST
from datasets.frames.sizes import gib
from datasets.prepare.decoder import DAMAGED, MISSING
from datasets.prepare.encoding import JPEG_QUALITY, Encoding
from datasets.prepare.run import prepare
from datasets.prepare.termination import Terminated, terminable


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m datasets.prepare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", required=True, help="folder with videos/ and annotations/")
    parser.add_argument("--format", choices=("png", "jpeg"), default="png", help="default png")
    parser.add_argument("--quality", type=int, help=f"of jpeg, 1 to 100; default {JPEG_QUALITY}")
    parser.add_argument("--short-side", type=int, help="pixels; default: native size")
    parser.add_argument("--workers", type=int, help="processes; default: one a core")
    parser.add_argument("--check", action="store_true", help="read all frames that are there")
    args = parser.parse_args(arguments)
    quality = args.quality
    if args.format == "jpeg" and quality is None:
        quality = JPEG_QUALITY
    try:
        encoding = Encoding(args.format, quality, args.short_side)
        with terminable():
            manifest = prepare(args.root, encoding, workers=args.workers, check=args.check)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)
    print(
        f"{manifest.frames:,} frames there, {gib(manifest.bytes)}; {manifest.videos:,} videos with "
        f"all of theirs; {manifest.frames_missing:,} frames missing"
    )
    if manifest.problems:
        path = Path(args.root) / FRAMES_FOLDER / MANIFEST
        print(
            f"videos missing: {manifest.videos_missing}, not sound: {manifest.videos_corrupt}; all "
            f"else is kept, and the same command tries these again ({path} lists them all):",
            file=sys.stderr,
        )
        problems = Problems()
        for video, why in manifest.problems.items():
            problems.add(_kind(why), f"{video} {why}")
        for sentence in problems.sentences():
            print(f"  {sentence}", file=sys.stderr)
    return 0 if manifest.complete else 1


def _kind(why: str) -> str:
    """What kind of problem the reason `why` is."""
    if why.startswith(MISSING):
        return "missing"
    return "damaged, with all annotated frames" if why.startswith(DAMAGED) else "not sound"


if __name__ == "__main__":
    sys.exit(main())
