"""Open questions: lengths from 1 to 1,000, frames left out, states of other lengths, real speakers.

    python -m experiments.open_questions --measure extreme  # 10 minutes
    pip download aeon --no-deps                             # the speakers are a file in its wheel
    python -m experiments.open_questions --measure WHEEL    # 25 minutes
    python train.py experiment=coherence                    # and the other in its file
    python -m experiments.open_questions -m dataset=thinned dataset.left_out=0,0.3,0.6 ...
    python -m experiments.runs runs/NAME results/open_questions/NAME  # coherence, thinned
    python -m experiments.open_questions [FOLDER]           # the tables

Words with ``=`` train as train.py does, with two data sets more; the page has the whole line.
Predictions: dev/LOG.md, "Open questions".
"""

import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bload import Batch, BlockLoader, from_dataset, mean_loss
from datasets.action_genome import VideoSource
from datasets.annotations.read import with_gaps
from datasets.annotations.targets import Video
from datasets.build import DATASETS, synthetic
from datasets.config import SyntheticConfig
from datasets.config_fields import key, number
from datasets.files import exit_on_input_error
from datasets.synthetic.world import SPLITS
from examples.vowels import utterances
from experiments import study
from experiments.epoch_time import speeds
from experiments.interleaved import ALONE, time_turns
from experiments.intervals import corrected, signed, t_interval
from experiments.paper_table import SEED, split_ways
from experiments.runs import read_runs, refuse_mixtures
from training.compose import compose_job

RESULTS = study.RESULTS / "open_questions"
LOADERS = ("naive", "bucket", "sampling", "bload", "bload_exact")
RATES, CHOOSING, SEEDS, EPOCHS = (1e-3, 3e-3, 1e-2), (100, 101), range(20), 30


@dataclass(kw_only=True)
class ChangedConfig(SyntheticConfig):
    """The default synthetic videos, changed."""

    root: str = key("of the synthetic videos", "data/synthetic-1000-60-60-200-64px-s0")
    frame_size: list[int] = key("height and width", lambda: [64, 64])
    left_out: float = number(0, 0.95, "share of the frames that are left out at random", 0.0)


def open_thinned(cfg: ChangedConfig, split: str) -> VideoSource:
    """Leave frames of every video out, the same in all epochs; one of each video stays."""
    rng, videos = np.random.default_rng([cfg.seed, SPLITS.index(split)]), []
    for video in synthetic(cfg, split).videos:
        chances = rng.random(len(video.frames))
        kept = np.flatnonzero((chances >= cfg.left_out) | (chances == chances.max()))
        videos.append(Video(video.name, with_gaps([video.frames[i] for i in kept])))
    height, width = cfg.frame_size
    return VideoSource(cfg.root, split, videos, (height, width))


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


def time_extreme() -> list[dict]:
    """Return a row for each loader and round: half an epoch in 3, as `sampling` has 7 steps."""
    torch.set_num_threads(1)
    line = ["dataset=extreme", "train.workers=0", "train.batch_slots=1000"]
    cfgs = [compose_job("train", [*line, f"loader={loader}"]) for loader in LOADERS]
    return time_turns(cfgs, ALONE, share=0.45, rounds=3)


def extreme_table(rows: pd.DataFrame) -> str:
    """Tabulate an epoch of each loader: slots, and seconds on one core."""
    counts = ["steps", "slots", "padded", "deleted"]
    means = rows.groupby("loader", sort=False)[[*counts, "seconds_a_step"]].mean()
    means["seconds"] = means.steps * means.pop("seconds_a_step")
    means["times as fast as naive"] = {name: x.text(1) for name, x in speeds(rows).items()}
    return means.rename_axis("1 to 1,000 frames").to_markdown(floatfmt=",.0f")


