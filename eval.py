"""Evaluate checkpoints: Recall@K of scene graphs, with, semi and no constraint.

    python eval.py checkpoint=runs/NAME                 the last checkpoint of a run
    python eval.py checkpoint=runs/NAME/best.pt split=train
    python eval.py checkpoint=runs                      every run there, a line each at the end
    python eval.py checkpoint=runs/NAME relations=relations.csv predictions=predictions.parquet
    python eval.py checkpoint=runs/NAME pictures=4      draws four videos, beside the checkpoint
    python eval.py checkpoint=runs/NAME starts=ignored  states run over from video to video
    torchrun --nproc_per_node=2 eval.py checkpoint=...  the same figures, on two ranks

The frames are packed with `bload_exact`, which changes nothing but the speed. The protocol is in
docs/evaluation.md.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import torch
from omegaconf import DictConfig
from torch import nn
from tqdm import tqdm

from bload import BlockLoader, InputError, natural_t_max
from datasets.action_genome import ActionGenome
from datasets.annotations.rules import small_boxes_choice
from datasets.annotations.targets import FrameTargets
from datasets.build import build_source, build_yardsticks
from datasets.gaps import frame_gaps
from datasets.letterbox import Letterbox
from datasets.scoring.pictures import Album
from datasets.scoring.prediction import FramePrediction
from datasets.scoring.predictions_file import PredictionsWriter, join_parts
from datasets.scoring.recall import KS, RecallMeter
from datasets.scoring.tables import (
    format_comparison,
    format_recall,
    format_relations,
    relation_rows,
    write_relations,
)
from datasets.synthetic.observers import PART
from datasets.synthetic.yardsticks import Yardsticks
from experiments import cli
from experiments.config import plain, register
from experiments.printing import observer_text, told_starts
from experiments.ranks import Ranks, autocast, start_ranks
from experiments.starts import change_starts, check_starts
from experiments.trained import find_checkpoints, load_model, short_name
from models.predict import predict

Record = Callable[[Sequence[FrameTargets], Sequence[FramePrediction]], None]
Source = tuple[ActionGenome, Yardsticks | None]


@dataclass(frozen=True)
class Trained:
    """A checkpoint as read: what to call it, the model in it, and the data to measure it on."""

    path: Path
    name: str
    model: nn.Module
    checkpoint: dict[str, Any]
    source: ActionGenome
    yardsticks: Yardsticks | None


def evaluate(
    model: nn.Module,
    source: ActionGenome,
    ranks: Ranks,
    *,
    yardsticks: Yardsticks | None = None,
    **options: Any,
) -> dict[str, float]:
    """Recall of `model` on all frames of `source`, the same on every rank, fractions 0..1.

    The options are those of `measure`.
    """
    began = time.perf_counter()
    meter = measure(model, source, ranks, yardsticks=yardsticks, **options)
    return figures_of(meter, time.perf_counter() - began, yardsticks)


def figures_of(
    meter: RecallMeter, seconds: float, yardsticks: Yardsticks | None = None
) -> dict[str, float]:
    """The meter's summary, what observers reach, and the time it took to come by it."""
    figures = meter.summary(KS) | dict(yardsticks.figures if yardsticks else {})
    return figures | {"seconds": seconds, "frames_per_second": figures["frames"] / seconds}


@torch.no_grad()
def measure(
    model: nn.Module,
    source: ActionGenome,
    ranks: Ranks,
    *,
    batch_frames: int,
    amp: str = "auto",
    workers: int = 0,
    iou: str = "inclusive",
    yardsticks: Yardsticks | None = None,
    starts: str = "table",
    seed: int = 0,
    records: Sequence[Record] = (),
) -> RecallMeter:
    """The meter of all frames of `source`, the same on every rank.

    With `yardsticks` it measures memory-dependent triplets apart as well. `starts` says where
    states are cleared, by `seed` if at random: see `change_starts`. Each of `records`
    is given the targets and predictions of this rank, batch by batch.
    """
    precision = autocast(amp, ranks.device)
    loader = BlockLoader(
        source,
        "bload_exact",
        batch_frames=max(batch_frames, natural_t_max(source.lengths, "bload_exact")),
        rank=ranks.rank,
        world_size=ranks.world_size,
        workers=workers,
        pin_memory=ranks.device.type == "cuda",
    )
    letterbox = Letterbox(source)
    part = PART if yardsticks else None
    meter = RecallMeter(iou, part)
    training = model.training
    model.eval()
    for batch in tqdm(
        loader, desc="evaluate", leave=False, disable=None if ranks.is_first else True
    ):
        gap_BT = frame_gaps(batch).to(ranks.device, non_blocking=True)
        batch, extent_BT2 = letterbox(batch, ranks.device)
        start_BT = change_starts(batch.start_BT, batch.valid_BT, starts, seed)
        with precision:
            outputs = model(
                batch.frames_BT, start_BT, batch.valid_BT, extent_BT2=extent_BT2, gap_BT=gap_BT
            )
        sizes = [target.size_hw for target in batch.targets]
        predictions = predict(outputs, batch.valid_BT, sizes)
        flags = yardsticks.memory(batch.targets) if yardsticks else None
        meter.update(predictions, batch.targets, flags)
        for record in records:
            record(batch.targets, predictions)
    model.train(training)
    return RecallMeter(iou, part).merge(ranks.gather(meter.state()))


