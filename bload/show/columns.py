"""Table of loaders as text: its columns, and notes that explain them."""

import textwrap
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from bload.lengths import check_lengths
from bload.show.table import table_rows

Column = tuple[str, str, str]  # title, key of the row, format

COLUMNS: Sequence[Column] = (
    ("loader", "loader", "s"),
    ("T_max", "t_max", ","),
    ("blocks", "blocks", ","),
    ("fewest", "lower_bound_blocks", ","),
    ("padding", "padding", ","),
    ("least", "lower_bound_padding", ","),
    ("deleted", "deleted", ","),
    ("used", "utilisation", ".1%"),
    ("steps", "steps", ",.0f"),
    ("naive", "naive_ratio", ".2f"),
    ("ragged", "ragged_ratio", ".2f"),
    ("seconds", "seconds", ".3f"),
    ("repeat", "repeat_share", ".5f"),
    ("nats", "partner_information", ".5f"),
)
"""Columns of the table; those without a key in the rows are left out."""
NOTES = {
    "lower_bound_blocks": "fewest: a lower bound on the blocks of any packing of the kept frames",
    "lower_bound_padding": "least: the padding of as many blocks",
    "utilisation": "used: share of the slots of the blocks that hold a frame",
    "naive_ratio": "naive, ragged: slots that naive padding and ragged batches compute or wait "
    "for, divided by the loader's",
    "repeat_share": "repeat: share of pairs sharing a block that do so again in the next epoch",
    "partner_information": "nats: mutual information of the lengths of two sequences in one block",
}
"""Explanations of columns, by key of the row."""
VARIANT_NOTES = (
    "clips=all: every whole clip of a video, where sampling draws one per video and epoch",
    "draw=length: draws a length that fits, then a video of it, as the authors' code does",
)
"""Explanations of the options in the first column."""


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Format the rows as text for a terminal, one line per row."""
    columns = [column for column in COLUMNS if column[1] in rows[0]]
    lines = [[title for title, _, _ in columns]]
    lines += [[_cell(row[key], form) for _, key, form in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


def padding_table(lengths: ArrayLike, **options: Any) -> str:
    """Return a text table of what each loader pads, deletes and computes.

        print(padding_table(source.lengths, ranks=8))

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        options: options of `bload.show.table.table_rows`, such as ``t_max``, ``long``, ``ranks``,
            ``batch_slots``.

    Raises:
        InputError: lengths that are invalid or do not fit into `t_max`.
    """
    return format_table(table_rows(check_lengths(lengths), **{"ranks": 1, **options}))


def format_notes(row: dict[str, Any]) -> str:
    """Explain the columns and the loaders' options, in lines of at most 100 characters."""
    notes = [*(note for key, note in NOTES.items() if key in row), *VARIANT_NOTES]
    return "\n".join(textwrap.fill(note, 100) for note in notes)


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if form == "," and isinstance(value, float):
        form = ",.1f"  # a mean
    return f"{value:{form}}"
