"""The command of every study: read a folder, print tables, draw, update docs/results.md."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure
from tabulate import tabulate

from bload.errors import InputError
from datasets.machine import write_whole
from training.provenance import surroundings
from training.report.charts import STYLE, WIDTH

ROOT = Path(__file__).parents[1]
RESULTS, DOCUMENT, CHARTS = ROOT / "results", ROOT / "docs" / "results.md", ROOT / "docs" / "charts"


def markdown(rows: Sequence, headers: Sequence[str], words: int = 1, form: str = "pipe") -> str:
    """Format a Markdown table; all but the first `words` columns are figures, set to the right."""
    sides = ["left"] * words + ["right"] * (len(headers) - words)
    return tabulate(rows, headers, form, disable_numparse=True, colalign=sides)


@contextmanager
def refusal() -> Iterator[None]:
    """End the process with status 2 on bad input, which the first rank reports in one sentence."""
    try:
        yield
    except InputError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


@refusal()
def study(
    name: str,
    about: str | None,
    tables: Callable[[Path], str],
    draw: Callable[[Path, Figure], None] | None = None,
    *,
    title: str = "",
    height: float = 4.0,
) -> None:
    """Run the command ``python -m experiments.NAME [FOLDER]``.

    Without FOLDER it reads the committed ``results/NAME``, and rewrites its marked block of
    docs/results.md and docs/charts/NAME.svg. With FOLDER, the chart is FOLDER/NAME.svg.

    Args:
        about: the docstring of the study.
        tables: makes the block, in Markdown, from the folder.
        draw: draws the chart from the folder.
    """
    parser = command(name, about)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: results/NAME")
    given = parser.parse_args().folder
    folder = given or RESULTS / name
    publish(name, tables(folder), committed=given is None)
    if draw:
        save_chart((given or CHARTS) / f"{name}.svg", title, partial(draw, folder), height)


def save_chart(path: Path, title: str, draw: Callable[[Figure], None], height: float = 4.0) -> None:
    """Write a chart as SVG, with texts as texts and a legend below it if lines have labels.

    Its bytes depend only on matplotlib's version, which the file names.
    """
    salt = {"svg.hashsalt": path.stem, "svg.fonttype": "none"}
    with style.context([STYLE, salt]):
        figure = Figure((WIDTH, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10.5)
        draw(figure)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside lower left", ncols=2, borderaxespad=0)
        figure.savefig(path, format="svg", metadata={"Date": None})


def command(name: str, about: str | None) -> argparse.ArgumentParser:
    """Make the command line of a study; its docstring is the help."""
    parser = argparse.ArgumentParser(f"python -m experiments.{name}", None, about)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def publish(name: str, block: str, *, committed: bool, document: Path = DOCUMENT) -> None:
    """Print a block of tables; `committed` figures also replace those in the document.

    The block lies between ``<!-- experiments.NAME -->`` and ``<!-- end -->``.
    """
    print(block)
    if committed:
        text = document.read_text()
        begin, end = f"<!-- experiments.{name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{end}", re.DOTALL)
        assert pattern.search(text), f"{document} has no block {begin}"
        marked = f"{begin}\n\n{block.strip()}\n\n{end}"
        document.write_text(pattern.sub(lambda _: marked, text, count=1))


Options = Mapping[str, tuple[Any, str]]
"""Options of a command: their names, defaults and help; positional if the default is a list."""


@refusal()
def measuring(
    name: str,
    about: str | None,
    measure: Callable[..., list[dict]],
    tables: Callable[..., str],
    options: Options,
    key: str | None = None,
    shown: Options | None = None,
) -> None:
    """Run the command ``python -m experiments.NAME [--measure]``.

    It prints the tables of ``results/NAME.csv``, which ``--measure`` writes.

    Args:
        measure: makes the rows from `options`; none on ranks other than the first.
        tables: makes the block, in Markdown, from the rows and the options `shown`.
        key: for `write_rows`.
    """
    parser, shown = command(name, about), shown or {}
    parser.add_argument("--measure", action="store_true", help="measure, and write the rows")
    where = RESULTS / f"{name}.csv"
    parser.add_argument("--file", type=Path, default=where, help=f"default: results/{name}.csv")
    for option, (default, words) in {**options, **shown}.items():
        if isinstance(default, list):
            parser.add_argument(option, nargs="*", metavar="KEY=VALUE", help=words)
        else:
            parser.add_argument(f"--{option}", type=type(default), default=default, help=words)
    args = parser.parse_intermixed_args()
    given, more = ({of: getattr(args, of) for of in names} for names in (options, shown))
    if not args.measure:
        block = tables(read_rows(args.file), **more)
        publish(name, block, committed=args == parser.parse_args([]))
    elif rows := measure(**given):
        write_rows(args.file, rows, key)
        print(f"written to {args.file}")
        publish(name, tables(read_rows(args.file), **more), committed=False)


def read_rows(path: Path) -> pd.DataFrame:
    """Read the rows that a study has measured; InputError if there are none."""
    if not path.exists():
        raise InputError(f"there is no {path}; measure first")
    return pd.read_csv(path)


def write_rows(path: Path, rows: Sequence[dict], key: str | None = None) -> None:
    """Write measured rows, with the processor, torch's version and the commit beside them.

    Args:
        key: column; earlier rows with other values of it are kept, and none without it.
    """
    made = surroundings()
    cpu, version = made["machine"]["cpu"], made["versions"]["torch"]
    table = pd.DataFrame(rows).convert_dtypes().assign(cpu=cpu, torch=version, commit=made["git"])
    if key and path.exists():
        before = read_rows(path)
        table = pd.concat([before[~before[key].isin(table[key])], table])
    write_whole(path, table.to_csv(index=False))
