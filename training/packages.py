"""The packages of requirements.txt, asked for with Python's own modules alone."""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"


def missing_packages() -> list[str]:
    """Return the names in requirements.txt that are not installed."""
    names = re.findall(r"^\w[\w-]*", REQUIREMENTS.read_text(), re.MULTILINE)
    return [name for name in names if not _is_installed(name)]


def refuse_missing() -> None:
    """End this process with a sentence if a package is missing, before anything imports it."""
    if missing := missing_packages():
        print(f"to do    packages: {', '.join(missing)} not installed")
        print("\nnext: pip install -r requirements.txt")
        sys.exit(1)


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
