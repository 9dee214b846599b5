"""Packing alone: Action Genome's real lengths, without training or data."""

from dataclasses import asdict
from functools import cache

import pandas as pd

from bload.lengths import action_genome_lengths
from bload.packers import PACKERS
from bload.paper import PAPER
from bload.table import table_rows

EPOCHS = 20
"""Plans drawn per loader: BLoad's differ by epoch."""
COMMAND = f"python -m bload table --epochs {EPOCHS}"


@cache
def packed() -> pd.DataFrame:
    """The padding table of Action Genome's training lengths, a row per loader."""
    found = table_rows(action_genome_lengths("train"), epochs=EPOCHS)
    return pd.DataFrame(found).set_index("loader").reindex(list(PACKERS))


@cache
def paper() -> pd.DataFrame:
    """The paper's table, a row per loader; frames processed and ratios follow from it."""
    given = pd.DataFrame({name: asdict(row) for name, row in PAPER.items()}).T
    found = given[["padding", "deleted", "minutes", "recall_at_20"]].astype(float)
    found = found.reindex(list(PACKERS))
    processed = packed().frames["naive"] + found.padding - found.deleted
    return found.assign(processed=processed, faster=found.minutes["naive"] / found.minutes)
