"""A part of the benchmark: what it measures, and its table."""

from collections.abc import Callable
from dataclasses import dataclass

from tabulate import tabulate

Cell = str | int | float | None
Rows = list[list[Cell]]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of figures under headers, measured anew each time."""

    headers: tuple[str, ...]
    formats: tuple[str, ...]
    """How the numbers of each column are written, as in `format`; "" for text."""
    measure: Callable[[bool], Rows]
    """Returns the rows; given True, those of a short form that takes seconds."""

    def table(self, rows: Rows) -> str:
        """The rows in Markdown; what was not measured is left empty."""
        cells = [
            [_written(cell, how) for cell, how in zip(row, self.formats, strict=True)]
            for row in rows
        ]
        sides = ["right" if how else "left" for how in self.formats]
        table = tabulate(cells, self.headers, "pipe", colalign=sides, disable_numparse=True)
        return table


def _written(cell: Cell, how: str) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else format(cell, how)
