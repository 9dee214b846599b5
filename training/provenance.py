"""``experiment.json``: what an experiment's runs were made with, so that others can repeat them.

    {"name", "jobs": [{"run", "overrides"}],
     "sweeps": [{"command", "machine", "versions", "git", "threads", "started", "ended", "runs"}]}

A sweep is one command; `runs` names those that it trained, not those that it found finished, and
`ended` is null until it ends.
"""

import json
import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import bload
from datasets.frames.one_writer import one_writer
from datasets.write_whole import write_whole
from training.runs import PATIENCE, read_record

REPOSITORY = Path(__file__).parents[1]


def now() -> str:
    """The time as records have it: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record into the one that is there.

    Jobs and sweeps that only the earlier record has are kept, and a sweep is written over that of
    the same command and start. Raises `InputError` if the earlier record cannot be read, or another
    process does not end writing it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_writer(path, lock=path.with_suffix(".lock"), seconds=PATIENCE):
        earlier = read_record(path)
        jobs = {job["run"]: job for job in (*earlier["jobs"], *record["jobs"])}
        both = (*earlier["sweeps"], *record["sweeps"])
        sweeps = [*{(sweep["started"], sweep["command"]): sweep for sweep in both}.values()]
        whole = {"name": record["name"], "jobs": list(jobs.values()), "sweeps": sweeps}
        write_whole(path, json.dumps(whole, indent=2) + "\n")


def surroundings() -> dict[str, Any]:
    """The machine, the versions of what computes, and the commit of this checkout if it is one.

    torch is imported only where it may have a GPU to name, since that takes seconds.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "gpu": _gpu(),
            "memory_gib": round(memory / 2**30, 1),
            "system": platform.platform(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("torch", "torchvision")},
            "numpy": np.__version__,
            "bload": bload.__version__,
        },
        "git": _commit(),
    }


def _version(package: str) -> str | None:
    """The version of torch or torchvision with the build, as ``2.9.0+cpu``, not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text()
    found = re.search(r"^__version__ = ['\"](.+)['\"]", text, re.M)
    return found and found[1]


def _gpu() -> str | None:
    if not shutil.which("nvidia-smi"):
        return None
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str | None:
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        made = subprocess.run(describe, cwd=REPOSITORY, capture_output=True, text=True)
    except OSError:  # no git
        return None
    return made.stdout.strip() or None
