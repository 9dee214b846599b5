"""Train a recurrent scene-graph model on blocks of whole videos.

    torchrun train.py loader=bload                      one process; makes synthetic data if needed
    torchrun --nproc_per_node=2 train.py loader=naive   DDP; or sampling, mix, bload, bload_exact
    torchrun train.py experiment=action_genome dataset.root=/data/ag
    python train.py launch.nproc=2 loader=naive         the same without torchrun
    python train.py -m loader=naive,bload               one after another
    python train.py --help                              what can be set; --help train: its keys

The same command goes on where a run stopped.
"""

from training.stopping import begin

if __name__ == "__main__":
    begin(trains=True)

from training import cli

if __name__ == "__main__":
    CHECKED = cli.check_first("train")  # ends here if this process is not to train

import logging
import time
from dataclasses import asdict, replace
from functools import partial

import torch

from bload import InputError
from datasets.build import build_letterbox
from models import build_criterion
from models.weights import load_weights, noise_warning
from training.build import Training, build_network, build_training
from training.carried import open_carried, pack_carried
from training.checkpoint import Progress, Start, load_training, save_training
from training.compiling import check_compile
from training.config import LaunchConfig, TrainJob
from training.data import Data, open_data
from training.error_file import noted
from training.evaluation import evaluate
from training.exchange import choose_exchange
from training.figures import epoch_figures, losses_of, run_summary
from training.folder import RunFolder, run_name
from training.lock import lock
from training.memory import check_memory, recompute, reset_peak_memory
from training.page.record import RELATIONS, evaluated_after
from training.page.write import begin_page, drawn, write_or_warn
from training.printing import (
    epoch_line,
    epoch_sentence,
    evaluation_sentence,
    opening_text,
    summary_text,
)
from training.ranks import Ranks, start_ranks
from training.runs import write_results
from training.smoke import all_right
from training.step import add, train_epoch
from training.tracking import Tracker


def main(cfg: TrainJob) -> None:
    """Entry point of a rank."""
    start = start_ranks(cfg.train.device, cfg.train.timeout, cfg.train.deterministic)
    with start as ranks:
        train(cfg, ranks)


def train(cfg: TrainJob, ranks: Ranks) -> None:
    """Set up, resume, train the epochs, report."""
    folder = RunFolder(cfg.run.root, cfg.run.name or run_name(cfg, ranks.world_size))
    check_compile(cfg, ranks.device)
    data = open_data(cfg, ranks, folder.cost)
    training = open_training(cfg, ranks, data)

    # Nothing is written before everything above has been accepted.
    if cfg.run.resume == "auto" and folder.summary.exists():
        folder.check_same_config(cfg, data.loader.sampler)
        if ranks.is_first:
            write_results(folder.path.parent)
            print("This run had finished before; run.resume=never trains it again.")
            print(summary_text(folder.read_summary(), drawn(folder.path)))
        return
    saved = folder.saved_at()
    start = go_on(cfg, folder, training, data)
    with lock(folder.path, ranks):
        if any(ranks.gather(folder.saved_at() != saved)):  # before rank 0 goes on and saves
            raise InputError(f"another run has just been in {folder.path}; start this one again")
        log = folder.open(ranks.rank)
        with noted(folder, ranks, log):
            with open_tracker(cfg, folder, training, data, start) as tracker:
                reset_peak_memory(ranks.device)
                with ranks.stop.deferred():
                    train_epochs(cfg, folder, training, data, start.progress, tracker, log)
                report(cfg, folder, training, data, start.progress, tracker)
            ranks.barrier()


def open_training(cfg: TrainJob, ranks: Ranks, data: Data) -> Training:
    """Build the model, on this rank's device, and what trains it."""
    sampler = data.loader.sampler
    letterbox = build_letterbox(data.source, cfg.dataset.augment, cfg.train.seed)
    torch.manual_seed(cfg.train.seed)
    blocks, slots = sampler.blocks_per_batch, sampler.plan.t_max
    check_memory(cfg.model, cfg.dataset.frame_size, blocks * slots, ranks.device)
    model = build_network(cfg, ranks.device)
    model.exchange = choose_exchange(cfg, model, ranks.world_size)
    model.recompute = recompute(cfg, blocks, slots, ranks)
    job = cfg.train.for_slots(data.loader.account.processed)
    return build_training(job, ranks, model, build_criterion(cfg.loss), letterbox)


