"""Train a recurrent scene-graph model on blocks of whole videos.

    torchrun train.py loader=bload                      one process; makes synthetic data if needed
    torchrun --nproc_per_node=2 train.py loader=naive   DDP; or sampling, mix, bload, bload_exact
    torchrun train.py experiment=action_genome dataset.root=/data/ag
    python train.py -m loader=naive,bload               one run after another, under torchrun too
    python train.py --help                              what can be set

Run the same command again to resume a run that stopped.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hydra
import torch
from tqdm import tqdm

from datasets.build import build_letterbox
from models import build_criterion
from models.weights import load_weights, noise_warning
from training import jobs
from training.build import Training, build_network, build_training, choose_kernels
from training.carried import open_carried, pack_carried
from training.checkpoint import Progress, load_training, save_training
from training.config import CONFIGS, TrainJob
from training.data import Data, Split, open_data
from training.evaluation import evaluate
from training.figures import Clock, add, epoch_figures, losses_of, run_summary
from training.folder import RunFolder, checkpoint_file, read_object
from training.memory import recompute, reset_peak_memory
from training.printing import epoch_line, opening_text, summary_text
from training.ranks import Ranks, join_ranks
from training.report.record import RELATIONS
from training.report.write import PAGE, begin_page, drawn_files, write_or_warn
from training.step import train_step
from training.tracking import Tracker


@hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")
@jobs.one_job
def main(cfg: TrainJob) -> dict[str, Any]:
    return train(cfg, join_ranks(cfg.train.device, cfg.train.timeout, cfg.train.deterministic))


def train(cfg: TrainJob, ranks: Ranks) -> dict[str, Any]:
    """Start or resume a run; return its summary."""
    folder = RunFolder.of(cfg, ranks.world_size)
    with ranks.together():
        if cfg.run.resume not in ("auto", "never"):
            checkpoint_file(cfg.run.resume)
    data = open_data(cfg, ranks, folder.cost)
    loader = data.loader
    with ranks.together():
        if folder.path.exists() and cfg.run.resume == "auto":
            folder.check_same_config(cfg, loader.sampler)
    if any(ranks.gather(folder.is_finished(cfg.run.resume))):
        if ranks.is_first:
            print(f"{folder.path} had finished before; run.resume=never trains it again.")
        if not ranks.gather((folder.path / PAGE).exists())[0]:  # killed while it was drawn
            with folder.lock(ranks):
                if ranks.is_first:
                    write_or_warn(folder.path, ranks.device, data.final.source)
        return read_object(folder.summary) if folder.summary.exists() else {}
    training = open_training(cfg, ranks, data)

    with folder.lock(ranks):
        log = folder.log(ranks.rank)
        try:
            progress, message, is_new = open_run(cfg, folder, training, data)
            tracker = Tracker(
                folder, asdict(cfg), cfg.wandb, progress.epochs, is_new, active=ranks.is_first
            )
            if ranks.is_first:
                print(opening_text(folder.path, cfg.loader.name, loader.sampler, ranks, message))
            with tracker:
                tracker.draw({cfg.loader.name: loader.plan})
                with ranks.stop.heard():
                    train_epochs(cfg, folder, training, data, progress, tracker)
                    recall = evaluate_run(cfg, training, data.final, folder.path / RELATIONS)
                return finish(cfg, folder, training, data, progress, tracker, recall)
        except Exception:
            log.exception("failed")
            raise


def open_training(cfg: TrainJob, ranks: Ranks, data: Data) -> Training:
    """Build the model on this rank's device, with its optimiser, losses and letterbox."""
    sampler = data.loader.sampler
    letterbox = build_letterbox(data.source, cfg.dataset.augment, cfg.train.seed)
    torch.manual_seed(cfg.train.seed)
    blocks, slots = sampler.blocks_per_batch, sampler.plan.t_max
    with ranks.together():
        model = build_network(cfg, ranks.device)
        model.exchanges = cfg.train.exchange == "frames" and ranks.world_size > 1
    model.recompute = recompute(cfg, blocks, slots, ranks)
    one_shape = sampler.plan.has_one_size and cfg.model.padding == "computed"
    choose_kernels(cfg.train.amp, cfg.train.deterministic, one_shape)
    train_cfg = cfg.train.for_slots(data.loader.account.processed)
    return build_training(train_cfg, ranks, model, build_criterion(cfg.loss), letterbox)


