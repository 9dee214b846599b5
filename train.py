"""Train a recurrent scene-graph model on blocks of whole videos.

    python train.py loader=bload                          one process
    torchrun --nproc_per_node=2 train.py loader=naive     two ranks
    python train.py -m loader=naive,bload train.seed=0,1  four runs in turn
    python train.py experiment=paper_table                a sweep of runs
    python train.py experiment=paper_table size=quick     its short form

Run the same command again to resume a run that stopped.
"""

from typing import TYPE_CHECKING, Any

import hydra

from training import jobs
from training.config import CONFIGS, TrainJob

if TYPE_CHECKING:
    from training.ranks import Ranks


@hydra.main(config_path=str(CONFIGS), config_name="train", version_base="1.3")
@jobs.one_job
def main(cfg: TrainJob) -> dict[str, Any]:
    return train(cfg)


def train(cfg: TrainJob, ranks: "Ranks | None" = None) -> dict[str, Any]:
    """Start or resume a run, on ranks that are joined already if given; return its summary."""
    from training.ranks import join_ranks  # here, as --help needs no torch
    from training.run import find_run, open_run

    ranks = ranks or join_ranks(cfg.train.device, cfg.train.timeout, cfg.train.deterministic)
    folder, summary = find_run(cfg, ranks)
    if summary is not None:
        return summary
    with open_run(cfg, ranks, folder) as run:
        run.validate_if_due()  # if it stopped before its evaluation
        for epoch in range(run.epoch, run.epochs):
            run.begin_epoch(epoch)
            for batches in run.batches_by_step():
                run.take_step(batches)
                run.save_or_stop()  # raises Stopped on a signal, once the run is saved
                run.validate_if_due()
            run.end_epoch()
        return run.finish()


if __name__ == "__main__":
    jobs.run(main)
