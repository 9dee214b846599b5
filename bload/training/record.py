"""``experiment.json``: what an experiment's runs were made with, so that others can repeat them."""

import importlib.metadata
import json
import os
import platform
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

REPOSITORY = Path(__file__).parents[2]


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record over an earlier one; runs that only the earlier one lists are kept."""
    earlier = json.loads(path.read_text()) if path.exists() else {}
    jobs = {job["run"]: job for job in (*earlier.get("jobs", ()), *record["jobs"])}
    started = min(earlier.get("started", record["started"]), record["started"])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    whole = {**record, "jobs": list(jobs.values()), "started": started}
    part.write_text(json.dumps(whole, indent=2) + "\n")
    os.replace(part, path)


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