def name_speakers(train: list, test: list, starts: bool, rate: float, seed: int) -> dict:
    """Train a one-way GRU to name the speaker in every frame, with the start table or without.

    Returns the frames named rightly, in percent, if the test utterances are read alone, and as one
    stream in which the state is never cleared.
    """
    torch.manual_seed(seed)
    gru, head = nn.GRU(12, 64, batch_first=True), nn.Linear(64, 9)

    def scores(batch: Batch, starts: bool) -> Tensor:
        if not starts:
            return head(gru(batch.inputs_BT)[0])
        return head(batch.from_packed(gru(batch.to_packed(batch.inputs_BT))[0]))

    lengths, test_lengths = ([len(frames) for frames, _ in items] for items in (train, test))
    loader = BlockLoader(from_dataset(train, lengths), t_max=63, batch_slots=252, seed=seed)
    optimiser = torch.optim.Adam([*gru.parameters(), *head.parameters()], rate)
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            scores_FK, target_F = scores(batch, starts)[batch.valid_BT], batch.targets_BT
            losses = cross_entropy(scores_FK, target_F[batch.valid_BT], reduction="sum")
            optimiser.zero_grad()
            mean_loss(losses, batch).backward()
            optimiser.step()
    row = {"starts": starts, "rate": rate, "seed": seed}
    source = from_dataset(test, test_lengths)
    (stream,) = BlockLoader(source, t_max=sum(test_lengths), seed=seed)  # one block of all
    with torch.no_grad():
        for way, cleared in (("alone", True), ("stream", False)):
            right_BT = scores(stream, cleared).argmax(-1) == stream.targets_BT
            row[way] = 100 * float(right_BT.float().mean())
    return row


def measure_speakers(wheel: str) -> list[dict]:
    """Choose a rate for each way on a fifth of the training split; then train on all of it."""
    torch.set_num_threads(1)
    train, test = (
        [(x_TC, torch.full((len(x_TC),), speaker)) for x_TC, speaker in utterances(wheel, split)]
        for split in ("TRAIN", "TEST")
    )
    part = [item for number, item in enumerate(train) if number % 5], train[::5]
    measured: list[dict] = []
    for starts in (True, False):
        rows = [name_speakers(*part, starts, *job) for job in product(RATES, CHOOSING)]
        best = pd.DataFrame(rows).groupby("rate").alone.mean().idxmax()
        finals = [name_speakers(train, test, starts, best, seed) for seed in SEEDS]
        measured += [{"stage": "rate"} | row for row in rows]
        measured += [{"stage": "final"} | row for row in finals]
    return measured


def speakers_table(rows: pd.DataFrame) -> str:
    """Tabulate the frames that are named rightly, with the table and without it, by seed."""
    final = rows[rows.stage == "final"].pivot(columns="starts", index="seed")
    cells = []
    for way in ("alone", "stream"):
        table, none = final[way, True], final[way, False]
        cells.append([way, t_interval(table).text(), t_interval(none).text(), signed(table - none)])
    heads = ["with the start table", "without it", "with minus without, by seed"]
    return study.markdown(cells, ["frames named rightly, %; utterances are read", *heads])


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


TABLES: dict[str, Callable[[Path], str]] = {
    "extreme.csv": lambda path: extreme_table(study.read_rows(path)),
    "thinned": partial(runs_table, key="dataset.left_out"),
    "coherence": partial(runs_table, key="dataset.dwell"),
    "speakers.csv": lambda path: speakers_table(study.read_rows(path)),
}
"""What results/open_questions holds -> its table."""


def tables(folder: Path) -> str:
    """Tabulate what the folder holds."""
    found = {name: make for name, make in TABLES.items() if (folder / name).exists()}
    text = "\n\n".join(make(folder / name) for name, make in found.items())
    return text + study.name_missing([name for name in TABLES if name not in found])


@exit_on_input_error()
def main() -> None:
    parser = study.make_parser("open_questions", __doc__)
    parser.add_argument("--measure", metavar="extreme|WHEEL", help="measure, and write the rows")
    parser.add_argument("folder", type=Path, nargs="?", help="of thinned, coherence")
    args = parser.parse_args()
    what, folder = args.measure, args.folder or RESULTS
    if what == "extreme":
        study.write_rows(RESULTS / "extreme.csv", time_extreme())
    elif what:
        study.write_rows(RESULTS / "speakers.csv", measure_speakers(what))
    else:
        study.publish("open_questions", tables(folder), committed=folder is RESULTS)


if __name__ == "__main__":
    if any("=" in word for word in sys.argv[1:] if not word.startswith("-")):
        runpy.run_path(str(study.ROOT / "train.py"), run_name="__main__")
    main()
