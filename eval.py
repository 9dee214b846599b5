"""Evaluate a checkpoint: Recall@K of scene graphs, with, semi and no constraint.

    python eval.py checkpoint=runs/NAME                 the last checkpoint of a run
    python eval.py checkpoint=runs/NAME/best.pt split=train
    torchrun --nproc_per_node=2 eval.py checkpoint=...  the same figures, on two ranks

The frames are packed with `bload_exact`, which changes nothing but the speed.
"""

import json
import time
from pathlib import Path

import hydra
import torch
from omegaconf import DictConfig
from torch import nn
from tqdm import tqdm

from bload import BlockLoader, natural_t_max
from bload.training import cli
from bload.training.checkpoint import load_checkpoint
from bload.training.config import plain, register, without
from bload.training.ranks import Ranks, autocast, start_ranks
from datasets.action_genome import ActionGenome
from datasets.build import build_source
from datasets.recall import CONSTRAINTS, RecallMeter
from models import build_model
from models.predict import predict

KS = (10, 20, 50)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    source: ActionGenome,
    ranks: Ranks,
    *,
    batch_frames: int,
    amp: str = "auto",
    workers: int = 0,
    iou: str = "inclusive",
) -> dict[str, float]:
    """Recall of `model` on all frames of `source`, the same on every rank, fractions 0..1."""
    began = time.perf_counter()
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
    meter = RecallMeter(iou)
    training = model.training
    model.eval()
    for batch in tqdm(loader, desc="evaluate", leave=False, disable=not ranks.is_first):
        batch = batch.to(ranks.device, non_blocking=True)
        with precision:
            outputs = model(batch.frames_BT, batch.start_BT, batch.valid_BT)
        sizes = [target.size_hw for target in batch.targets]
        meter.update(predict(outputs, batch.valid_BT, sizes), batch.targets)
    model.train(training)
    states = ranks.gather(meter.state())
    figures = RecallMeter(iou).merge(states).summary(KS)
    seconds = time.perf_counter() - began
    return figures | {"seconds": seconds, "frames_per_second": figures["frames"] / seconds}


def format_recall(figures: dict[str, float]) -> str:
    """The figures as a table in percent: one line a constraint."""
    measures = ("recall", "mean_recall", "pooled_mean_recall")
    short = {"recall": "R", "mean_recall": "mR", "pooled_mean_recall": "pooled mR"}
    names = [f"{short[measure]}@{k}" for measure in measures for k in KS]
    widths = [max(len(name), 6) for name in names]
    header = "constraint  " + "  ".join(n.rjust(w) for n, w in zip(names, widths, strict=True))
    lines = [header, "-" * len(header)]
    for constraint in CONSTRAINTS:
        values = [100 * figures[f"{constraint}/{m}@{k}"] for m in measures for k in KS]
        cells = [f"{value:.2f}".rjust(w) for value, w in zip(values, widths, strict=True)]
        lines.append("  ".join([constraint.ljust(10), *cells]))
    return "\n".join(lines)


register()


@hydra.main(version_base="1.3", config_path="configs", config_name="eval")
def main(config: DictConfig) -> None:
    cfg = plain(config)
    with start_ranks(cfg["device"]) as ranks:
        checkpoint = load_checkpoint(cfg["checkpoint"], ranks.device)
        trained = checkpoint["config"]
        dataset = trained["dataset"]
        if cfg["root"]:  # read what is there, and make nothing
            reading = ("frame_size", "small_boxes")
            dataset = {key: dataset[key] for key in reading} | {
                "name": "action_genome",
                "root": cfg["root"],
            }
        source = build_source(cfg["split"], progress=ranks.is_first, **dataset)
        model = build_model(**without(trained["model"], "name")).to(ranks.device)
        model.load_state_dict(checkpoint["model"])
        figures = evaluate(
            model,
            source,
            ranks,
            batch_frames=cfg["batch_frames"],
            amp=cfg["amp"],
            workers=cfg["workers"],
            iou=cfg["iou"],
        )
        if not ranks.is_first:
            return
        print(
            f"{cfg['checkpoint']}: {trained['model']['name']} trained with loader "
            f"{trained['loader']['name']}, after epoch {checkpoint['epoch']}\n"
            f"{dataset['root']}, {cfg['split']}: {figures['frames']:,.0f} frames, "
            f"{figures['triplets']:,.0f} relations, {figures['frames_per_second']:,.0f} frames/s\n"
        )
        print(format_recall(figures))
        if cfg["out"]:
            Path(cfg["out"]).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    cli.run(main, "eval")
