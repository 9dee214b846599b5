"""``python -m experiments.report FOLDER``: finished runs beside each other and the paper."""

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report",
        description="Runs beside each other and the paper.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default="runs",
        type=Path,
        help="an experiment's folder, or one of several",
    )
    parser.add_argument(
        "--charts", metavar="FOLDER", help="write every chart there, as SVG and PDF"
    )
    parser.add_argument("--latex", metavar="FILE", help="write the paper's table with ours there")
    parser.add_argument(
        "--tables", metavar="FOLDER", help="write an experiment's runs and epochs there, as CSV"
    )
    args = parser.parse_args()

    from bload.errors import InputError
    from experiments.report.page import write_report
    from experiments.runs import write_tables

    try:
        report = write_report(args.folder, args.charts, args.latex)
        print(f"{report.summary}\n\n{report.html}\n{report.markdown}")
        if args.charts:
            print(f"{args.charts}: {report.charts} files")
        if args.latex:
            print(args.latex)
        if args.tables:
            print(*write_tables(args.folder, args.tables), sep="\n")
    except (InputError, OSError) as error:
        parser.exit(2, f"report: error: {error}\n")


if __name__ == "__main__":
    main()