def open_run(
    cfg: TrainJob, folder: RunFolder, training: Training, data: Data
) -> tuple[Progress, str, bool]:
    """Begin or restore a run; afterwards its folder always has a checkpoint.

    Returns:
        The run's progress, a message to print, and True for a new run.
    """
    ranks, loader, message = training.ranks, data.loader, ""
    with ranks.together():
        paths = folder.checkpoints(cfg.run.resume)
        if not paths and cfg.run.resume == "auto":
            message = folder.similar_run(cfg, loader.sampler)
        if not paths and cfg.model.weights:
            message = str(load_weights(training.model, cfg.model.weights))
    if paths:
        progress, checkpoint, message = load_training(paths, cfg, training, loader)
    else:
        progress, checkpoint = Progress(), None
        message = message or noise_warning(cfg.model.backbone, cfg.train.backbone_lr)
    is_new = checkpoint not in (folder.last, folder.previous)  # or from another run's checkpoint
    if is_new:
        progress.best = None
    if ranks.is_first:
        if is_new:
            folder.clear()
        folder.begin(cfg, ranks)
        if cfg.loader.cost == "fitted":
            folder.write_json(folder.cost, asdict(loader.sampler.cost))
        folder.rewind_metrics(loader.sampler.epoch + 1, loader.step, progress.evaluated)
        begin_page(folder.path)
        if checkpoint == folder.previous:
            folder.previous.replace(folder.last)  # else saving would move the damaged one over it
    ranks.barrier()
    if is_new:
        save_training(folder.last, cfg, training, loader, progress)
    return progress, message, is_new


def train_epochs(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
) -> None:
    """Train and evaluate the remaining epochs.

    Raises:
        Stopped: on a signal, once the run is saved.
    """
    ranks, loader, epochs = training.ranks, data.loader, training.cfg.epochs
    first_epoch = loader.sampler.epoch
    reset_peak_memory(ranks.device)
    saved_at = time.monotonic()

    def save() -> None:
        nonlocal saved_at
        save_training(folder.last, cfg, training, loader, progress)
        saved_at = time.monotonic()

    def is_due(epoch: int, step: int) -> bool:
        return bool(data.validation) and training.cfg.evaluates(epoch, step, loader.steps)

    def evaluate_if_due(epoch: int, step: int) -> None:
        epochs_done = epoch + step / loader.steps if step else epoch
        if is_due(epoch, step) and progress.evaluated < epochs_done:
            validate(cfg, folder, training, data, progress, tracker, epochs_done)
            save()

    for epoch in range(first_epoch, epochs + 1):  # the last round only validates
        loader.set_epoch(epoch)
        evaluate_if_due(epoch, loader.step)
        if epoch == epochs:
            return
        sums: dict[str, float] = {}
        for saved in progress.epoch_sums[ranks.rank :: ranks.world_size]:  # maybe of other ranks
            add(sums, saved)
        carried = open_carried(progress.carried, loader, ranks.device)
        workers_start = epoch == first_epoch and cfg.train.workers > 0
        bar = tqdm(
            desc=f"epoch {epoch + 1}/{epochs}",
            total=loader.steps,
            initial=loader.step,
            leave=False,
            disable=None if ranks.is_first else True,  # None: only on a terminal
        )
        clock = Clock(sums)
        for batches in loader.by_step():
            if workers_start:  # which may take longer on another rank
                ranks.barrier()
                clock.lap("start")
                workers_start = False
            clock.lap("seconds", "waiting")
            save_due = time.monotonic() - saved_at >= 60 * cfg.train.checkpoint_minutes
            step = train_step(
                training, batches, epoch, loader.step - 1, loader.steps, carried, save_due
            )
            add(sums, step.losses)
            bar.set_postfix(loss=f"{step.losses['loss'] * ranks.world_size:.2f}", refresh=False)
            bar.update()
            is_last = loader.step == loader.steps
            if loader.step % cfg.train.log_every == 0:
                losses = losses_of(step.losses, ranks)
                figures = {**losses, "norm": step.norm, "lr": step.rate}
                tracker.log("step", epoch + 1, loader.step, figures)
                if bar.disable and ranks.is_first and not is_last:
                    at = f"epoch {epoch + 1:>3}/{epochs}  step {loader.step}/{loader.steps}"
                    print(f"{at}  loss {losses['loss']:.3f}", flush=True)
            if (step.stopping or step.saving or is_due(epoch, loader.step)) and not is_last:
                progress.epoch_sums = ranks.gather(dict(sums))
                progress.carried = ranks.gather(pack_carried(carried or []))
                save()
            if step.stopping and not is_last:
                raise ranks.stopped(f"{folder.last}: epoch {epoch + 1}, step {loader.step}")
            clock.lap("seconds")
            evaluate_if_due(epoch, loader.step)
            clock.lap()
        bar.close()

        figures = epoch_figures(loader, sums, ranks, cfg.model.padding == "skipped")
        tracker.log("epoch", epoch + 1, loader.steps, figures)
        if ranks.is_first:
            print(epoch_line(epoch + 1, epochs, figures), flush=True)
        progress.epochs.append(figures)
        progress.epoch_sums, progress.carried = [], []
        loader.set_epoch(epoch + 1)  # so that this checkpoint resumes there
        save()
        if ranks.stopping():
            raise ranks.stopped(f"{folder.last}: epoch {epoch + 1} is done")