def go_on(cfg: TrainJob, folder: RunFolder, training: Training, data: Data) -> Start:
    """Load what a checkpoint remembers, or the weights to start with; say from where."""
    paths = folder.checkpoints(cfg.run.resume)
    if paths:
        start = load_training(paths, cfg, training, data.loader, folder)
        if not training.ranks.gather(folder.best.exists())[0]:  # others may see another folder
            start.progress.best = -1.0
        return start
    if cfg.run.resume == "auto":
        folder.check_siblings(cfg, data.loader.sampler)
    if not cfg.model.weights:
        return Start(says=noise_warning(cfg.model.backbone, cfg.train.backbone_lr))
    with training.ranks.first_alone():  # it fetches the file for all
        return Start(says=str(load_weights(training.model, cfg.model.weights)))


def open_tracker(
    cfg: TrainJob, folder: RunFolder, training: Training, data: Data, start: Start
) -> Tracker:
    """Bring the run's folder to where training goes on; from here it always has a checkpoint."""
    ranks, loader = training.ranks, data.loader
    if ranks.is_first:
        opening = opening_text(folder.path, cfg.loader.name, loader.sampler, ranks, start.says)
        print(opening, flush=True)
        if not folder.checkpoints(cfg.run.resume):
            folder.clear()
        started = replace(cfg, launch=LaunchConfig(ranks.world_size))
        folder.write_json(folder.config, asdict(started))
        if cfg.loader.cost == "fitted":
            folder.write_json(folder.cost, asdict(loader.sampler.cost))
        folder.rewind_metrics(loader.sampler.epoch, loader.step, start.progress.evaluated)
        folder.summary.unlink(missing_ok=True)
        folder.error.unlink(missing_ok=True)
        begin_page(folder.path)
        if start.checkpoint == folder.previous:
            folder.previous.replace(folder.last)  # a damaged one would take its place when saving
    if any(ranks.gather(ranks.is_first and not folder.last.exists())):
        save_training(folder.last, cfg, training, loader, start.progress)
    tracker = Tracker(folder, asdict(cfg), cfg.wandb, start, active=ranks.is_first)
    tracker.draw({cfg.loader.name: loader.sampler.plan})
    return tracker


def train_epochs(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
    log: logging.Logger,
) -> None:
    """Train and evaluate what is left of a run.

    Raises:
        Stopped: a signal asked for it; the run is saved.
    """
    ranks, loader, epochs = training.ranks, data.loader, training.cfg.epochs
    save = partial(save_training, cfg=cfg, training=training, loader=loader, progress=progress)
    begins = loader.sampler.epoch
    log.info(f"Training begins after {begins} of {epochs} epochs and {loader.step} steps.")
    for epoch in range(begins, epochs + 1):
        loader.set_epoch(epoch)
        if training.cfg.evaluates(epoch, loader.step, loader.steps):
            evaluate_once(cfg, folder, training, data, progress, tracker, log)
        if epoch == epochs:
            return
        sums = {"seconds": 0.0, "waiting": 0.0}
        for begun in progress.epoch_sums[ranks.rank :: ranks.world_size]:
            add(sums, begun)
        carried = open_carried(progress.carried, loader, ranks.device)
        for step in train_epoch(training, loader, epoch, sums, carried, first=epoch == begins):
            if loader.step % cfg.train.log_every == 0:
                losses = losses_of(step.losses, ranks)
                tracker.log("step", epoch, loader.step, **losses, norm=step.norm, lr=step.rate)
                if step.progress and loader.step < loader.steps:
                    at = f"step {loader.step}/{loader.steps}"
                    print(f"epoch {epoch + 1:>3}/{epochs}  {at}  {step.progress}", flush=True)
            evaluates = training.cfg.evaluates(epoch, loader.step, loader.steps)
            due = step.stopping or evaluates or loader.step % cfg.train.checkpoint_every == 0
            if due and loader.step < loader.steps:
                progress.epoch_sums = ranks.gather(dict(sums))
                progress.carried = ranks.gather(pack_carried(carried or []))
                save(folder.last)
            if step.stopping and loader.step < loader.steps:
                log.info(f"Stopped by a signal, saved at epoch {epoch + 1}, step {loader.step}.")
                raise ranks.stopped(f"{folder.last}: epoch {epoch + 1}, step {loader.step}")
            if evaluates:
                began = time.perf_counter()
                evaluate_once(cfg, folder, training, data, progress, tracker, log)
                sums["seconds"] -= time.perf_counter() - began  # not of training

        figures = epoch_figures(loader, sums, ranks, cfg.model.padding == "skipped")
        tracker.log("epoch", epoch, loader.steps, **figures)
        log.info(epoch_sentence(epoch + 1, epochs, figures, sums))
        if ranks.is_first:
            print(epoch_line(epoch + 1, epochs, figures), flush=True)
        progress.epochs.append(figures)
        progress.epoch_sums, progress.carried = [], []
        loader.set_epoch(epoch + 1)  # where a checkpoint goes on
        save(folder.last)
        if ranks.stopping():
            log.info(f"Stopped by a signal, saved at the end of epoch {epoch + 1}.")
            raise ranks.stopped(f"{folder.last}: epoch {epoch + 1} is done")


