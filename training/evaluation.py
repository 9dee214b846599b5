"""Evaluation: the recall of a model on all frames of a split, equal on every rank; eval.py's job.

B blocks, T slots.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bload import BlockLoader, InputError
from bload.batch.check import evaluation_mode
from datasets.annotations.read import trained_pairs
from datasets.files import write_whole
from datasets.letterbox import Letterbox
from datasets.scoring import tables
from datasets.scoring.recall import RecallMeter
from datasets.source import VideoSource
from models.predict import predict
from training.ablations import Ablation
from training.build import choose_kernels
from training.checkpoint import find_checkpoints, load_model
from training.config import EvalJob, ProcessConfig
from training.data import ToInputs, find_videos, process_options
from training.printing import observer_rows
from training.ranks import Ranks, autocast
from training.report.album import Album
from training.stopping import AgreedError, Stopped

if TYPE_CHECKING:
    from datasets.scoring.predictions_file import Sink


def check_outputs(cfg: EvalJob, checkpoints: int) -> None:
    """Raise `InputError`, before hours of work, if an output file cannot be written."""
    paths = [Path(name) for name in (cfg.out, cfg.relations, cfg.predictions) if name]
    if len({path.absolute() for path in paths}) < len(paths):
        raise InputError("out, relations and predictions name one file; give each its own")
    for path in paths:
        is_file = False
        with suppress(OSError, ValueError):
            TemporaryFile(dir=path.absolute().parent).close()
            is_file = path.is_file() or not path.exists()
        if not is_file:
            raise InputError(f"{path} cannot be written; name a file in a folder that can be")
    if cfg.predictions and checkpoints > 1:
        raise InputError(
            f"predictions={cfg.predictions} is one file but {cfg.checkpoint} holds "
            f"{checkpoints} checkpoints; give checkpoint= one of them"
        )


def evaluate_all(cfg: EvalJob, ranks: Ranks) -> dict[str, Any]:
    """Evaluate every checkpoint of a job; return the figures of the first."""
    choose_kernels(cfg.amp, deterministic=False, one_shape=False)
    with ranks.agree_on_errors():
        paths = find_checkpoints(cfg.checkpoint)
        check_outputs(cfg, len(paths))
    paths = ranks.gather(paths)[0]
    opened: dict[str, VideoSource] = {}
    results: dict[str, dict[str, Any]] = {}
    relations: list[dict[str, Any]] = []
    for name, path in paths.items():
        try:
            results[name], rows = evaluate_checkpoint(cfg, path, ranks, opened)
            relations += rows
        except InputError as error:
            is_agreed = ranks.world_size == 1 or isinstance(error, AgreedError)
            if len(paths) == 1 or not is_agreed:
                raise
            results[name] = {"error": str(error)}
    if ranks.is_first:
        report(cfg, results, relations)
    ranks.barrier()
    if failed := sum("error" in figures for figures in results.values()):
        raise AgreedError(f"{failed} of {len(paths)} checkpoints could not be evaluated, see above")
    return next(iter(results.values()))


def evaluate_checkpoint(
    cfg: EvalJob, path: Path, ranks: Ranks, opened: dict[str, VideoSource]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return figures of a checkpoint and its `relation_rows`; write predictions and pictures.

    Args:
        opened: videos that other checkpoints are evaluated on, for `find_videos`.
    """
    with ranks.agree_on_errors():
        model, checkpoint = load_model(path, ranks.device)
        train, dataset = checkpoint["config"]["train"], checkpoint["config"]["dataset"]
        source = find_videos(cfg, dataset, opened)
        trained = {key: dataset[key] for key in ("small_boxes", "validation")}
        root = Path(dataset["root"])
        if (pairs_KR := trained_pairs(root, **trained)) is None:  # the data are elsewhere now
            pairs_KR = trained_pairs(root := source.root, **trained)
    epoch, step = checkpoint["epoch"], checkpoint["loader"]["step"]
    if len({*ranks.gather((epoch, step))}) > 1:
        raise AgreedError(f"ranks read {path} at different steps; give one that no run writes")
    album, starts = Album(source, cfg.pictures, cfg.iou), cfg.starts or train["starts"]
    metadata = {"checkpoint": str(path), "split": source.split, "root": str(source.root)}
    metadata |= {**trained, "starts": starts, "trained_root": str(root)}
    with open_sinks(cfg.predictions, ranks, metadata) as sinks:
        figures, meter = evaluate(
            model,
            source,
            ranks,
            iou=cfg.iou,
            batch_slots=cfg.batch_slots,
            process=cfg,
            ablation=Ablation(starts, seed=train["seed"]),
            sinks=[album.keep, *sinks],
        )
    figures |= meter.unseen_summary(pairs_KR) | {"t_max": checkpoint["loader"]["plan"]["t_max"]}
    split = source.split if starts == "table" else f"{source.split}_starts={starts}"
    folder = path.parent / f"pictures_{path.stem}_{split}"
    try:
        album.save(folder)
    except Exception as error:  # a picture ends nothing
        print(f"warning: no pictures in {folder}: {error}")
    is_ended = epoch >= (epochs := checkpoint["epochs"])
    when = "" if is_ended else f" in epoch {epoch + 1}, step {step}, before the end of its run"
    ranks.print(
        f"{path}{when} on {source.root}, {split}: {figures['frames']:,.0f} frames, "
        f"{figures['frames_per_second']:,.0f}/s, Recall@20 {100 * figures['with/recall@20']:.2f} %"
    )
    rows = tables.relation_rows(meter, str(path)) if cfg.relations else []
    return {"epoch": epoch, "epochs": epochs, "starts": starts, **figures}, rows


