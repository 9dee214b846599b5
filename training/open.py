"""Open a run, new or resumed."""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.config import NAMED_WEIGHTS
from training.build import open_training
from training.checkpoint import Progress, open_checkpoint, restore
from training.config import RESUMING, TrainJob
from training.data import Data, open_data
from training.folder import RunFolder, checkpoint_file, read_json, run_name
from training.memory import reset_peak_memory
from training.printing import opening_text
from training.ranks import Ranks
from training.run import Run
from training.tracking import Tracker


def prepare_run(cfg: TrainJob, ranks: Ranks) -> tuple[RunFolder, dict[str, Any] | None]:
    """Return the folder of a run, and its summary if nothing is left to do.

    Raises:
        InputError: ``run.resume`` names no checkpoint, or something else was trained in the folder.
    """
    folder = RunFolder(Path(cfg.run.root, cfg.run.name or run_name(cfg, ranks.world_size)))
    with ranks.agree_on_errors():
        if cfg.run.resume in RESUMING:
            folder.check_same_config(cfg)
        elif cfg.run.resume != "never":
            checkpoint_file(cfg.run.resume)
    is_finished = folder.summary.exists() and folder.is_continued(cfg.run.resume)
    if not any(ranks.gather(is_finished)):
        return folder, None
    summary = read_json(folder.summary) if folder.summary.exists() else {}
    recall = f" with {100 * summary['with/recall@20']:.2f} % Recall@20" if summary else ""
    ranks.print(f"{folder.path} had finished before{recall}; run.resume=never trains it again.")
    return folder, summary


@contextmanager
def open_run(cfg: TrainJob, ranks: Ranks, folder: RunFolder) -> Iterator[Run]:
    """Open a run, new or resumed; within the body its folder is locked for other processes.

    The folder has a checkpoint once the body begins.
    """
    data = open_data(cfg, ranks)
    with folder.lock(ranks), (folder.path / f"rank{ranks.rank}.log").open("a") as log:
        try:
            run, remarks = begin_or_resume(cfg, ranks, folder, data)
            sampler = data.loader.sampler
            ranks.print(opening_text(folder.path, cfg.loader.name, sampler, ranks, remarks))
            with run.tracker:
                reset_peak_memory(ranks.device)
                with ranks.stop.record_signals():
                    yield run
        except Exception:
            print(f"{time.asctime()} rank {ranks.rank}: failed", file=log)
            traceback.print_exc(file=log)
            raise


def begin_or_resume(
    cfg: TrainJob, ranks: Ranks, folder: RunFolder, data: Data
) -> tuple[Run, list[str]]:
    """Build a run, restored from its checkpoint if there is one; return it and remarks on it."""
    loader = data.loader
    with ranks.agree_on_errors():
        path, saved, remarks = open_checkpoint(folder.checkpoints(cfg.run.resume))
    training = open_training(cfg, ranks, data, saved or {})
    if saved is None or path is None:
        progress = Progress()
        if cfg.model.weights:
            from models.weights import load_weights

            with ranks.agree_on_errors():
                remarks.append(load_weights(training.model, cfg.model.weights))
        elif cfg.model.backbone in NAMED_WEIGHTS:  # frozen norms, and rates that only fine-tune
            remarks.append(
                f"warning: {cfg.model.backbone} starts from noise (model.weights is null): expect "
                "it to learn little; give model.weights=detr, resnet50 or resnet18"
            )
    else:
        progress, place = restore(saved, path, training, loader)
        remarks.append(place)
    # A run that begins from another run's checkpoint is new too.
    is_new = path not in (folder.last, folder.previous)
    if is_new:
        progress.best = None
    if ranks.is_first:
        if is_new:
            folder.clear()
        folder.begin(cfg, ranks)
        folder.rewind_metrics(loader.sampler.epoch + 1, loader.step, progress.evaluated_epochs)
        if path == folder.previous:
            folder.previous.replace(folder.last)  # else saving would move the damaged one over it
    ranks.barrier()
    tracker = Tracker(folder, cfg, progress, is_new=is_new, active=ranks.is_first)
    run = Run(cfg, ranks, folder, data, training, progress, tracker)
    if is_new:
        run.save()
    return run, remarks
