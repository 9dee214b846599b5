"""What else could feed the ranks: every loader, padding computed and skipped, in one run.

    python -m experiments.alternatives                  # 1 and 2 ranks, 40 minutes on two cores
    python -m experiments.alternatives --quick          # few videos, minutes

Lengths are Action Genome's. On one rank, then on two (gloo, a thread each), every way to feed
trains a network of its own and all take turns: in each round every one works through the same share
of its epoch. Valid frames a second are those of whole training steps, reading and batching
included, over all ranks. Ratios to bload_exact are geometric means over rounds, with Student t
intervals. `imbalance` is how much longer the epoch takes than if each step's slots (frames, if
padding is skipped) were spread evenly; `MiB` the peak above what was there before the turn, on the
rank that took most; `static` whether all batches have one shape, as graphs and compilers want.

A ragged batch is one row of all its frames, so a memory that walks slot by slot, as that of
``model.temporal=dds`` does, takes as many steps as there are frames; other rows are `T_max` long.
`single` adds up as many videos as the others' batches hold on average. Written to
runs/alternatives/alternatives.json; the figures to expect are in results/alternatives.txt.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tabulate import tabulate

from datasets.build import build_source
from experiments.commands import jobs_of
from experiments.measured import measure
from experiments.report.alternatives import beside_exact
from experiments.report.exhibits import cell
from experiments.turns import Rows, Taken, Way, on_ranks, take_turns
from training.config import TrainJob, register
from training.figures import imbalance
from training.ranks import Ranks

FULL: dict[str, Any] = {
    "ranks": [1, 2],
    "rounds": 6,
    "share": 0.06,
    "overrides": ["dataset.cache=data/cache64"],
}
QUICK = {
    "rounds": 3,
    "share": 0.5,
    "overrides": [
        *("dataset.train_videos=200", "dataset.test_videos=30", "dataset.image_size=32"),
        "train.batch_frames=188",
    ],
}
TEXTS = {
    "ranks": "1, 2 or both",
    "rounds": "turns of each way",
    "share": "of each epoch that is worked through in all rounds",
    "overrides": "of the config of experiment=alternatives",
}


def run(ranks: list[int], rounds: int, share: float, overrides: list[str]) -> dict[str, Any]:
    """Measure on every number of ranks, print a table of each and return the rows."""
    rows: Rows = []
    for count in ranks:
        found = on_ranks(count, partial(ways, overrides=overrides, share=share, rounds=rounds))
        print(f"ranks: {count}\n{_table(found)}\n", flush=True)
        rows += found
    return {"rows": rows}


def ways(ranks: Ranks, *, overrides: Sequence[str], share: float, rounds: int) -> Rows:
    """A row for each way, which have taken turns."""
    register()
    jobs = jobs_of(["experiment=alternatives", *overrides])
    made = [Way(_with_as_many_frames(job.config), ranks) for job in jobs]
    turns = take_turns(made, share, rounds)
    return [_row(way, mine) for way, mine in zip(made, turns, strict=True)]


def _with_as_many_frames(cfg: TrainJob) -> TrainJob:
    """The config, under ``single`` with as many videos in a step as fill the others' batches."""
    if cfg.loader.name != "single":
        return cfg
    mean = float(build_source(cfg.dataset, "train", progress=True).lengths.mean())
    count = max(1, round(cfg.train.batch_frames / mean))
    return replace(cfg, train=replace(cfg.train, micro_batches=count))


def _row(way: Way, turns: Sequence[Sequence[Taken]]) -> dict[str, Any]:
    """What is known and measured of a way."""
    skipped = way.cfg.model.padding == "skipped"
    account = way.loader.account
    return {
        "loader": way.cfg.loader.name,
        "padding": way.cfg.model.padding,
        "ranks": way.ranks.world_size,
        "padded": account.padding,
        "deleted": account.deleted,
        "frames": account.frames,
        "steps": account.steps,
        "imbalance": imbalance(way.loader.sampler.dealt, skipped),
        "static": way.loader.plan.has_one_size and not skipped,
        "peak_mib": max(way.ranks.gather(way.peak_mib)),
        "rates": [sum(t.frames for t in turn) / sum(t.seconds for t in turn) for turn in turns],
    }


def _table(found: Rows) -> str:
    ways = beside_exact(found).reset_index()
    columns = {
        "loader": ways.loader,
        "padding": ways.padding,
        "frames/s": ways.rate.map("{:.0f}".format),
        "of bload_exact": ways.beside.map(lambda ratio: cell(ratio, "3")),
        "padded": ways.padded.map("{:,}".format),
        "deleted": ways.deleted.map("{:,}".format),
        "imbalance": ways.imbalance.map("{:.3f}".format),
        "MiB": ways.peak_mib.map("{:,.0f}".format),
        "static": ways.static.map({True: "yes", False: "no"}),
    }
    return tabulate(columns, "keys", disable_numparse=True, stralign="right")


def main() -> None:
    measure("alternatives", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()
