"""The report as CSV: every figure of every table on a line of its own."""

import csv
import io

from experiments.report.document import Page

COLUMNS = ("section", "table", "line", "row", "column", "text", "value", "low", "high", "count")


def render_csv(page: Page) -> str:
    """One line a cell; `value`, `low` and `high` are not rounded, `count` is of seeds or runs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for section, table in page.tables:
        for line, row in enumerate(table.rows, start=1):
            for column, cell in zip(table.columns[1:], row[1:], strict=True):
                figures = (cell.value, cell.low, cell.high, cell.count)
                writer.writerow(
                    [section.anchor, table.title, line, row[0].text, column, cell.text]
                    + ["" if figure is None else repr(figure) for figure in figures]
                )
    return out.getvalue()
