"""Where this runs. Read by other Pythons too, so nothing here needs a new one."""

import os
import sys
from importlib.util import find_spec

LEAST, MOST = (3, 11), (3, 13)


def refusal(version: tuple, platform: str) -> str:
    """Return why nothing here runs, in one sentence; an empty text if it does.

    Args:
        version: of Python, as `sys.version_info`.
        platform: as `sys.platform`.
    """
    if not LEAST <= tuple(version[:2]) <= MOST:
        return (
            f"this is Python {version[0]}.{version[1]}, and 3.11 to 3.13 are supported (Hydra 1.3, "
            "which reads the configs, does not start on 3.14); make the environment with one of "
            "them, as in python3.13 -m venv .venv"
        )
    if platform in ("win32", "cygwin"):
        return (
            "data, training and evaluation need Linux or macOS (signals, locks and limits of a "
            "process that Windows does not have); use WSL 2, which is Linux, or the Dockerfile; "
            "the library alone, bload, has none of these"
        )
    return ""


def not_installed(packages: tuple) -> str:
    """Return which of the packages this Python lacks, in one sentence; an empty text if none."""
    lacking = [name for name in packages if find_spec(name) is None]
    if not lacking:
        return ""
    return (
        f"{' and '.join(lacking)} cannot be imported by {sys.executable}; activate the environment "
        "(source .venv/bin/activate) or make it: pip install -r requirements.txt"
    )


def check() -> None:
    """End this process with a sentence, on rank 0, where nothing here runs."""
    said = refusal(sys.version_info, sys.platform) or not_installed(("numpy",))
    if said:
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"error: {said}\n")
        sys.exit(2)