def evaluate_once(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
    log: logging.Logger,
) -> None:
    """Evaluate where training is, unless that was done, and save; the best weights apart."""
    loader, epoch, step = data.loader, data.loader.sampler.epoch, data.loader.step
    done = epoch + step / loader.steps if step else epoch
    if progress.evaluated >= done:
        return
    progress.recall = evaluate_now(cfg, folder, training, data, done)
    progress.evaluated = done
    log.info(evaluation_sentence(done, progress.recall))
    at = (epoch, step) if step else (epoch - 1, progress.epochs[-1]["steps"])
    tracker.log("eval", at[0], at[1], after=done, **progress.recall)
    if progress.recall["with/recall@20"] > progress.best:
        progress.best = progress.recall["with/recall@20"]
        save_training(folder.best, cfg, training, loader, progress)
    save_training(folder.last, cfg, training, loader, progress)


def evaluate_now(
    cfg: TrainJob, folder: RunFolder, training: Training, data: Data, done: float
) -> dict[str, float]:
    """Figures of the model, or of the average of its weights, on the test split.

    The recall of every relation is written into the run's folder. `done` epochs are trained.
    """
    return evaluate(
        training.evaluated(),
        data.test_source,
        training.ranks,
        batch_frames=2 * cfg.train.batch_frames,
        amp=cfg.train.amp,
        workers=cfg.train.workers,
        timeout=cfg.train.timeout,
        yardsticks=data.yardsticks,
        starts=cfg.train.starts,
        seed=cfg.train.seed,
        relations=folder.path / RELATIONS,
        name=evaluated_after(done),
    )


def report(
    cfg: TrainJob,
    folder: RunFolder,
    training: Training,
    data: Data,
    progress: Progress,
    tracker: Tracker,
) -> None:
    """Write the summary, add the run to the table of results, draw it, print what it reached."""
    ranks = training.ranks
    summary = run_summary(cfg, folder.path, training, data.loader, progress)
    if ranks.is_first:
        tracker.log("summary", training.cfg.epochs, 0, **summary)
        folder.write_json(folder.summary, summary)
        write_results(folder.path.parent)
        folder.error.unlink(missing_ok=True)
        write_or_warn(folder.path, ranks.device, data.test_source)
        tracker.show(drawn(folder.path).values())
        print(summary_text(summary, drawn(folder.path)))
        print(all_right(summary, drawn(folder.path)), end="")


def command_line(job: TrainJob | None = None) -> None:
    """Run the command line of this process; a script with packers of its own ends with it.

    Args:
        job: of the command line, if that has been checked before.
    """
    cli.run(main, "train", job)


if __name__ == "__main__":
    command_line(CHECKED)
