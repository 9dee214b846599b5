"""The figures of the paper's table (arXiv 2310.10879), and where each can be read.

    python -m experiments.paper    # writes the table of sources into docs/results/sources.md

The paper's full text could not be read when this was written. What could be: its abstract, the
captions of its first figures, two public summaries and the released code.
"""

import math
from itertools import product

import numpy as np

from bload import action_genome_lengths, make_plan
from experiments.study import make_parser, markdown, publish

REMEMBERED = "quoted from memory by readers of the PDF, not readable when this was written"
SUMMARY = "a public summary"
FIGURES = {
    ("naive", "padding"): (534_831, f"{SUMMARY}; derived: 7,464 x 94 - 166,785"),
    ("naive", "deleted"): (0, "derived: nothing is cut"),
    ("naive", "minutes"): (170, SUMMARY),
    ("sampling", "padding"): (0, "derived: every clip is whole"),
    ("sampling", "deleted"): (92_271, f"{SUMMARY}; derived: {{deleted}} at one clip of 22 a video"),
    ("sampling", "recall_at_20"): (41.2, SUMMARY),
    ("mix", "padding"): (37_712, f"{SUMMARY}, for BLoad; derived: {{mix}} with blocks of 22"),
    ("mix", "deleted"): (40_289, "derived: {mix_deleted} with blocks of 22"),
    ("mix", "minutes"): (40, f"{SUMMARY}, for BLoad; for `mix` {REMEMBERED}"),
    ("bload", "padding"): (3_695, f"{REMEMBERED}; not derivable: {{by_blocks}}"),
    ("bload", "deleted"): (0, "abstract"),
    ("bload", "minutes"): (41, "a public summary, not the one with 40"),
    ("bload", "recall_at_20"): (43.3, SUMMARY),
}
"""Loader and a key of `NAMES` -> the figure in the paper's table, and its source."""
NAMES = {
    "padding": "padded slots",
    "deleted": "deleted frames",
    "minutes": "minutes per epoch",
    "recall_at_20": "Recall@20",
}


def figure(loader: str, name: str) -> float:
    """Return a figure of the paper, a key of `NAMES`; NaN where there is none."""
    return FIGURES.get((loader, name), (math.nan,))[0]


def is_remembered(loader: str, name: str) -> bool:
    """Return True if nobody here could read where the figure comes from."""
    return REMEMBERED in FIGURES.get((loader, name), (0, ""))[1]


def derived_figures() -> dict[str, str]:
    """Return what follows from Action Genome's lengths, for the sources in `FIGURES`."""
    lengths = action_genome_lengths("train")
    frames, t_max = int(lengths.sum()), int(lengths.max())
    fewer = int(frames + figure("bload", "padding")) // t_max  # the most blocks that pad no more
    nearest_work = [f"{k * t_max - frames:,} slots in {k:,} blocks" for k in (fewer, fewer + 1)]
    sampling, mix = (make_plan(lengths, packer) for packer in ("sampling", "mix"))
    return {
        "deleted": f"{sampling.deleted:,}",
        "mix": f"{mix.padding:,}",
        "mix_deleted": f"{mix.deleted:,}",
        "by_blocks": f"full blocks of 94 leave {' or '.join(nearest_work)}",
    }


def sources() -> str:
    """Tabulate every figure with its source."""
    values = derived_figures()
    rows = [
        [loader, NAMES[name], f"{value:,}", source.format(**values)]
        for (loader, name), (value, source) in FIGURES.items()
    ]
    return markdown(rows, ["loader", "figure", "the paper", "where it can be read"], words=4)


def times_less(seeds: int = 4, epochs: int = 60) -> str:
    """Say how many times as much as the paper's packing `naive` pads, on average and by epoch."""
    lengths, naive = action_genome_lengths("train"), figure("naive", "padding")
    plans = product(range(seeds), range(epochs))
    pads = np.array(
        [make_plan(lengths, "bload", None, seed, epoch).padding for seed, epoch in plans]
    )
    return (
        f"Over {pads.size} epochs (seeds 0 to {seeds - 1}) `bload` pads {pads.mean():,.0f} slots "
        f"on average. Naive padding pads {naive / pads.mean():.0f} times as many, "
        f"{naive / pads.max():.0f} to {naive / pads.min():.0f} times by epoch, and in "
        f"{(naive / pads < 100).sum()} of these epochs less than 100 times."
    )


if __name__ == "__main__":
    make_parser("paper", __doc__).parse_args()
    publish("paper", f"{sources()}\n\n{times_less()}", committed=True)
