"""The figures of the paper's table (arXiv 2310.10879), and where each can be read.

    python -m experiments.paper    # writes the table of sources into docs/results.md

The paper's full text could not be read when this was written. What could be: its abstract, the
captions of its first figures, two public summaries and the released code.
"""

from itertools import product

import numpy as np

from bload import action_genome_lengths, make_plan
from experiments.study import command, markdown, publish, refusal

REMEMBERED = "remembered by readers of the PDF, not readable when this was written"
SUMMARY = "a public summary"
FIGURES = {
    ("naive", "padding"): (534_831, f"{SUMMARY}; derived: 7,464 x 94 - 166,785"),
    ("naive", "deleted"): (0, "derived: nothing is cut"),
    ("naive", "minutes"): (170, SUMMARY),
    ("sampling", "padding"): (0, "derived: every clip is whole"),
    ("sampling", "deleted"): (92_271, f"{SUMMARY}; derived: {{deleted}} at one clip of 22 a video"),
    ("sampling", "recall_at_20"): (41.2, SUMMARY),
    ("mix", "padding"): (37_712, f"{SUMMARY}, for BLoad; derived: {{mix}} with rows of 22"),
    ("mix", "deleted"): (40_289, "derived: {mix_deleted} with rows of 22"),
    ("mix", "minutes"): (40, f"{SUMMARY}, for BLoad; for `mix` {REMEMBERED}"),
    ("bload", "padding"): (3_695, f"{REMEMBERED}; not derivable: {{by_blocks}}"),
    ("bload", "deleted"): (0, "abstract"),
    ("bload", "minutes"): (41, "a public summary, not the one with 40"),
    ("bload", "recall_at_20"): (43.3, SUMMARY),
}
"""Loader and a key of `NAMES` -> the figure in the paper's table, and its source."""
NAMES = {
    "padding": "padded frames",
    "deleted": "deleted frames",
    "minutes": "minutes per epoch",
    "recall_at_20": "Recall@20",
}


def figure(loader: str, what: str) -> float | None:
    """A figure of the paper, None where there is none."""
    return FIGURES[loader, what][0] if (loader, what) in FIGURES else None


def is_remembered(loader: str, what: str) -> bool:
    """True if nobody here could read where the figure comes from."""
    return (loader, what) in FIGURES and REMEMBERED in FIGURES[loader, what][1]


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
        [loader, NAMES[what], f"{value:,}", source.format(**values)]
        for (loader, what), (value, source) in FIGURES.items()
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
