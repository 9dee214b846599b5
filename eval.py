"""Evaluate checkpoints: Recall@K of scene graphs, with, semi and no constraint.

    python eval.py checkpoint=runs/NAME                  a run's last checkpoint
    python eval.py checkpoint=runs/NAME/best.pt split=train
    python eval.py checkpoint=runs                       a line for each run
    python eval.py checkpoint=runs/NAME relations=R.csv predictions=P.parquet
    python eval.py checkpoint=runs/NAME pictures=4       draw videos, beside it
    python eval.py checkpoint=runs/NAME starts=ignored   states go on
    torchrun --nproc_per_node=2 eval.py checkpoint=runs  the same, on two ranks
    python eval.py --help                                every key, its value

Frames are packed with `bload_exact`; any packing gives the same figures
(docs/evaluation.md).
"""

from typing import Any

import hydra

from training import jobs
from training.config import CONFIGS, EvalJob


@hydra.main(config_path=str(CONFIGS), config_name="eval", version_base="1.3")
@jobs.one_job
def main(cfg: EvalJob) -> dict[str, Any]:
    from training.evaluation import evaluate_all  # here, as --help needs no torch
    from training.ranks import join_ranks

    return evaluate_all(cfg, join_ranks(cfg.device, cfg.timeout))


if __name__ == "__main__":
    jobs.run(main)
