"""``experiment.json``: what an experiment's runs were made with, so that others can repeat them."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

REPOSITORY = Path(__file__).parents[1]


def now() -> str:
    """The time as records have it: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record into the one that is there.

        {"name", "jobs": [{"run", "overrides"}],
         "sweeps": [{"command", "machine", "versions", "git", "threads", "started", "ended", "runs"}]}

    A sweep is one command; `runs` names those that it trained, not those that it found finished,
    and `ended` is null until it ends.

    Jobs and sweeps that only the earlier record has are kept, and a sweep is written over that of
    the same command and start. Sweeps that ended and trained nothing are left out, unless there is
    no other. An earlier record that cannot be read is moved aside, with a sentence on stderr.
    """
    earlier = _earlier(path)
    jobs = {job["run"]: job for job in (*earlier["jobs"], *record["jobs"])}
    sweeps = {
        (str(sweep.get("started")), str(sweep.get("command"))): sweep
        for sweep in (*earlier["sweeps"], *record["sweeps"])
    }
    all_sweeps = list(sweeps.values())
    kept = [sweep for sweep in all_sweeps if not sweep.get("ended") or sweep.get("runs") != []]
    whole = {
        "name": record["name"],
        "jobs": list(jobs.values()),
        "sweeps": kept or all_sweeps[-1:],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(whole, indent=2) + "\n")
    os.replace(part, path)


def _earlier(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Jobs and sweeps of the record at `path`; none of one that is not there or is damaged."""
    if not path.exists():
        return {"jobs": [], "sweeps": []}
    try:
        record = json.loads(path.read_text())
        if not isinstance(record, dict):
            raise ValueError("it is no object")
        found = {"jobs": record.get("jobs", []), "sweeps": record.get("sweeps", [])}
        for of in found.values():
            if not isinstance(of, list) or not all(isinstance(one, dict) for one in of):
                raise ValueError("jobs and sweeps are not lists of objects")
        if not all(isinstance(job.get("run"), str) for job in found["jobs"]):
            raise ValueError("a job does not name its run")
    except (OSError, ValueError, RecursionError) as error:
        aside = path.with_name(f"{path.name}.damaged")
        os.replace(path, aside)
        print(
            f"warning: {path} cannot be read ({error}); it is kept as "
            f"{aside.name} and a new one is begun",
            file=sys.stderr,
        )
        return {"jobs": [], "sweeps": []}
    return found


def surroundings() -> dict[str, Any]:
    """The machine, the versions of what computes, and the commit of this checkout if it is one."""
    pages = os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
            "memory_gib": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            "system": platform.platform(),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "numpy": np.__version__,
            "bload": _bload(),
        },
        "git": _commit(),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _bload() -> str:
    project = REPOSITORY / "pyproject.toml"
    if project.exists():
        return tomllib.loads(project.read_text())["project"]["version"]
    return importlib.metadata.version("bload")


def _commit() -> str | None:
    git = ["git", "-C", str(REPOSITORY)]
    try:
        commit = subprocess.check_output([*git, "rev-parse", "HEAD"], stderr=subprocess.DEVNULL)
        changes = subprocess.check_output([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.decode().strip() + ("-dirty" if changes else "")
