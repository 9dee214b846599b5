"""Alternatives: what else could feed the ranks, and how fast, with padding computed or skipped?

    export OMP_NUM_THREADS=1                                # 25 minutes in all, on two cores
    python -m experiments.alternatives --measure dataset.cache=data/cache64
    torchrun --nproc_per_node=2 -m experiments.alternatives --measure dataset.cache=data/cache64
    python -m experiments.alternatives                      # the table of what was measured

Each way trains its own network, and all take turns: in each round every way works through the same
share of its epoch. Nothing was predicted.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from bload import InputError
from bload.errors import plural
from datasets.build import build_source
from experiments.interleaved import add_all_clips, on_ranks, sweep_jobs, time_turns, way_of
from experiments.intervals import ratio
from experiments.study import markdown, report_rows
from training.config import TrainJob
from training.ranks import Ranks

WAY = ["loader", "padding"]
BASE = ("bload_exact", "computed")


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each way and round; the ways take turns in each round."""
    jobs = add_all_clips(sweep_jobs("alternatives", overrides, BASE[0]))
    if BASE not in map(way_of, jobs):
        raise InputError(f"{BASE[0]} is the base with padding; give model.skip_padding=false")
    return time_turns([fill_steps(job) for job in jobs], ranks, share, rounds)


def fill_steps(cfg: TrainJob) -> TrainJob:
    """Return the config; ``single`` gets as many videos in a step as fill the others' batches."""
    if cfg.loader.name != "single":
        return cfg
    mean = float(build_source(cfg.dataset, "train").lengths.mean())
    count = max(1, round(cfg.train.batch_slots / mean))
    return replace(cfg, train=replace(cfg.train, micro_batches=count))


def tables(rows: pd.DataFrame) -> str:
    """Tabulate the ways: speed on each number of ranks, over that of `BASE`, round by round.

    A way that was not measured on more ranks has empty cells there.
    """
    turns = dict([*rows.groupby([*WAY, "ranks"], sort=False)])
    ranks, cells = sorted(rows.ranks.unique()), []
    fewest, largest = ranks[0], ranks[-1]
    for way in rows[rows.ranks == fewest][WAY].drop_duplicates().itertuples(index=False, name=None):
        measured = {n: turns[*way, n] for n in ranks if (*way, n) in turns}
        speeds = {
            n: ratio(rounds.frames_per_second, turns[*BASE, n].frames_per_second).text(2)
            for n, rounds in measured.items()
        }
        first = measured[fewest].iloc[0]
        cells.append(
            [
                f"`{first.loader}`, {first.padding}",
                *("1" if way == BASE else speeds.get(n, "") for n in ranks),
                *(f"{first[name]:,}" for name in ("padded", "deleted", "steps")),
                f"{measured[largest].imbalance.iloc[0]:.3f}" if largest in measured else "",
                f"{measured[fewest].peak_mib.max():,.0f}",
                "yes" if first.one_shape else "no",
            ]
        )
    names = [plural(n, "rank") for n in ranks]
    heads = ["loader, padding", *names, "padded", "deleted", f"steps, {names[0]}"]
    heads += [f"imbalance, {names[-1]}", f"MiB, {names[0]}", "all batches one shape"]
    return markdown(cells, heads)


if __name__ == "__main__":
    report_rows("alternatives", __doc__, on_ranks(measure), tables, key="ranks", turns=(0.06, 6))