def measure_and_write(
    model: nn.Module,
    source: ActionGenome,
    ranks: Ranks,
    path: Path | str,
    made_by: dict[str, Any],
    *,
    records: Sequence[Record] = (),
    **options: Any,
) -> RecallMeter:
    """As `measure`; all predictions go to the file at `path`, see `PredictionsWriter`."""
    with PredictionsWriter(path, ranks.rank) as writer:
        meter = measure(model, source, ranks, records=[writer.write, *records], **options)
    ranks.barrier()  # every part is complete
    if ranks.is_first:
        join_parts(path, ranks.world_size, made_by)
    ranks.barrier()
    return meter


register()


@hydra.main(version_base="1.3", config_path="configs", config_name="eval")
def main(config: DictConfig) -> None:
    cfg = plain(config)
    with cli.told(), start_ranks(cfg["device"]) as ranks:
        complete = evaluate_all(cfg, ranks)
    if not complete:
        sys.exit(1)


def evaluate_all(cfg: dict, ranks: Ranks) -> bool:
    """Evaluate every checkpoint that was asked for; False if one of several could not be read."""
    paths = find_checkpoints(cfg["checkpoint"])
    outputs = [Path(cfg[key]) for key in ("out", "relations", "predictions") if cfg[key]]
    for path in outputs:
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise InputError(f"{path} cannot be written; name a file in a folder that exists")
    if cfg["predictions"] and len(paths) > 1:
        raise InputError(
            f"predictions={cfg['predictions']} is one file but {cfg['checkpoint']} holds "
            f"{len(paths)} checkpoints; give checkpoint= one of them"
        )
    if cfg["starts"]:
        check_starts(cfg["starts"])
    sources: dict[str, Source] = {}
    results: dict[str, dict[str, Any]] = {}
    rows: list[dict[str, object]] = []
    for path in paths:
        name, error = short_name(path, cfg["checkpoint"]), None
        try:
            model, checkpoint = load_model(path, ranks.device)
            source, yardsticks = find_source(cfg, checkpoint["config"]["dataset"], sources, ranks)
        except InputError as failure:
            if len(paths) == 1:
                raise
            error = str(failure)
        error = next(filter(None, ranks.gather(error)), None)  # all ranks go on alike
        if error:
            results[name] = {"error": error}
            continue
        trained = Trained(path, name, model, checkpoint, source, yardsticks)
        meter, results[name] = evaluate_one(cfg, trained, ranks, alone=len(paths) == 1)
        if cfg["relations"]:
            rows += relation_rows(meter, str(path))
            if ranks.is_first:
                print(f"\n{format_relations(meter)}\n")
    if ranks.is_first:
        if len(paths) > 1:
            print(format_comparison(results))
        if cfg["relations"]:
            write_relations(cfg["relations"], rows)
        if cfg["out"]:
            figures = results if len(paths) > 1 else next(iter(results.values()))
            Path(cfg["out"]).write_text(json.dumps(figures, indent=2) + "\n")
        sys.stdout.flush()
    ranks.barrier()
    return not any("error" in figures for figures in results.values())


def evaluate_one(
    cfg: dict, trained: Trained, ranks: Ranks, alone: bool
) -> tuple[RecallMeter, dict[str, float]]:
    """Evaluate one checkpoint, with all that was asked for; print what it is and its figures."""
    began = time.perf_counter()
    config, source, yardsticks = trained.checkpoint["config"], trained.source, trained.yardsticks
    starts = cfg["starts"] or config["train"].get("starts", "table")
    album = Album(source, cfg["pictures"])
    options = {key: cfg[key] for key in ("batch_frames", "amp", "workers", "iou")}
    options |= {"yardsticks": yardsticks, "starts": starts, "seed": config["train"]["seed"]}
    options["records"] = [album.keep]
    if cfg["predictions"]:
        made_by = {
            "checkpoint": str(trained.path),
            "split": cfg["split"],
            "root": str(source.root),
            "small_boxes": small_boxes_choice(config["dataset"]["small_boxes"]),
            "starts": starts,
        }
        meter = measure_and_write(
            trained.model, source, ranks, cfg["predictions"], made_by, **options
        )
    else:
        meter = measure(trained.model, source, ranks, **options)
    figures = figures_of(meter, time.perf_counter() - began, yardsticks)

    beside = trained.path.parent / f"pictures_{trained.path.stem}_{cfg['split']}"
    folder = (
        Path(cfg["pictures_dir"], "" if alone else trained.name) if cfg["pictures_dir"] else beside
    )
    drawn = [gif for gifs in ranks.gather(album.draw(folder, cfg["iou"])) for gif in gifs]
    if ranks.is_first:
        print(
            f"{trained.path}: {config['model']['name']} trained with loader "
            f"{config['loader']['name']}, after epoch {trained.checkpoint['epoch']}"
            f"{told_starts(starts)}\n"
            f"{source.root}, {cfg['split']}: {figures['frames']:,.0f} frames, "
            f"{figures['triplets']:,.0f} relations, "
            f"{figures['frames_per_second']:,.0f} frames/s\n"
        )
        if alone:
            print(format_recall(figures))
        print(observer_text(figures), end="")
        for gif in sorted(drawn):
            print(f"drawn: {gif}")
    return meter, figures


def find_source(cfg: dict, dataset: dict, sources: dict[str, Source], ranks: Ranks) -> Source:
    """The data a model was trained on, or what is at `root`; equal ones are made once."""
    if cfg["root"]:  # read what is there, and make nothing
        reading = ("frame_size", "small_boxes")
        dataset = {key: dataset[key] for key in reading} | {
            "name": "action_genome",
            "root": cfg["root"],
        }
    key = json.dumps(dataset, sort_keys=True)
    if key not in sources:
        source = build_source(cfg["split"], progress=True, **dataset)
        sources[key] = source, build_yardsticks(source, **dataset)
    return sources[key]


if __name__ == "__main__":
    cli.run(main, "eval")
