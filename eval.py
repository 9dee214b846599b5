"""Evaluate checkpoints: Recall@K of scene graphs, with, semi and no constraint.

    python eval.py checkpoint=runs/NAME                 the last checkpoint of a run
    python eval.py checkpoint=runs/NAME/best.pt split=train
    python eval.py checkpoint=runs                      every run there, and a table of all
    python eval.py checkpoint=runs/NAME relations=relations.csv predictions=predictions.parquet
    python eval.py checkpoint=runs/NAME pictures=4      draw four videos, beside the checkpoint
    python eval.py checkpoint=runs/NAME starts=ignored  states are kept from video to video
    torchrun --nproc_per_node=2 eval.py checkpoint=...  the same figures, on two ranks
    python eval.py --help                               every key with its value

Frames are packed with `bload_exact`; any packing gives the same figures (docs/evaluation.md).
"""

import json
from typing import TYPE_CHECKING, Any

import hydra

from bload import InputError
from datasets.files import write_whole
from datasets.scoring.tables import format_comparison, format_recall, write_relations
from training import jobs
from training.config import CONFIGS, EvalJob
from training.stopping import AgreedError

if TYPE_CHECKING:
    from training.ranks import Ranks


@hydra.main(config_path=str(CONFIGS), config_name="eval", version_base="1.3")
@jobs.one_job
def main(cfg: EvalJob) -> dict[str, Any]:
    from training.ranks import join_ranks  # here, as --help needs no torch

    return evaluate_all(cfg, join_ranks(cfg.device, cfg.timeout))


def evaluate_all(cfg: EvalJob, ranks: "Ranks") -> dict[str, Any]:
    """Evaluate every checkpoint of a job; return the figures of the first."""
    from training.build import choose_kernels
    from training.checkpoint import find_checkpoints, load_model
    from training.data import find_videos
    from training.evaluation import check_outputs, evaluate_checkpoint
    from training.report.album import Album

    choose_kernels(cfg.amp, deterministic=False, one_shape=False)
    with ranks.agree_on_errors():
        paths = find_checkpoints(cfg.checkpoint)
        check_outputs(cfg, len(paths))
    opened: dict[str, Any] = {}
    results: dict[str, dict[str, Any]] = {}
    relations: list[dict[str, Any]] = []
    for name, path in paths.items():
        try:
            with ranks.agree_on_errors():
                model, checkpoint = load_model(path, ranks.device)
                source = find_videos(cfg, checkpoint["config"]["dataset"], opened)
            album = Album(source, cfg.pictures)
            figures, rows = evaluate_checkpoint(
                cfg, path, model, checkpoint, source, ranks, album.keep
            )
        except InputError as error:
            is_agreed = ranks.world_size == 1 or isinstance(error, AgreedError)
            if len(paths) == 1 or not is_agreed:
                raise
            results[name] = {"error": str(error)}
            continue
        results[name] = figures
        relations += rows
        folder = path.parent / f"pictures_{path.stem}_{source.split}"
        try:
            album.save(folder)
        except Exception as error:  # a picture ends nothing
            print(f"warning: no pictures in {folder}: {error}")
        epoch, step = checkpoint["epoch"], checkpoint["loader"]["step"]
        is_ended = epoch >= checkpoint.get("epochs", 0)  # older ones do not say
        place = "" if is_ended else f" in epoch {epoch + 1}, step {step}, before the end of its run"
        ranks.print(
            f"{path}{place} on {source.root}, {source.split}: {figures['frames']:,.0f} "
            f"frames, {figures['frames_per_second']:,.0f} frames/s"
        )
    if ranks.is_first:
        report(cfg, results, relations)
    ranks.barrier()
    if failed := sum("error" in figures for figures in results.values()):
        raise AgreedError(f"{failed} of {len(paths)} checkpoints could not be evaluated, see above")
    return next(iter(results.values()))


def report(
    cfg: EvalJob, results: dict[str, dict[str, Any]], relations: list[dict[str, Any]]
) -> None:
    """Print the figures of one checkpoint, or a line for each; write what `cfg` asks for."""
    from training.printing import observer_rows

    figures, is_single = next(iter(results.values())), len(results) == 1
    print(format_recall(figures) if is_single else format_comparison(results))
    rows = [row for each in results.values() for row in observer_rows(each)[: 1 + is_single]]
    for row in dict.fromkeys(rows):  # of all runs on the same videos, the ideal observers
        print(": ".join(row))
    if cfg.relations:
        write_relations(cfg.relations, relations)
    if cfg.out:
        write_whole(cfg.out, json.dumps(figures if is_single else results, indent=2) + "\n")
    pictures = "pictures_*, beside the checkpoint" if cfg.pictures else None
    for file in filter(None, (cfg.out, cfg.relations, cfg.predictions, pictures)):
        print(f"written: {file}")


if __name__ == "__main__":
    jobs.run(main)
