"""The figures of the paper's table (arXiv 2310.10879), and where each can be read.

The paper's full text could not be read when this was written. What could be: its abstract, the
captions of its first figures, two public summaries and the released code.
"""

import math
from collections.abc import Mapping
from typing import Any

from bload import action_genome_lengths

MARKS = {
    "*": "quoted from memory by readers of the PDF, not readable when this was written",
    "†": "sources differ: one summary gives BLoad 40 minutes and the 37,712 slots that `mix` "
    "pads; another gives it 41 minutes",
}
"""Mark of a figure that no source gives plainly -> what it means."""
SUMMARY = "a public summary"
FIGURES = {
    ("naive", "padding"): (534_831, "", f"{SUMMARY}; derived: 7,464 x 94 - 166,785"),
    ("naive", "deleted"): (0, "", "derived: nothing is cut"),
    ("naive", "minutes"): (170, "", SUMMARY),
    ("sampling", "padding"): (0, "", "derived: every clip is whole"),
    ("sampling", "deleted"): (92_271, "", f"{SUMMARY}; derived: {{deleted}} at one clip of 22"),
    ("sampling", "recall"): (41.2, "", SUMMARY),
    ("mix", "padding"): (37_712, "†", f"{SUMMARY}, for BLoad; derived: {{mix}} with blocks of 22"),
    ("mix", "minutes"): (40, "†", f"{SUMMARY}, for BLoad"),
    ("bload", "padding"): (3_695, "*", "readers of the PDF; not derivable: {by_blocks}"),
    ("bload", "deleted"): (0, "", "abstract"),
    ("bload", "minutes"): (41, "†", "a public summary, not the one with 40"),
    ("bload", "recall"): (43.3, "", SUMMARY),
}
"""Loader and figure (padded slots, deleted frames, minutes per epoch, Recall@20 in percent) -> the
value in the paper's table, its mark, and its source."""


def figure(loader: str, name: str) -> float:
    """Return a figure of the paper; NaN where there is none."""
    return FIGURES.get((loader, name), (math.nan,))[0]


def cell(loader: str, name: str) -> str:
    """Format a figure of the paper with its mark; empty where there is none.

    Its name is as in `FIGURES`, or ``speed``: naive padding's minutes over the loader's.
    """
    known = "minutes" if name == "speed" else name
    if (loader, known) not in FIGURES:
        return ""
    value, mark, _ = FIGURES[loader, known]
    if name == "speed":
        value = round(figure("naive", "minutes") / value, 2)
    return f"{value:,}".removesuffix(".0") + mark


def is_papers_loader(summary: Mapping[str, Any]) -> bool:
    """Return True if a run packed lengths like Action Genome's, into blocks of the paper's size."""
    from training.figures import lengths_digest  # needs torch

    lengths = action_genome_lengths("train")
    t_max = int(lengths.mean() if summary["loader"] in ("sampling", "mix") else lengths.max())
    has_its_lengths = summary.get("lengths") == lengths_digest(lengths)
    return has_its_lengths and summary["t_max"] == t_max and summary.get("clips") != "all"
