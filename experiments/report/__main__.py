"""``python -m experiments.report runs``: finished runs beside the paper."""

import argparse

from bload.errors import InputError
from experiments.failures import sentence_of
from experiments.report import write_report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report", description="Runs beside the paper."
    )
    parser.add_argument(
        "folder", nargs="?", default="runs", help="an experiment's folder, or one of several"
    )
    parser.add_argument(
        "--charts", metavar="FOLDER", help="write every chart there, as SVG and PDF"
    )
    parser.add_argument("--latex", metavar="FILE", help="write the paper's table with ours there")
    args = parser.parse_args()
    try:
        report = write_report(args.folder, args.charts, args.latex)
    except (InputError, OSError) as error:
        parser.exit(2, f"report: error: {sentence_of(error)}\n")
    print(f"{report.summary}\n\n{report.html}\n{report.markdown}")


if __name__ == "__main__":
    main()
