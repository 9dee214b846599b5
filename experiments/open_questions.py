"""Open questions: lengths from 1 to 1,000, frames left out, states of other lengths.

    python -m experiments.open_questions --measure   # 1 to 1,000 frames, 10 minutes
    python train.py experiment=coherence             # and the other in its file
    python -m experiments.open_questions train -m dataset=thinned dataset.left_out=0,0.3,0.6 ...
    python -m experiments.runs runs/NAME results/open_questions/NAME  # coherence, thinned
    python -m experiments.open_questions [FOLDER]    # the tables

The word ``train`` starts train.py, with two data sets more; the page has the whole line. The last
table is of `experiments.speakers`. Predictions: dev/LOG.md, "Open questions".
"""

import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from datasets.annotations.read import with_gaps
from datasets.annotations.targets import Video
from datasets.build import DATASETS, synthetic
from datasets.config import SyntheticConfig
from datasets.config_fields import key, number
from datasets.source import VideoSource
from datasets.synthetic.world import SPLITS
from experiments import speakers, study
from experiments.epoch_time import speeds
from experiments.interleaved import ALONE, time_turns
from experiments.intervals import corrected, t_interval
from experiments.paper_table import SEED, split_ways
from experiments.runs import read_runs, refuse_mixtures
from training.compose import compose_job

LOADERS = ("naive", "bucket", "sampling", "bload", "bload_exact")


@dataclass(kw_only=True)
class ChangedConfig(SyntheticConfig):
    """The default synthetic videos, changed."""

    root: str = key("of the synthetic videos", "data/synthetic-1000-60-60-200-64px-s0")
    frame_size: list[int] = key("height and width", factory=lambda: [64, 64])
    left_out: float = number(0, 0.95, "share of the frames that are left out at random", 0.0)


def open_thinned(cfg: ChangedConfig, split: str) -> VideoSource:
    """Leave frames of every video out, the same in all epochs; one of each video stays."""
    rng, videos = np.random.default_rng([cfg.seed, SPLITS.index(split)]), []
    for video in synthetic(cfg, split).videos:
        chances = rng.random(len(video.frames))
        kept = np.flatnonzero((chances >= cfg.left_out) | (chances == chances.max()))
        videos.append(Video(video.name, with_gaps([video.frames[i] for i in kept])))
    height, width = cfg.frame_size
    return VideoSource(cfg.root, split, videos, (height, width), cache=cfg.cache)


def open_extreme(cfg: ChangedConfig, split: str) -> VideoSource:
    """Join all videos, and cut them into even quantiles of a log-uniform law from 1 to 1,000."""
    whole = synthetic(cfg, split).videos
    frames = [frame for video in whole for frame in video.frames]
    lengths = np.geomspace(1, 1000, len(frames) // 150).astype(int)  # 145 on average
    ends = np.cumsum(np.random.default_rng(cfg.seed).permutation(lengths))
    parts = np.split(np.array(frames[: ends[-1]]), ends[:-1])
    videos = [Video(part[0].name, tuple(part)) for part in parts if len(part)]
    height, width = cfg.frame_size
    return VideoSource(cfg.root, split, videos, (height, width))


DATASETS |= {"thinned": (ChangedConfig, open_thinned), "extreme": (ChangedConfig, open_extreme)}


def time_extreme() -> None:
    """Write a row for each loader and round: half an epoch in 3, as `sampling` has 7 steps."""
    torch.set_num_threads(1)
    line = ["dataset=extreme", "train.workers=0", "train.batch_slots=1000"]
    cfgs = [compose_job("train", [*line, f"loader={loader}"]) for loader in LOADERS]
    rows = time_turns(cfgs, ALONE, share=0.45, rounds=3)
    study.write_rows(study.RESULTS / "open_questions/extreme.csv", rows)


def extreme_table(rows: pd.DataFrame) -> str:
    """Tabulate an epoch of each loader: slots, and seconds on one core."""
    counts = ["steps", "slots", "padded", "deleted"]
    means = rows.groupby("loader", sort=False)[[*counts, "seconds_a_step"]].mean()
    means["seconds"] = means.steps * means.pop("seconds_a_step")
    means["times as fast as naive"] = {name: x.text(1) for name, x in speeds(rows).items()}
    return means.rename_axis("1 to 1,000 frames").to_markdown(floatfmt=",.0f")


def runs_table(folder: Path, key: str) -> str:
    """Tabulate Recall@20 by the values of a key, and `bload` minus it by seed."""
    cells, rows = [], dict[str, dict[str, str]]()
    for value, runs in read_runs(folder).groupby(key):
        named = pd.concat(way.assign(name=name) for name, way in split_ways(runs))
        by_name = refuse_mixtures(named, "name").groupby("name", sort=False)
        ways = {name: way.set_index(SEED).recall for name, way in by_name}
        plain = [name for name in ways if name.split(",")[0] == "bload" and "=gap" not in name]
        base = ways[plain[0]] if plain else runs.recall[:0]
        for name, recall in ways.items():
            cells.append((f"{value:g}", name, recall, recall[:0] if name in plain else base))
    gains = corrected(base - recall for *_, recall, base in cells)
    for (value, name, recall, base), gain in zip(cells, gains, strict=True):
        row = rows.setdefault(value, {f"{key}; Recall@20; `bload` minus it": value})
        row[name] = f"{recall.mean():.1f}; {gain}" if len(base) else t_interval(recall).text()
    return pd.DataFrame(rows.values()).fillna("").to_markdown(index=False, disable_numparse=True)


def tables(folder: Path) -> str:
    """Tabulate what the folder holds."""
    makers = {
        "extreme.csv": lambda path: extreme_table(study.read_rows(path)),
        "thinned": lambda path: runs_table(path, "dataset.left_out"),
        "coherence": lambda path: runs_table(path, "dataset.dwell"),
        "speakers.csv": lambda path: speakers.table(study.read_rows(path)),
    }
    found = {name: make for name, make in makers.items() if (folder / name).exists()}
    text = "\n\n".join(make(folder / name) for name, make in found.items())
    return text + study.name_missing([name for name in makers if name not in found])


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        del sys.argv[1]
        runpy.run_path(str(study.ROOT / "train.py"), run_name="__main__")  # ends the process
    study.report_runs("open_questions", __doc__, tables, measure=time_extreme)
