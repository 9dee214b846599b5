"""Provenance of results: machine, versions, commit."""

import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

import bload

REPOSITORY = Path(__file__).parents[1]


@cache
def environment() -> dict[str, Any]:
    """Return the machine, versions and the commit of this checkout, as of the first call."""
    info = Path("/proc/cpuinfo")
    cpus = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return {
        "machine": {
            "cpu": cpus[0] if cpus else platform.machine(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
            "system": platform.platform(),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "numpy": np.__version__,
            "bload": bload.__version__,
        },
        "git": _commit(),
    }


def _commit() -> str | None:
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        result = subprocess.run(describe, cwd=REPOSITORY, capture_output=True, text=True)
    except OSError:  # no git
        return None
    return result.stdout.strip() or None
