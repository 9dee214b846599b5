"""The figures of the paper's table, arXiv 2310.10879, written down here alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperRow:
    """The paper's figures for one loader, on Action Genome's training split."""

    t_max: int | None = None
    padding: int | None = None
    deleted: int | None = None
    minutes: float | None = None
    """Minutes per epoch on the paper's own machine."""
    recall_at_20: float | None = None
    note: str | None = None


NOT_DERIVABLE = (
    "3,695 cannot be derived: k full blocks of 94 hold 166,785 frames with 94 k - 166,785 slots of "
    "padding, which is 3,637 for 1,814 blocks and 3,731 for 1,815, never 3,695 (3,731 less the 36 "
    "unpadded slots of one last block of 58 frames would be)"
)
PAPER = {
    "naive": PaperRow(94, padding=534_831, deleted=0, minutes=170),
    "sampling": PaperRow(22, padding=0, deleted=92_271, recall_at_20=41.2),
    "mix": PaperRow(22, padding=37_712, deleted=40_289, minutes=40),
    "bload": PaperRow(94, 3_695, deleted=0, minutes=41, recall_at_20=43.3, note=NOT_DERIVABLE),
}
"""Loader -> its column in the paper's table."""
