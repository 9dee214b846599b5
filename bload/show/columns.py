"""The table as text: its columns, and the notes that explain them."""

import textwrap
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from bload.lengths import check_lengths
from bload.show.recommendation import Recommendation
from bload.show.table import table_rows

Column = tuple[str, str, str]  # title, key of the row, format

PADDING: Sequence[Column] = (
    ("loader", "loader", "s"),
    ("T_max", "t_max", ","),
    ("blocks", "blocks", ","),
    ("fewest", "lower_bound_blocks", ","),
    ("padding", "padding", ","),
    ("least", "lower_bound_padding", ","),
)
PAPER: Sequence[Column] = (
    *PADDING,
    ("paper pads", "paper_padding", ","),
    ("deleted", "deleted", ","),
    ("paper drops", "paper_deleted", ","),
    ("seconds", "seconds", ".3f"),
)
WORK: Sequence[Column] = (
    *PADDING[:5],
    ("deleted", "deleted", ","),
    ("used", "utilisation", ".1%"),
    ("steps", "steps", ",.0f"),
    ("naive", "naive_ratio", ".2f"),
    ("ragged", "ragged_ratio", ".2f"),
    ("seconds", "seconds", ".3f"),
)
RANDOMNESS: Sequence[Column] = (
    ("repeat", "repeat_share", ".5f"),
    ("nats", "partner_information", ".5f"),
)
NOTES = {
    "lower_bound_blocks": "fewest: a lower bound on the blocks of any packing of the kept frames",
    "lower_bound_padding": "least: the padding of as many blocks",
    "utilisation": "used: share of the slots of the blocks that hold a frame",
    "repeat_share": "repeat: share of pairs sharing a block that do so again in the next epoch",
    "partner_information": "nats: mutual information of the lengths of two sequences in one block",
}
"""Key of a row -> what its column means, where the title does not say it."""
VARIANT_NOTES = (
    "clips=all: every whole clip of a video, where sampling draws one per video and epoch",
    "draw=length: draws a length that fits, then a video of it, as the authors' code does",
)
"""Meaning of the rows' options."""


def columns_for(rows: list[dict[str, Any]], work: bool) -> list[Column]:
    """Return the columns of a table: predicted work or the paper's figures, then randomness."""
    columns = [*(WORK if work else PAPER), *RANDOMNESS]
    return [column for column in columns if column[1] in rows[0]]


def format_table(rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> str:
    """Format the rows as text for a terminal, one line per row of the table."""
    lines = [[title for title, _, _ in columns]]
    lines += [[_cell(row, key, form) for _, key, form in columns] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


def padding_table(lengths: ArrayLike, **options: Any) -> str:
    """Return what each loader would pad, delete and compute, as text.

        print(padding_table(source.lengths, ranks=8))

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        options: those of `bload.show.table.table_rows`, such as ``t_max``, ``long``, ``ranks``,
            ``batch_slots``.

    Raises:
        InputError: lengths that are none, or do not fit into `t_max`.
    """
    return format_table(table_rows(check_lengths(lengths), **options), WORK)


def format_notes(rows: list[dict[str, Any]], columns: list[Column]) -> str:
    """Explain the columns and the loaders' options, in lines of at most 100 characters."""
    keys = [key for _, key, _ in columns]
    notes = [note for key, note in NOTES.items() if key in keys]
    notes += VARIANT_NOTES
    if "paper_padding" in keys:
        notes.append("paper pads, paper drops: padding and deleted as in arXiv 2310.10879")
        notes += dict.fromkeys(f"* {row['paper_note']}" for row in rows if row["paper_note"])
    return "\n".join(textwrap.fill(note, 100) for note in notes)


def format_recommendation(advice: Recommendation) -> str:
    """Format the block size and the reason, and what is assumed, in lines of 100 characters."""
    option = "" if advice.long == "error" else f" --long {advice.long}"
    text = (
        f"recommended for bload_exact: T_max {advice.t_max:,}{option}: {advice.reason}. Assumed: "
        "time grows with slots, and a block of that size fits into memory."
    )
    return textwrap.fill(text, 100)


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    value = row[key]
    if value is None:
        return "-"
    if form == "," and isinstance(value, float):
        form = ",.1f"  # a mean
    mark = "*" if key == "paper_padding" and row["paper_note"] else ""
    return f"{value:{form}}{mark}"
