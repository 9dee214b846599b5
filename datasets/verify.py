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
from datasets.annotations.read import MADE_BY
from datasets.annotations.rules import SMALL_BOXES
from datasets.prepare.check import verify

_SMALL_BOXES = "default: file, as dataset=action_genome reads; keep for a synthetic root"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m datasets.verify", description=__doc__)
    add = parser.add_argument
    add("--root", required=True, help="folder with annotations/ and frames/")
    add("--small-boxes", choices=SMALL_BOXES, help=_SMALL_BOXES)
    add("--decode", action="store_true", help="make pixels of every frame, too")
    add("--published", action="store_true", help="fail if counts are not the published ones")
    add("--workers", type=int, default=os.cpu_count() or 1, help="files read at a time")
    add("--out", help="json file for the report")
    args = parser.parse_args(arguments)
    default = "keep" if (Path(args.root) / MADE_BY).exists() else "file"
    options = {"small_boxes": args.small_boxes or default, "decode": args.decode}
    try:
        if args.out and (Path(args.out).is_dir() or not Path(args.out).absolute().parent.is_dir()):
            raise InputError(f"{args.out} cannot be written; name a file in a folder that exists")
        report = verify(args.root, workers=args.workers, **options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    for split, figures in report.figures["splits"].items() if args.published else ():
        if not figures["as_published"]:
            report.problems.add("splits that are not as published", split)
    print(report)
    if args.out:
        Path(args.out).write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
