"""Before hours of work on Action Genome: what is missing, what it takes, and what to type next.

python -m experiments.doctor dataset.root=ROOT    and what train.py experiment=action_genome takes

Extracts some videos for a minute and trains a few steps on the device that is here; both are thrown
away. Exit status 0: the command after "next" can run; 1: something is missing first.
"""

from training.packages import refuse_missing

if __name__ == "__main__":
    refuse_missing()

import argparse
import shlex
import sys
from collections.abc import Sequence

from training.cli import check_overrides, errors_in_one_line

from training.config import register


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m experiments.doctor", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("overrides", nargs="*", help="as for train.py")
    parser.add_argument("--seconds", type=float, default=60, help="of extraction; default 60")
    args = parser.parse_intermixed_args(arguments)
    given = args.overrides
    if not any(one.startswith("experiment=") for one in given):
        given = ["experiment=action_genome", *given]
    register()
    with errors_in_one_line():
        cfg = check_overrides("train", given)
        import torch  # slow: only once the command line is known to be right

        from experiments.checkup import TO_PREPARE, TO_TRAIN, look
        from experiments.site import Site
        from training.ranks import start_ranks

        with start_ranks(cfg.train.device) as ranks:
            site = Site(cfg, ranks, args.seconds)
            look(site)
    extracted = not {"annotations", "videos"} & {*site.failed} and not site.missing
    todo = [one for one in site.failed if one in TO_TRAIN or not extracted]
    if {*todo} & {*(TO_TRAIN if extracted else TO_PREPARE)}:
        print(f"\nnext: what is to do above ({', '.join(todo)}), then this command again")
        return 1
    if todo:
        print(f"\nto do before training: {', '.join(todo)}")
    several = f"--nproc_per_node={n} " if (n := torch.cuda.device_count()) > 1 else ""
    train = f"torchrun {several}train.py {shlex.join(given)}"
    print(f"\nnext: {train if extracted else f'python -m datasets.prepare --root {site.root}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
