"""Batching: does it decide the comparison what a step holds?

    python -m experiments.batching [FOLDER]

With equal slots a step has four clips of `sampling` and one block of `bload`; the paper's released
script takes equal numbers of sequences. How runs are made: configs/experiment/batching.yaml. Runs
with equal slots, and one block of `bload` a step, are those of `experiments.paper_table`. Judged
by Recall@20 at equal epochs, `bload` less each, by seed (docs/LOG.md, "Two protocols").
"""

from pathlib import Path

import pandas as pd

from experiments.intervals import paired, student
from experiments.runs import read_runs
from experiments.study import RESULTS, markdown, study

RATE = 0.0015
BLOCKS = {
    "equal slots": {"sampling": 4, "bload": 1, "bload_exact": 1},
    "one": dict.fromkeys(["sampling", "bload", "bload_exact"], 1),
    "four": dict.fromkeys(["sampling", "sampling, all clips", "bload", "bload_exact"], 4),
}
"""What a step holds -> loader -> clips or blocks a step."""


def tables(folder: Path) -> str:
    """Steps and Recall@20 of every loader and batching, and `bload` less it."""
    both = read_runs(RESULTS / "paper_table"), read_runs(folder, "batching")
    runs = pd.concat(both).copy()
    several = runs["loader.clips"].eq("all").map({True: ", all clips", False: ""})
    runs["way"] = runs["loader.name"] + several
    runs["each"] = runs["train.batch_slots"].astype(int) // runs.t_max.astype(int)
    runs = runs.drop_duplicates(["way", "each", "train.lr", "train.seed"])
    rows = []
    for batching, rate in [*((name, RATE) for name in BLOCKS), ("four", 2 * RATE)]:
        label = batching if rate == RATE else f"{batching}, twice the rate"
        ways = {
            way: runs[(runs.way == way) & (runs.each == each) & (runs["train.lr"] == rate)]
            for way, each in BLOCKS[batching].items()
        }
        recalls = {way: mine.set_index("train.seed").recall for way, mine in ways.items()}
        for way, mine in ways.items():
            less = "" if way == "bload" else paired(recalls["bload"], recalls[way]).text(sign=True)
            work = [BLOCKS[batching][way], f"{mine.all_steps.mean():,.0f}", len(mine)]
            rows.append([label, f"`{way}`", *work, student(mine.recall).text(), less])
    heads = ["a step holds", "loader", "clips or blocks", "steps", "seeds", "Recall@20"]
    return markdown(rows, [*heads, "`bload` less it"], words=2)


if __name__ == "__main__":
    study("batching", __doc__, tables)
