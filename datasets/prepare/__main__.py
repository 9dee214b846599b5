"""Write the annotated frames of Action Genome's videos.

Reads ROOT/videos/*.mp4 and ROOT/annotations/, writes ROOT/frames/VIDEO.mp4/000089.png. Frames that
exist stay; remove a damaged one to have it extracted again. With --check it writes nothing: it
reads everything and reports what is there, what is missing or damaged and what to type next. The
exit status is 0 if every annotated frame is there, 1 if not, 2 for errors to be fixed first.
"""

import argparse
import os
import sys
from pathlib import Path

from datasets.files import exit_on_input_error
from datasets.prepare.check import check
from datasets.prepare.extract import prepare


@exit_on_input_error()
def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser("python -m datasets.prepare", description=__doc__)
    parser.add_argument("--root", required=True, help="folder with videos/ and annotations/")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="videos at a time")
    parser.add_argument("--check", action="store_true", help="report; write nothing")
    args = parser.parse_args(arguments)
    workers = args.workers if args.workers > 0 else os.cpu_count() or 1
    if args.check:
        report, problems, command = check(Path(args.root), workers)
        print(f"{report}\n\nnext: {command or 'fix the problems above, then this again'}")
        return 1 if problems else 0
    missing, problems = prepare(args.root, workers)
    print(f"{missing:,} annotated frames are missing{'; type this again' if missing else ''}")
    print(*problems.sentences(), sep="\n", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
