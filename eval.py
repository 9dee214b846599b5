"""Evaluate checkpoints: Recall@K of scene graphs, with, semi and no constraint.

    python eval.py checkpoint=runs/NAME                 the last checkpoint of a run
    python eval.py checkpoint=runs/NAME/best.pt split=train
    python eval.py checkpoint=runs                      every run there, and a table of all
    python eval.py checkpoint=runs/NAME relations=relations.csv predictions=predictions.parquet
    python eval.py checkpoint=runs/NAME pictures=4      draw four videos, beside the checkpoint
    python eval.py checkpoint=runs/NAME starts=ignored  states are kept from video to video
    torchrun --nproc_per_node=2 eval.py checkpoint=...  the same figures, on two ranks
    python eval.py --help                               every key with its value

The frames are packed with `bload_exact`, the fastest; any packing gives the same figures. The
protocol is in docs/evaluation.md.
"""

import json
import time
from pathlib import Path
from typing import Any

import hydra
from tabulate import tabulate
from torch import nn

from bload import InputError
from datasets.annotations.read import trained_pairs
from datasets.files import write_whole
from datasets.letterbox import Letterbox
from datasets.scoring import tables
from datasets.scoring.recall import RecallMeter
from models.config import ModelConfig
from training import jobs
from training.build import build_inputs, choose_kernels
from training.checkpoint import find_checkpoints, load_model, short_name
from training.config import CONFIGS, EvalJob
from training.data import Split, find_split
from training.evaluation import check_outputs, measure, measure_and_write, recall_figures
from training.printing import RESETS_IN_WORDS, best_rows
from training.ranks import Ranks, join_ranks
from training.report.frames import Album
from training.sidings.ablations import Ablation
from training.stopping import AgreedError


@hydra.main(config_path=str(CONFIGS), config_name="eval", version_base="1.3")
@jobs.one_job
def main(cfg: EvalJob) -> None:
    evaluate_all(cfg, join_ranks(cfg.device, cfg.timeout))


def evaluate_all(cfg: EvalJob, ranks: Ranks) -> None:
    """Evaluate every checkpoint of a job."""
    choose_kernels(cfg.amp, deterministic=False, one_shape=False)
    with ranks.agree_on_errors():
        paths = find_checkpoints(cfg.checkpoint)
        check_outputs(cfg, len(paths))
    is_single = len(paths) == 1
    splits: dict[str, Split] = {}
    results: dict[str, dict[str, Any]] = {}
    rows: list[dict[str, object]] = []
    for path in paths:
        name = short_name(path, cfg.checkpoint)
        try:
            with ranks.agree_on_errors():
                model, checkpoint = load_model(path, ranks.device)
                data = find_split(cfg, checkpoint["config"]["dataset"], splits)
        except InputError as error:
            if is_single:
                raise
            results[name] = {"error": str(error)}
            continue
        meter, results[name] = evaluate_one(cfg, path, model, checkpoint, data, ranks, is_single)
        if cfg.relations:
            rows += tables.relation_rows(meter, str(path))
    if ranks.is_first:
        if not is_single:
            print(tables.format_comparison(results))
            observers = [row for figures in results.values() for row in best_rows(figures)[:1]]
            for name, words in dict.fromkeys(observers):
                print(f"{name}: {words}")
        if cfg.relations:
            tables.write_relations(cfg.relations, rows)
        if cfg.out:
            figures = next(iter(results.values())) if is_single else results
            write_whole(cfg.out, json.dumps(figures, indent=2) + "\n")
        for file in filter(None, (cfg.out, cfg.relations, cfg.predictions)):
            print(f"written: {file}")
    ranks.barrier()
    if failed := sum("error" in figures for figures in results.values()):
        raise AgreedError(f"{failed} of {len(paths)} checkpoints could not be evaluated, see above")


def evaluate_one(
    cfg: EvalJob,
    path: Path,
    model: nn.Module,
    checkpoint: dict[str, Any],
    data: Split,
    ranks: Ranks,
    is_single: bool,
) -> tuple[RecallMeter, dict[str, float]]:
    """Evaluate one checkpoint: print its figures, write and draw what `cfg` asks for."""
    started_at = time.perf_counter()
    config, epoch, (source, yardsticks) = checkpoint["config"], checkpoint["epoch"], data
    starts = cfg.starts or config["train"]["starts"]
    if ranks.is_first:
        print(
            f"{path}: {config['model']['name']} trained with loader "
            f"{config['loader']['name']}, after epoch {epoch}{RESETS_IN_WORDS[starts]}",
            flush=True,
        )
    album = Album(source, cfg.pictures)
    options = {name: getattr(cfg, name) for name in ("batch_slots", "amp", "workers", "timeout")}
    options |= {
        "iou": cfg.iou,
        "ablation": Ablation(starts, seed=config["train"]["seed"]),
        "inputs": build_inputs(ModelConfig(**config["model"]), Letterbox(source), ranks.device),
        "records": [album.keep],
    }
    if cfg.predictions:
        metadata = {"checkpoint": str(path), "split": source.split, "root": str(source.root)}
        metadata |= {key: config["dataset"][key] for key in ("small_boxes", "validation")}
        metadata |= {"starts": starts}
        meter = measure_and_write(model, source, ranks, cfg.predictions, metadata, **options)
    else:
        meter = measure(model, source, ranks, **options)
    seconds = time.perf_counter() - started_at
    figures = {"epoch": epoch, **recall_figures(meter, seconds, yardsticks)}
    figures |= meter.unseen_summary(trained_pairs(source.root, config["dataset"]["small_boxes"]))
    if ranks.is_first:
        print(
            f"{source.root}, {source.split}: {figures['frames']:,.0f} frames, "
            f"{figures['triplets']:,.0f} relations, {figures['frames_per_second']:,.0f} frames/s"
        )
        if is_single:
            print("\n" + tables.format_recall(figures))
            if best := best_rows(figures):
                print("\n" + tabulate(best, tablefmt="plain", disable_numparse=True))
    folder = path.parent / f"pictures_{path.stem}_{source.split}"
    if cfg.pictures_dir:
        folder = Path(cfg.pictures_dir, "" if is_single else short_name(path, cfg.checkpoint))
    gif_paths = [gif for gifs in ranks.gather(album.draw(folder, cfg.iou)) for gif in gifs]
    if ranks.is_first:
        for gif in sorted(gif_paths):
            print(f"drawn: {gif}")
    return meter, figures


if __name__ == "__main__":
    jobs.run(main)