@contextmanager
def open_sinks(
    path: Path | str | None, ranks: Ranks, metadata: dict[str, Any]
) -> Iterator[list["Sink"]]:
    """Give the sink that writes all predictions to `path`, in a list; none without a path."""
    if not path:
        yield []
        return
    from datasets.scoring.predictions_file import join_parts, write_part

    with write_part(path, ranks.rank) as write:
        yield [write]
    ranks.barrier()  # every part is complete
    if ranks.is_first:
        join_parts(path, ranks.world_size, metadata)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    source: VideoSource,
    ranks: Ranks,
    *,
    iou: str = "inclusive",
    batch_slots: int,
    process: ProcessConfig = ProcessConfig(workers=0),  # noqa: B008
    ablation: Ablation = Ablation(),  # noqa: B008
    sinks: Sequence["Sink"] = (),
) -> tuple[dict[str, float], RecallMeter]:
    """Return the recall of `model` on all frames of `source`, in 0..1, and its meter.

    That of the videos' yardsticks stands beside it. All but the times is equal on every rank.

    Args:
        iou: of boxes, as for `RecallMeter`.
        sinks: called with this rank's targets and predictions, batch by batch.
    """
    started_at = time.perf_counter()
    to_inputs = ToInputs(Letterbox(source), ranks.device)
    precision = autocast(process.amp, ranks.device)
    loader = BlockLoader(
        source,
        "bload_exact",
        batch_slots=batch_slots,  # or one block
        **process_options(process, ranks),
    )
    own_meter = RecallMeter(iou)
    with evaluation_mode(model):
        for batch in ranks.show_progress(loader, "evaluate", loader.steps):
            batch = ablation(batch)
            inputs, _ = to_inputs(batch)
            with precision:
                outputs = model(inputs)
            sizes_hw = [target.size_hw for target in batch.targets]
            predictions = predict(outputs, batch.valid_BT, sizes_hw)
            own_meter.update(predictions, batch.targets)
            for sink in sinks:
                sink(batch.targets, predictions)
            if signal_number := ranks.largest(ranks.stop.signal_number)[0]:
                where = "the beginning of this evaluation"
                raise Stopped(signal_number, f"the same command goes on from {where}")
    meter = RecallMeter(iou).merge(ranks.gather(own_meter.state()))
    figures = meter.summary() | (source.yardsticks.summary(meter) if source.yardsticks else {})
    seconds = time.perf_counter() - started_at
    return figures | {"seconds": seconds, "frames_per_second": figures["frames"] / seconds}, meter


def report(
    cfg: EvalJob, results: dict[str, dict[str, Any]], relations: list[dict[str, Any]]
) -> None:
    """Print the figures of one checkpoint, or a line for each; write what `cfg` asks for."""
    figures, is_single = next(iter(results.values())), len(results) == 1
    print(tables.format_recall(figures) if is_single else tables.format_comparison(results))
    for row in observer_rows(figures) if is_single else ():
        print(": ".join(row))
    if cfg.relations:
        tables.write_relations(cfg.relations, relations)
    if cfg.out:
        write_whole(cfg.out, json.dumps(figures if is_single else results, indent=2) + "\n")
    for file in filter(None, (cfg.out, cfg.relations, cfg.predictions)):
        print(f"written: {file}")
