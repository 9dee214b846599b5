"""A run: what it trains, on what, where it writes, and how far it is.

`find_run` finds its folder, `open_run` opens it, new or resumed; train.py takes its steps.
"""

import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bload import Batch, BlockLoader, InputError
from datasets.scoring.recall import RecallMeter
from datasets.scoring.tables import relation_rows, write_relations
from datasets.source import VideoSource
from training.build import Training, open_training
from training.checkpoint import Progress, open_checkpoint, restore, save_checkpoint
from training.config import TrainJob, naming_keys
from training.data import Data, open_data
from training.evaluation import evaluate
from training.figures import EpochSums, epoch_figures, run_summary, sum_losses
from training.folder import RunFolder, read_json, run_name
from training.printing import opening_text, summary_text
from training.ranks import Ranks, reset_peak_memory
from training.report.album import Album
from training.step import RowStates, StepPosition, open_row_states, pack_row_states, train_step
from training.stopping import AgreedError, Stopped
from training.tracking import Tracker


@dataclass
class Run:
    """One run on this rank."""

    ranks: Ranks
    folder: RunFolder
    data: Data
    training: Training
    progress: Progress
    tracker: Tracker
    row_states: RowStates = ()
    """States of the network after the step before, see `training.step`."""
    sums: EpochSums = field(default_factory=EpochSums)
    saved_at: float = field(default_factory=lambda: time.monotonic())

    @property
    def loader(self) -> BlockLoader:
        return self.data.loader

    @property
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self.loader.epoch

    @property
    def epochs(self) -> int:
        return self.training.cfg.train.epochs

    @property
    def is_validation_due(self) -> bool:
        """Return True if the validation videos are due at this step, or after the epoch before."""
        loader, every = self.loader, self.training.cfg.train.eval_every
        done, before = StepPosition.after(loader).epochs_done, self.progress.evaluated_at
        if not self.data.validation or done <= before or loader.step == loader.steps:
            return False
        is_due = bool(every) and (done + 1e-9) // every > (before + 1e-9) // every
        return self.epoch == self.epochs or is_due

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch, or go on with the one that a checkpoint was in."""
        self.loader.set_epoch(epoch)
        self.sums = EpochSums.from_ranks(self.progress.epoch_sums, self.ranks)
        self.row_states = open_row_states(self.progress.row_states, self.loader, self.ranks.device)

    def batches_by_step(self) -> Iterator[list[Batch]]:
        """Yield the batches of each remaining step; add the time of each to the sums."""
        loader, title = self.loader, f"epoch {self.epoch + 1}/{self.epochs}"
        self.sums.drop_lap()
        for batches in self.ranks.show_progress(loader.by_step(), title, loader.steps, loader.step):
            self.sums.lap("seconds", "waiting")
            yield batches
            self.sums.lap("seconds")

    def take_step(self, batches: list[Batch]) -> None:
        """Take a step, and add its figures up; write them down every ``train.log_every`` steps."""
        step, position = self.loader.step, StepPosition.after(self.loader)
        figures, states = train_step(self.training, batches, position, self.row_states)
        self.row_states = states if self.loader.sampler.plan.carries else ()
        self.sums.losses.update(figures.losses)
        if step % self.training.cfg.train.log_every == 0:
            losses = sum_losses(figures.losses, self.ranks)
            row = {**losses, "grad_norm": figures.grad_norm, "lr": figures.lr}
            self.tracker.log("step", self.epoch + 1, step, row)
            steps, epochs = self.loader.account.steps, self.epochs - self.epoch
            left = self.sums.seconds["seconds"] / max(step - 1, 1) * (epochs * steps - step)
            line = f"epoch {self.epoch + 1:>3}/{self.epochs}  step {step}/{steps}"
            time_left = timedelta(seconds=round(left))
            self.ranks.print(f"{line}  loss {losses['loss']:.3f}  {time_left} left")

    def save_or_stop(self) -> None:
        """Save if due between two steps, before an evaluation, and after an epoch; on all ranks.

        Raises:
            Stopped: a rank was asked to stop; the run is saved.
        """
        step = self.loader.step
        if step == self.loader.steps:  # `end_epoch` comes next
            return
        minutes = (time.monotonic() - self.saved_at) / 60
        is_due = not step or minutes >= self.training.cfg.train.checkpoint_minutes
        save, signal_number = self.ranks.largest(is_due, self.ranks.stop.signal_number)
        if save or signal_number or self.is_validation_due:
            if step:  # else the epoch before has its time already
                self.sums.lap("seconds")
            self.progress.epoch_sums = self.ranks.gather(self.sums.state())
            self.progress.row_states = self.ranks.gather(pack_row_states(self.row_states))
            self.save()
            self.sums.drop_lap()
        if signal_number:
            where = f"{self.folder.last}: epoch {self.epoch + 1}, step {step}"
            if self.training.cfg.run.resume == "never":
                where += " (with run.resume=auto)"
            raise Stopped(signal_number, f"the same command goes on from {where}")

    def save(self, path: Path | None = None) -> None:
        """Write a checkpoint, by default the run's latest; all ranks call this."""
        save_checkpoint(path or self.folder.last, self.training, self.progress)
        self.saved_at = time.monotonic()

    def validate_if_due(self) -> None:
        """Evaluate on the validation videos; save, and save the weights if they are the best."""
        if not self.is_validation_due:
            return
        assert self.data.validation
        progress, epoch, step = self.progress, self.epoch, self.loader.step
        if not step:  # the end of the epoch before
            epoch, step = epoch - 1, progress.history[-1]["steps"]
        self.sums.lap("seconds")
        figures, _ = self.evaluate(self.data.validation)
        progress.recall = figures["with/recall@20"]
        progress.evaluated_at = StepPosition.after(self.loader).epochs_done
        self.tracker.log("eval", epoch + 1, step, {"after": progress.evaluated_at} | figures)
        where = f"epoch {epoch + 1:>3}/{self.epochs}  step {step}"
        self.ranks.print(f"{where}  validation Recall@20 {100 * progress.recall:.2f} %")
        if progress.best is None or progress.recall > progress.best:
            progress.best = progress.recall
            self.save(self.folder.best)
        self.save()
        self.sums.drop_lap()

    def evaluate(self, source: VideoSource, **options: Any) -> tuple[dict[str, float], RecallMeter]:
        """Evaluate the current weights, or their average, as `training.evaluation.evaluate`."""
        train, average = self.training.cfg.train, self.training.average
        with self.training.mean_over_ranks():
            return evaluate(
                average.module if average else self.training.model,
                source,
                self.ranks,
                batch_slots=2 * train.batch_slots,  # no activations are kept
                process=train,
                ablation=replace(self.training.ablation, padding="masked"),
                **options,
            )

    def end_epoch(self) -> None:
        """Write the epoch's figures down, save or stop, and evaluate if it is due."""
        skips_padding = self.training.cfg.model.skip_padding
        figures = epoch_figures(self.loader, self.sums, self.ranks, skips_padding)
        self.tracker.log("epoch", self.epoch + 1, self.loader.account.steps, figures)
        self.ranks.print(
            f"epoch {self.epoch + 1:>3}/{self.epochs}  loss {figures['loss']:.3f}  "
            f"{figures['seconds']:.1f} s  {figures['frames_per_second']:,.0f} frames/s  "
            f"padding {figures['padding']:,}  filler {figures['filler']:,}  "
            f"deleted {figures['deleted']:,}"
        )
        self.progress.history.append(figures)
        self.loader.set_epoch(self.epoch + 1)  # where a checkpoint resumes
        self.sums, self.row_states = EpochSums(), ()
        self.save_or_stop()
        self.validate_if_due()

    def finish(self) -> dict[str, Any]:
        """Evaluate, write and print the summary, and draw the run's page."""
        from training.report import page  # with matplotlib and pandas

        source = self.data.final
        self.ranks.print(f"evaluating {len(source.lengths):,} videos of split {source.split}")
        album = Album(source, 1)
        recall, meter = self.evaluate(source, sinks=[album.keep])
        summary = run_summary(self.folder.path, self.training, self.progress)
        summary |= {"split": source.split}
        summary |= {key if "/" in key else f"eval_{key}": value for key, value in recall.items()}
        if self.ranks.is_first:
            write_relations(self.folder.relations, relation_rows(meter, self.folder.last.name))
            self.tracker.log("summary", self.epochs, 0, summary)
            self.folder.write_json(self.folder.summary, summary)
        page.write_or_warn(self.folder, self.ranks, album)
        self.tracker.show(self.folder.picture)
        self.ranks.print(summary_text(summary))
        if signal_number := self.ranks.largest(self.ranks.stop.signal_number)[0]:
            raise Stopped(signal_number, f"the run is done: {self.folder.path}")
        return summary