def evaluate_run(
    cfg: TrainJob, training: Training, split: Split, relations: Path | None = None
) -> dict[str, float]:
    """Evaluate the current weights, or their average, on a split; `relations` as in `evaluate`."""
    return evaluate(
        training.model_to_evaluate(),
        split.source,
        training.ranks,
        batch_slots=2 * cfg.train.batch_slots,  # no activations are kept
        amp=cfg.train.amp,
        workers=cfg.train.workers,
        timeout=cfg.train.timeout,
        yardsticks=split.yardsticks,
        starts=cfg.train.starts,
        seed=cfg.train.seed,
        relations=relations,
    )


def validate(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
    epochs_done: float,
) -> None:
    """Evaluate on the validation videos; save the weights if they are the best so far."""
    assert data.validation
    figures = evaluate_run(cfg, training, data.validation)
    progress.recall, progress.evaluated = figures["with/recall@20"], epochs_done
    epoch, step = data.loader.sampler.epoch, data.loader.step
    if not step:  # the end of the epoch before
        epoch, step = epoch - 1, progress.epochs[-1]["steps"]
    tracker.log("eval", epoch + 1, step, {"after": epochs_done, **figures})
    if progress.best is None or progress.recall > progress.best:
        progress.best = progress.recall
        save_training(folder.best, cfg, training, data.loader, progress)


def finish(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
    recall: dict[str, float],
) -> dict[str, Any]:
    """Write and print the summary with the final recall, and draw the run's page."""
    summary = run_summary(cfg, folder.path, training, data.loader, progress)
    summary |= {"split": data.final.source.split}
    summary |= {key if "/" in key else f"eval_{key}": value for key, value in recall.items()}
    if training.ranks.is_first:
        tracker.log("summary", training.cfg.epochs, 0, summary)
        folder.write_json(folder.summary, summary)
        write_or_warn(folder.path, training.ranks.device, data.final.source)
        tracker.show(drawn_files(folder.path))
        print(summary_text(summary, drawn_files(folder.path)))
    training.ranks.barrier()
    return summary


if __name__ == "__main__":
    jobs.run(main)
