"""The paper's one table (arXiv 2310.10879): Action Genome's training split, T_max 94.

The figures are those of the paper's public version and of readers of it; None where neither says.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperRow:
    """What the paper reports for one loader. Times are minutes an epoch on its own machine."""

    padding: int | None = None
    deleted: int | None = None
    minutes: float | None = None
    recall_at_20: float | None = None


PAPER = {
    "naive": PaperRow(padding=534_831, deleted=0, minutes=170),
    "sampling": PaperRow(padding=0, deleted=92_271, recall_at_20=41.2),
    "mix": PaperRow(padding=37_712, deleted=40_289, minutes=40),
    "bload": PaperRow(padding=3_695, deleted=0, minutes=41, recall_at_20=43.3),
}

NOT_DERIVABLE = (
    "3,695 cannot be derived: k full blocks of 94 hold 166,785 frames with 94 k - 166,785 slots of "
    "padding, which is 3,637 for 1,814 blocks and 3,731 for 1,815, never 3,695 (3,731 less the 36 "
    "unpadded slots of one last block of 58 frames would be)"
)
