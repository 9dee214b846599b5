"""``python -m experiments.report runs``: finished runs beside the paper."""

import argparse
import sys

from bload.errors import InputError
from experiments.report import write_report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report", description="Runs beside the paper."
    )
    parser.add_argument(
        "folder", nargs="?", default="runs", help="an experiment's folder, or one of several"
    )
    parser.add_argument("--charts", metavar="FOLDER", help="write every chart there as an SVG file")
    args = parser.parse_args(arguments)
    try:
        report = write_report(args.folder, args.charts)
    except InputError as error:
        print(f"report: error: {error}", file=sys.stderr)
        return 2
    print(f"{report.summary}\n\n{report.html}\n{report.markdown}\n{report.csv}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
