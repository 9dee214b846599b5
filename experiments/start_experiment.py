"""Experiments that train.py starts and that are not trainings (`experiments.kinds`)."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from bload.errors import InputError
from experiments.config import without
from experiments.kinds import run_experiment
from experiments.provenance import now, surroundings


def start_experiment(config: dict[str, Any]) -> None:
    """Run the experiment of a config; exit with status 1 if it did not end as it should."""
    options = config["experiment"]
    name = options["name"]
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 or config["launch"]["nproc"] > 1:
        raise InputError(
            f"experiment {name} starts what it needs itself; type python train.py experiment={name}"
        )
    record = {
        "name": name,
        "command": shlex.join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        **surroundings(),
        "started": now(),
    }
    folder = Path(config["run"]["root"])
    try:
        well = run_experiment(options["kind"], folder, record, **without(options, "name", "kind"))
    except KeyboardInterrupt:
        print("\nstopped; nothing was written and nothing is left running", file=sys.stderr)
        sys.exit(130)
    if not well:
        sys.exit(1)
