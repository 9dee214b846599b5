"""Verify an Action Genome root: what is there against what its annotations ask for.

Prints what each rule leaves of both splits, how that compares with the published counts, and all
problems and remarks. Works before frames are there, too, and says which are missing. Ends with
status 0 if everything that is needed is there and readable, 1 if not, 2 if it cannot be verified.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from bload.errors import InputError
from datasets.annotations.rules import SMALL_BOXES
from datasets.verify import verify


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m datasets.verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", required=True, help="folder with annotations/ and frames/")
    parser.add_argument(
        "--small-boxes",
        choices=SMALL_BOXES,
        help="default: file, as dataset=action_genome reads; keep for a synthetic root",
    )
    parser.add_argument("--decode", action="store_true", help="make pixels of every frame, too")
    parser.add_argument(
        "--published", action="store_true", help="fail if counts are not the published ones"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="files read at a time"
    )
    parser.add_argument("--out", help="json file for the report")
    args = parser.parse_args(arguments)
    synthetic = (Path(args.root) / "synthetic.json").exists()
    try:
        if args.workers < 1:
            raise InputError(f"--workers is {args.workers}; give at least 1")
        out = Path(args.out).absolute() if args.out else None
        if out and (out.is_dir() or not out.parent.is_dir()):
            raise InputError(f"{args.out} cannot be written; name a file in a folder that exists")
        report = verify(
            args.root,
            small_boxes=args.small_boxes or ("keep" if synthetic else "file"),
            decode=args.decode,
            workers=args.workers,
            published=args.published,
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    print(report)
    if out:
        out.write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
