"""What a report is made of, whatever it is written as: sections of texts, tables and charts.

Texts may hold `code` between backticks, as in Markdown.
"""

from dataclasses import dataclass

from experiments.report.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table's cell says, and the figure behind it for the CSV file."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    count: int | None = None
    """Values behind the figure, such as seeds."""
    tone: str = ""
    """``good``, ``bad`` or ``open``: a verdict."""


NOTHING = Cell("-")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    begins: frozenset[int] = frozenset()
    """Rows that begin a group."""
    stacks: bool = False
    """On a phone cells stand one under another."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns")

    @property
    def folds(self) -> bool:
        """So long that a page shows it on demand."""
        return len(self.rows) > 30

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold figures, to be set to the right."""
        return tuple(
            i > 0 and any(row[i].value is not None for row in self.rows)
            for i in range(len(self.columns))
        )


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its text alternative and the figures that it shows."""

    title: str
    svg: str
    alternative: str
    legend: tuple[tuple[str, str], ...] = ()
    """(small drawing as SVG, what it stands for)"""
    table: Table | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What cannot be shown, and the command that makes it."""

    text: str
    command: str


@dataclass(frozen=True, slots=True)
class Commands:
    lines: tuple[str, ...]


Block = Table | Chart | Text | Missing | Commands


@dataclass(frozen=True, slots=True)
class Section:
    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    lead: str
    sections: tuple[Section, ...]

    @property
    def tables(self) -> list[tuple[Section, Table]]:
        """Every table with its section, those of charts included."""
        found = []
        for section in self.sections:
            for block in section.blocks:
                table = block.table if isinstance(block, Chart) else block
                if isinstance(table, Table):
                    found.append((section, table))
        return found


def number(value: float | None, digits: int = 0) -> Cell:
    """A figure with thousands separated; whole counts without decimals."""
    if value is None:
        return NOTHING
    return Cell(f"{value:,.{digits}f}", float(value))


def signed(value: float | None, digits: int = 0) -> Cell:
    """A difference, with its sign; no difference is a plain 0."""
    if value is None:
        return NOTHING
    return Cell(f"{value:+,.{digits}f}" if round(value, digits) else "0", float(value))


def interval(figure: Estimate | None, digits: int = 1, *, sign: bool = False) -> Cell:
    """``60.1 [58.0, 62.2]``, or the figure alone where there is no interval."""
    if figure is None:
        return NOTHING
    form = f"{'+' if sign else ''},.{digits}f"
    text = format(figure.mean, form)
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:{form}}, {figure.high:{form}}]"
    return Cell(text, figure.mean, figure.low, figure.high, figure.count)


def words(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)