def find_run(cfg: TrainJob, ranks: Ranks) -> tuple[RunFolder, dict[str, Any] | None]:
    """Return the folder of a run, and its summary if nothing is left to do.

    Raises:
        InputError: something else was trained in the folder.
    """
    name = Path(cfg.run.name or run_name(cfg, ranks.world_size))
    folder = RunFolder(Path(cfg.run.root) / name)
    with ranks.agree_on_errors():
        if not name.parts or {"..", "/"} & {*name.parts}:
            raise InputError(f"run.name is {cfg.run.name}, a folder outside of run.root")
        folder.check_same_config(cfg, ranks.world_size)
        is_done = cfg.run.resume != "never" and folder.summary.exists()
        summary = read_json(folder.summary) if is_done else {}
    if not any(ranks.gather(bool(summary))):
        return folder, None
    figures = "ranks: {ranks}, Recall@20: {with/recall@20:.2%}".format(**summary) if summary else ""
    summary["folder"] = str(folder.path)  # it may have been moved
    ranks.print(f"{folder.path} had finished before ({figures}); run.resume=never trains it again.")
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
            with closing(run.tracker):
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
        folder.check_same_config(cfg, ranks.world_size)  # another process had the lock before
        path, saved, remarks = open_checkpoint(folder.checkpoints(cfg.run.resume))
    if len({*ranks.gather(path is None)}) > 1:
        raise AgreedError(
            f"only some ranks find a checkpoint in {folder.path}; let all machines share run.root"
        )
    training = open_training(cfg, ranks, data, saved)
    if path is None:
        progress = Progress()
        if cfg.model.weights:
            from models.weights import load_weights

            with ranks.agree_on_errors():
                remarks.append(load_weights(training.model, cfg.model.weights))
        elif cfg.model.backbone != "conv":  # frozen norms, and rates that only fine-tune
            remarks.append(
                f"warning: {cfg.model.backbone} starts from noise (model.weights is null): expect "
                "it to learn little; give model.weights=detr, resnet50 or resnet18"
            )
    else:
        with naming_keys(cfg):
            progress, remark = restore(saved, path, training)
        remarks.append(remark)
    if ranks.is_first:
        if path is None:
            folder.clear()
        folder.begin(cfg, ranks)
        folder.rewind_metrics(loader.epoch + 1, loader.step, progress.evaluated_at)
        if path == folder.previous:
            folder.previous.replace(folder.last)  # else saving would move the damaged one over it
    ranks.barrier()
    tracker = Tracker(folder, cfg, progress, is_new=path is None, active=ranks.is_first)
    run = Run(ranks, folder, data, training, progress, tracker)
    if path is None:
        run.save()
    return run, remarks
