"""The command of every study: read a folder, print tables, draw, keep docs/results.md right."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from tabulate import tabulate

from bload.errors import InputError
from experiments.charts import save_chart
from training.provenance import surroundings

ROOT = Path(__file__).parents[1]
RESULTS, DOCUMENT, CHARTS = ROOT / "results", ROOT / "docs" / "results.md", ROOT / "docs" / "charts"


def markdown(rows: Sequence[Sequence[object]], headers: Sequence[str], words: int = 1) -> str:
    """A table in Markdown; all but the first `words` columns are figures, set to the right."""
    sides = ["left"] * words + ["right"] * (len(headers) - words)
    return tabulate(rows, headers, "pipe", disable_numparse=True, colalign=sides)


def study(
    name: str,
    about: str | None,
    tables: Callable[[Path], str],
    draw: Callable[[Path, Figure], None] | None = None,
    *,
    height: float = 4.0,
) -> None:
    """Run the command ``python -m experiments.NAME [FOLDER]``.

    Without FOLDER it reads the committed ``results/NAME``, and rewrites its marked block of
    docs/results.md and docs/charts/NAME.svg. With one, the chart is FOLDER/NAME.svg.

    Args:
        about: the docstring of the study.
        tables: makes the block, in Markdown, from the folder.
        draw: draws the chart from the folder.
    """
    parser = command(name, about)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: results/NAME")
    args = parser.parse_args()
    folder = args.folder or RESULTS / name
    try:
        block = tables(folder)
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    publish(name, block, committed=args.folder is None)
    if draw:
        chart = (args.folder or CHARTS) / f"{name}.svg"
        save_chart(chart, lambda figure: draw(folder, figure), height)


def command(name: str, about: str | None) -> argparse.ArgumentParser:
    """The command line of a study, whose docstring is its help."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(
        f"python -m experiments.{name}", None, about, formatter_class=form
    )


def publish(name: str, block: str, *, committed: bool, document: Path = DOCUMENT) -> None:
    """Print a block of tables; with `committed` figures it also replaces that of the document.

    The block lies between ``<!-- experiments.NAME -->`` and ``<!-- end -->``.
    """
    print(block)
    if committed:
        text = document.read_text()
        begin, end = f"<!-- experiments.{name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{end}", re.DOTALL)
        assert pattern.search(text), f"{document} has no block {begin}"
        document.write_text(
            pattern.sub(lambda _: f"{begin}\n\n{block.strip()}\n\n{end}", text, count=1)
        )


def measuring(name: str, about: str | None) -> argparse.ArgumentParser:
    """The command line of a study that measures: ``python -m experiments.NAME [--measure]``.

    With ``--measure`` it writes its rows to the CSV file, else it prints their tables.
    """
    parser = command(name, about)
    parser.add_argument("--measure", action="store_true", help="measure, and write the rows")
    where = RESULTS / f"{name}.csv"
    parser.add_argument("--file", type=Path, default=where, help=f"default: results/{name}.csv")
    return parser


def read_rows(path: Path) -> pd.DataFrame:
    """The rows that a study has measured."""
    return pd.read_csv(path)


def write_rows(path: Path, rows: Sequence[dict], key: str | None = None) -> None:
    """Write measured rows, with the processor, torch's version and the commit beside them.

    Args:
        key: rows of the file with other values of this column stay; without it none do.
    """
    made = surroundings()
    cpu, version = made["machine"]["cpu"], made["versions"]["torch"]
    table = pd.DataFrame(rows).assign(cpu=cpu, torch=version, commit=made["git"])
    if key and path.exists():
        before = read_rows(path)
        table = pd.concat([before[~before[key].isin(table[key])], table])
    table.to_csv(path, index=False)
    print(f"written to {path}")
