"""Write the annotated frames of Action Genome's videos.

python -m datasets.prepare --root ROOT [--format jpeg --quality 95] [--short-side 256]

Reads ROOT/videos/*.mp4 and ROOT/annotations/, writes ROOT/frames/VIDEO.mp4/000089.png and
ROOT/frames/manifest.json. The same command goes on where a run stopped. The exit status is 1 if
videos are missing or damaged (they are listed), 2 for what must be mended first, 130 for Ctrl-C.
"""

import argparse
import sys

from bload.errors import InputError
from datasets.prepare.encoding import JPEG_QUALITY, Encoding
from datasets.prepare.estimate import gib
from datasets.prepare.run import prepare


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
    args = parser.parse_args(arguments)
    quality = args.quality
    if args.format == "jpeg" and quality is None:
        quality = JPEG_QUALITY
    try:
        encoding = Encoding(args.format, quality, args.short_side)
        manifest = prepare(args.root, encoding, workers=args.workers)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(
        f"{manifest.frames:,} frames there, {gib(manifest.bytes)}; {manifest.videos:,} videos with "
        f"all of theirs; {manifest.frames_missing:,} frames missing"
    )
    if manifest.problems:
        print(
            f"videos missing: {manifest.videos_missing}, not sound: {manifest.videos_corrupt}; all "
            "else is kept, and the same command tries these again:",
            file=sys.stderr,
        )
        for video, why in manifest.problems.items():
            print(f"  {video} {why}", file=sys.stderr)
    return 0 if manifest.complete else 1


if __name__ == "__main__":
    sys.exit(main())
