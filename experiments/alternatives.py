"""Alternatives: what else could feed the ranks, and how fast, with padding computed or skipped?

    export OMP_NUM_THREADS=1                                # 40 minutes in all, on two cores
    python -m experiments.alternatives --measure dataset.cache=data/cache64
    torchrun --nproc_per_node=2 -m experiments.alternatives --measure dataset.cache=data/cache64
    python -m experiments.alternatives                      # the table of what was measured

Lengths are Action Genome's (``experiment=alternatives``). Each way trains its own network, and all
take turns: in each round every way works through the same share of its epoch. Speed is in valid
frames per second of whole training steps over all ranks, reading and batching included. `single`
adds up as many videos as other batches hold on average. Nothing was predicted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from datasets.build import build_source
from experiments.interleaved import Turn, Way, jobs_of, on_ranks, take_turns, turn_options
from experiments.intervals import ratio
from experiments.study import markdown, measuring
from training.config import TrainJob
from training.figures import imbalance
from training.ranks import Ranks

WAY = ["loader", "padding"]
BASE = ("bload_exact", "computed")


def measure(ranks: Ranks, overrides: Sequence[str], share: float, rounds: int) -> list[dict]:
    """Return a row for each way and round; the ways take turns in each round."""
    jobs = [_with_as_many_frames(job) for job in jobs_of("alternatives", overrides)]
    ways = [Way(job, ranks) for job in jobs]
    turns = take_turns(ways, share, rounds)
    return [row for way, mine in zip(ways, turns, strict=True) for row in _rows(way, mine)]


def _with_as_many_frames(cfg: TrainJob) -> TrainJob:
    """Return the config; ``single`` gets as many videos in a step as fill the others' batches."""
    if cfg.loader.name != "single":
        return cfg
    mean = float(build_source(cfg.dataset, "train", progress=True).lengths.mean())
    count = max(1, round(cfg.train.batch_slots / mean))
    return replace(cfg, train=replace(cfg.train, micro_batches=count))


def _rows(way: Way, turns: Sequence[Turn]) -> Iterator[dict]:
    skipped, account = way.cfg.model.padding == "skipped", way.loader.account
    known = {
        "loader": way.cfg.loader.name,
        "padding": way.cfg.model.padding,
        "ranks": way.ranks.world_size,
        "padded": account.padding,
        "deleted": account.deleted,
        "frames": account.frames,
        "steps": account.steps,
        "imbalance": imbalance(way.loader.sampler.schedule, skipped),
        "one_shape": way.loader.plan.has_one_size and not skipped,
    }
    for number, turn in enumerate(turns, start=1):
        rate = sum(turn.frames) / sum(turn.seconds)
        peak = max(way.ranks.gather(turn.peak_mib))
        yield {**known, "round": number, "frames_per_second": rate, "peak_mib": peak}


def tables(rows: pd.DataFrame) -> str:
    """Tabulate the ways: speed on each number of ranks, over that of `BASE`, round by round."""
    turns = dict([*rows.groupby([*WAY, "ranks"], sort=False)])
    counts = sorted(rows.ranks.unique())
    few, many = counts[0], counts[-1]
    cells = []
    for way in rows[WAY].drop_duplicates().itertuples(index=False):
        mine, base = ([turns[*key, n].frames_per_second for n in counts] for key in (way, BASE))
        beside = [ratio(a, b).text(2) for a, b in zip(mine, base, strict=True)]
        one = turns[*way, few].iloc[0]
        cells.append(
            [
                f"`{way.loader}`, {way.padding}",
                *(["1"] * len(counts) if way == BASE else beside),
                *(f"{one[name]:,}" for name in ("padded", "deleted", "steps")),
                f"{turns[*way, many].imbalance.iloc[0]:.3f}",
                f"{turns[*way, few].peak_mib.max():,.0f}",
                "yes" if one.one_shape else "no",
            ]
        )
    heads = ["loader, padding", *(f"{n} rank{'s' * int(n > 1)}" for n in counts)]
    heads += ["padded", "deleted", f"steps of {few}", f"imbalance of {many}", f"MiB of {few}"]
    return markdown(cells, [*heads, "one shape"])


if __name__ == "__main__":
    measuring("alternatives", __doc__, on_ranks(measure), tables, turn_options(0.06, 6), "ranks")
