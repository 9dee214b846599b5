"""The paper's figures: where each can be read, and what packing alone gives beside them.

python -m experiments.sources    # writes docs/results/sources.md and docs/results/padding.md
"""

from itertools import product

import numpy as np
import pandas as pd

from bload import action_genome_lengths, make_plan
from bload.table import table_rows
from datasets.files import exit_on_input_error
from experiments.intervals import Interval
from experiments.study import make_parser, markdown, publish
from training import paper_figures

NAMES = {
    "padding": "padded slots",
    "deleted": "deleted frames",
    "minutes": "minutes per epoch",
    "recall": "Recall@20",
}
"""Figure of `training.paper_figures` -> its name."""
LOADERS = ["naive", "sampling", "sampling clips=all", "mix", "bload", "bload_exact"]


def derived_figures() -> dict[str, str]:
    """Return what follows from Action Genome's lengths, for sources of `paper_figures.FIGURES`."""
    lengths = action_genome_lengths("train")
    frames, t_max = int(lengths.sum()), int(lengths.max())
    slots = frames + int(paper_figures.figure("bload", "padding"))
    fewer = slots // t_max  # the most that pad no more
    nearest_work = [f"{k * t_max - frames:,} slots in {k:,} blocks" for k in (fewer, fewer + 1)]
    sampling, mix = (make_plan(lengths, packer) for packer in ("sampling", "mix"))
    return {
        "deleted": f"{sampling.deleted:,}",
        "mix": f"{mix.padding:,}",
        "by_blocks": f"full blocks of 94 leave {' or '.join(nearest_work)}",
    }


def sources() -> str:
    """Tabulate every figure with its source."""
    values = derived_figures()
    rows = [
        [loader, NAMES[name], paper_figures.cell(loader, name), source.format(**values)]
        for (loader, name), (*_, source) in paper_figures.FIGURES.items()
    ]
    heads = ["loader", "figure", "the paper", "where it can be read"]
    notes = [f"`{mark}` {words}." for mark, words in paper_figures.MARKS.items()]
    return "\n\n".join([markdown(rows, heads, words=4), *notes])


def packing() -> str:
    """Tabulate padding and deletion of Action Genome's training lengths in full."""
    rows = table_rows(action_genome_lengths("train"), epochs=20)
    packed = pd.DataFrame(rows).set_index("loader").loc[LOADERS]
    lines = [
        ("`T_max`", "t_max", 0),
        ("padded slots per epoch", "padding", 0),
        ("the least possible for the frames kept", "lower_bound_padding", 0),
        ("deleted frames per epoch", "deleted", 0),
        ("blocks", "blocks", 1),
    ]
    table = []
    for name, key, digits in lines:
        if known := [paper_figures.cell(loader, key) for loader in LOADERS if key in NAMES]:
            table.append([f"{name}: the paper", *known])
        texts = (Interval(float(figure)).text(digits) for figure in packed[key])
        table.append(["ours" if known else name, *texts])
    return markdown(table, ["", *LOADERS])


def times_less() -> str:
    """Say how many times as much as the paper's packing `naive` pads, on average and by epoch."""
    lengths, naive = action_genome_lengths("train"), paper_figures.figure("naive", "padding")
    epochs = product(range(4), range(60))
    plans = (make_plan(lengths, "bload", None, seed, epoch) for seed, epoch in epochs)
    pads = np.array([plan.padding for plan in plans])
    return (
        f"Over {pads.size} epochs (seeds 0 to 3) `bload` pads {pads.mean():,.0f} slots "
        f"on average. Naive padding pads {naive / pads.mean():.0f} times as many, "
        f"{naive / pads.max():.0f} to {naive / pads.min():.0f} times by epoch, and in "
        f"{(naive / pads < 100).sum()} of these epochs less than 100 times."
    )


if __name__ == "__main__":
    make_parser("sources", __doc__).parse_args()
    with exit_on_input_error():
        publish("sources", f"{sources()}\n\n{times_less()}", committed=True)
        publish("padding", packing(), committed=True)
