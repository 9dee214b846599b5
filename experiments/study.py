"""What studies share: their commands, tables between markers in docs/, charts, measured rows."""

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure
from tabulate import tabulate

from bload.errors import InputError
from datasets.files import exit_on_input_error, write_whole
from training.folder import environment
from training.report.page import STYLE, WIDTH

ROOT = Path(__file__).parents[1]
INK = "#2b2f36"
COLOURS = {
    "naive": "#5f6673",
    "sampling": "#b4500b",
    "mix": "#7a3fb8",
    "single": "#8a6d1f",
    "bucket": "#a83260",
    "ragged": "#3d7a8a",
    "bload": "#0f62ad",
    "bload_exact": "#0a7a52",
}
"""Colour of each loader in charts."""
RESULTS, DOCS, README = ROOT / "results", ROOT / "docs", ROOT / "README.md"
CHARTS = DOCS / "charts"


def markdown(rows: Sequence, headers: Sequence[str], words: int = 1) -> str:
    """Format a Markdown table; all but the first `words` columns are figures, set to the right."""
    sides = ["left"] * words + ["right"] * (len(headers) - words)
    return tabulate(rows, headers, "pipe", disable_numparse=True, colalign=sides)


def name_missing(names: Sequence[str]) -> str:
    """Say in a line, after a table, which rows it lacks runs for; empty if it lacks none."""
    return f"\n\nNo finished run of {', '.join(names)}." if names else ""


def name_way(loader: str, clips: str | None) -> str:
    """Name a loader, and `sampling` with all clips of a video ``sampling clips=all``."""
    return f"{loader} clips=all" if clips == "all" else loader


def colour_of(name: str) -> str:
    """Return the colour of a loader, whose options may follow its name."""
    return COLOURS.get(name.split(" ")[0], INK)


def publish(name: str, block: str, *, committed: bool, document: Path | None = None) -> None:
    """Print a block of tables; `committed` figures also replace those in the documents.

    The block lies between ``<!-- experiments.NAME -->`` and ``<!-- end -->``, by default in a page
    of docs/.
    """
    print(block)
    if committed:
        begin, end = f"<!-- experiments.{name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{end}", re.DOTALL)
        pages = [document] if document else DOCS.rglob("*.md")
        (page,) = [page for page in pages if begin in page.read_text()]
        marked = f"{begin}\n\n{block.strip()}\n\n{end}"
        page.write_text(pattern.sub(lambda _: marked, page.read_text(), count=1))


def save_chart(path: Path, title: str, draw: Callable[[Figure], None], height: float = 4.0) -> None:
    """Write a chart as SVG, with texts as texts and a legend below it if lines have labels.

    Its bytes depend only on matplotlib's version, which the file names.
    """
    salt = {"svg.hashsalt": path.stem, "svg.fonttype": "none"}
    with style.context([STYLE, salt]):
        figure = Figure((WIDTH, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10.5)
        draw(figure)
        handles: dict[str, Any] = {}
        for axis in figure.axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            lines, labels = [*handles.values()], [*handles]
            figure.legend(lines, labels, loc="outside lower left", ncols=2, borderaxespad=0)
        figure.savefig(path, format="svg", metadata={"Date": None})


def make_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Make the command line of a study; its docstring is the help."""
    parser = argparse.ArgumentParser(f"python -m experiments.{name}", None, description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


@exit_on_input_error()
def report_runs(
    name: str,
    description: str | None,
    tables: Callable[[Path], str],
    draw: Callable[[Path, Figure], None] | None = None,
    *,
    title: str = "",
    height: float = 4.0,
    measure: Callable[[], None] | None = None,
) -> None:
    """Run the command ``python -m experiments.NAME [FOLDER]`` of a study of runs.

    Without FOLDER it reads the committed ``results/NAME``, and rewrites its marked block in docs/
    and docs/charts/NAME.svg. With FOLDER, the chart is FOLDER/NAME.svg.

    Args:
        description: the docstring of the study.
        tables: makes the block, in Markdown, from the folder.
        draw: draws the chart from the folder.
        measure: writes rows, under ``--measure``, before the block is made.
    """
    parser = make_parser(name, description)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: results/NAME")
    if measure:
        parser.add_argument("--measure", action="store_true", help="measure, and write the rows")
    args = parser.parse_args()
    if measure and args.measure:
        measure()
    folder = args.folder
    publish(name, tables(folder or RESULTS / name), committed=folder is None)
    if draw:
        path = (folder or CHARTS) / f"{name}.svg"
        save_chart(path, title, partial(draw, folder or RESULTS / name), height)


@exit_on_input_error()
def report_rows(
    name: str,
    description: str | None,
    measure: Callable[..., list[dict]],
    tables: Callable[[pd.DataFrame], str],
    *,
    key: str | None = None,
    turns: tuple[float, int] | None = None,
) -> None:
    """Run the command ``python -m experiments.NAME [--measure]`` of a study that measures.

    It prints the tables of ``results/NAME.csv``, which ``--measure`` writes.

    Args:
        measure: makes the rows; none on ranks other than the first.
        tables: makes the block, in Markdown, from the rows.
        key: for `write_rows`.
        turns: defaults of ``--share`` and ``--rounds``, if ways to train take turns.
    """
    parser, path = make_parser(name, description), RESULTS / f"{name}.csv"
    parser.add_argument("--measure", action="store_true", help="measure, and write the rows")
    if turns:
        share, rounds = turns
        parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of the config")
        parser.add_argument("--share", type=float, default=share, help="of each epoch, in all")
        parser.add_argument("--rounds", type=int, default=rounds, help="of turns")
    options = vars(parser.parse_intermixed_args())
    if measured := options.pop("measure"):
        if not (rows := measure(**options)):
            return
        write_rows(path, rows, key)
    elif settings := options.get("overrides"):
        raise InputError(f"{settings[0]} is a setting of --measure; give it, or leave this out")
    publish(name, tables(read_rows(path)), committed=not measured)


def read_rows(path: Path) -> pd.DataFrame:
    """Read the rows that a study has measured; InputError if there are none."""
    if not path.exists():
        raise InputError(f"there is no {path}; measure first")
    return pd.read_csv(path)


def write_rows(path: Path, rows: Sequence[dict], key: str | None = None) -> None:
    """Write measured rows, with the processor, torch's version and the commit beside them.

    Args:
        key: column; rows replace earlier ones with the same values of it. None: they replace all.
    """
    made = environment()
    columns = {"cpu": made["machine"]["cpu"], "torch": made["versions"]["torch"]}
    table = pd.DataFrame(rows).convert_dtypes().assign(**columns, commit=made["git"])
    if key and path.exists():
        old_rows = read_rows(path)
        table = pd.concat([old_rows[~old_rows[key].isin(table[key])], table])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, table.to_csv(index=False))
