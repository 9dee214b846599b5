"""Write the annotated frames of Action Genome's videos.

Reads ROOT/videos/*.mp4 and ROOT/annotations/, writes ROOT/frames/VIDEO.mp4/000089.png and
ROOT/frames/manifest.json. The same command resumes a run that stopped. With --check it writes
nothing: it reads everything and reports what is there, what is missing or damaged and what to type
next. Remove a damaged frame to have it extracted again. The exit status is 0 if every annotated
frame is there, 1 if not, 2 for errors to be fixed first, 130 for Ctrl-C.
"""

import argparse
import os
import sys
from pathlib import Path

from bload import InputError
from datasets.annotations.problems import Problems
from datasets.annotations.read import FRAMES_FOLDER
from datasets.frames.manifest import MANIFEST, Manifest
from datasets.frames.sizes import gib
from datasets.prepare.check import check
from datasets.prepare.extract import prepare

JPEG_QUALITY = 95


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser("python -m datasets.prepare", description=__doc__)
    add = parser.add_argument
    add("--root", required=True, help="folder with videos/ and annotations/")
    add("--format", choices=("png", "jpeg"), default="png", help="default png")
    add("--quality", type=int, help=f"of jpeg, 1 to 100; default {JPEG_QUALITY}")
    add("--short-side", type=int, help="pixels; default: native size")
    add("--workers", type=int, default=os.cpu_count(), help="videos at a time")
    add("--check", action="store_true", help="report what is there; write nothing")
    args = parser.parse_args(arguments)
    if args.format == "jpeg" and args.quality is None:
        args.quality = JPEG_QUALITY
    try:
        if args.check:
            findings, command = check(Path(args.root), max(1, args.workers))
            print(f"{findings}\n\nnext: {command or 'fix the problems above, then this again'}")
            return 1 if findings.problems else 0
        stored_as = Manifest(args.format, args.quality, args.short_side)
        manifest = prepare(args.root, stored_as, workers=max(1, args.workers))
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
    problems = Problems()
    for video, problem in manifest.problems.items():
        kind, _, details = problem.partition(": ")
        problems.add(f"videos that are {kind}", f"{video}: {details}")
    if problems:
        path = Path(args.root) / FRAMES_FOLDER / MANIFEST
        message = f"all else is kept; the same command tries these again ({path} lists them all):"
        print(message, *problems.sentences(), sep="\n  ", file=sys.stderr)
    return 1 if manifest.frames_missing else 0


if __name__ == "__main__":
    sys.exit(main())
