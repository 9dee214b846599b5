"""The figures of the paper's table (arXiv 2310.10879), and where each can be read.

    python -m experiments.paper    # writes the table of sources into docs/results.md

The paper's full text could not be read when this was written. What could be: its abstract, the
captions of its first figures, two public summaries and the released code.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from bload import action_genome_lengths, make_plan
from experiments.study import command, markdown, publish, refusal

REMEMBERED = "remembered by readers of the PDF, not readable when this was written"
SUMMARY = "a public summary"


@dataclass(frozen=True)
class Figure:
    """A figure of the paper's table."""

    loader: str
    what: str
    value: float
    source: str


FIGURES = [
    Figure("naive", "padding", 534_831, f"{SUMMARY}; derived: 7,464 x 94 - 166,785"),
    Figure("naive", "deleted", 0, "derived: nothing is cut"),
    Figure("naive", "minutes", 170, SUMMARY),
    Figure("sampling", "padding", 0, "derived: every clip is whole"),
    Figure(
        "sampling", "deleted", 92_271, f"{SUMMARY}; derived: {{deleted}} at one clip of 22 a video"
    ),
    Figure("sampling", "recall_at_20", 41.2, SUMMARY),
    Figure("mix", "padding", 37_712, f"{SUMMARY}, for BLoad; derived: {{mix}} with rows of 22"),
    Figure("mix", "deleted", 40_289, "derived: {mix_deleted} with rows of 22"),
    Figure("mix", "minutes", 40, f"{SUMMARY}, for BLoad; for `mix` {REMEMBERED}"),
    Figure("bload", "padding", 3_695, f"{REMEMBERED}; not derivable: {{by_blocks}}"),
    Figure("bload", "deleted", 0, "abstract"),
    Figure("bload", "minutes", 41, "a public summary, not the one with 40"),
    Figure("bload", "recall_at_20", 43.3, SUMMARY),
]
NAMES = {
    "padding": "padded frames",
    "deleted": "deleted frames",
    "minutes": "minutes per epoch",
    "recall_at_20": "Recall@20",
}


def figure(loader: str, what: str) -> float | None:
    """A figure of the paper, None where there is none."""
    return next((one.value for one in FIGURES if (one.loader, one.what) == (loader, what)), None)


def is_remembered(loader: str, what: str) -> bool:
    """True if nobody here could read where the figure comes from."""
    return any(
        REMEMBERED in one.source for one in FIGURES if (one.loader, one.what) == (loader, what)
    )


def padding_of_blocks(blocks: int) -> int:
    """Slots that so many full blocks of 94 leave empty on Action Genome's training split."""
    lengths = action_genome_lengths("train")
    return int(blocks * lengths.max() - lengths.sum())


def derived() -> dict[str, str]:
    """What follows from Action Genome's lengths, for the sources in `FIGURES`."""
    lengths = action_genome_lengths("train")
    padded = figure("bload", "padding") or 0
    least = int((lengths.sum() + padded) // lengths.max())  # the most blocks that pad no more
    near = [f"{padding_of_blocks(k):,} slots in {k:,} blocks" for k in (least, least + 1)]
    mix = make_plan(lengths, "mix")
    return {
        "deleted": f"{make_plan(lengths, 'sampling').deleted:,}",
        "mix": f"{mix.padding:,}",
        "mix_deleted": f"{mix.deleted:,}",
        "by_blocks": f"full blocks of 94 leave {' or '.join(near)}",
    }


def table() -> str:
    """Every figure with its source, in Markdown."""
    values = derived()
    rows = [
        [one.loader, NAMES[one.what], f"{one.value:,}", one.source.format(**values)]
        for one in FIGURES
    ]
    return markdown(rows, ["loader", "figure", "the paper", "where it can be read"], words=4)


def times_less(seeds: int = 4, epochs: int = 60) -> str:
    """How many times less than `naive` the paper's packing pads, on average and by epoch."""
    lengths, naive = action_genome_lengths("train"), figure("naive", "padding") or 0
    plans = product(range(seeds), range(epochs))
    pads = np.array(
        [make_plan(lengths, "bload", None, seed, epoch).padding for seed, epoch in plans]
    )
    return (
        f"Over {pads.size} epochs (seeds 0 to {seeds - 1}) `bload` pads {pads.mean():,.0f} slots "
        f"on average, {naive / pads.mean():.0f} times less than naive padding, "
        f"{naive / pads.max():.0f} to {naive / pads.min():.0f} times by epoch; in "
        f"{(naive / pads < 100).sum()} of these epochs less than 100 times."
    )


@refusal()
def main() -> None:
    command("paper", __doc__).parse_args()
    publish("paper", f"{table()}\n\n{times_less()}", committed=True)


if __name__ == "__main__":
    main()
