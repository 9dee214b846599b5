"""Experiments that are not trainings of the scene-graph model: numpy and torch suffice.

Each kind is a module with ``run(folder, record, **options) -> bool``: it prints a table, writes
``folder/KIND.json`` and says whether everything ended as it should.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from bload.errors import InputError

KINDS = ("deadlock", "length_variance")


def run_experiment(kind: str, folder: Path, record: dict[str, Any], **options) -> bool:
    """Run one experiment.

    Args:
        kind: one of `KINDS`.
        folder: where ``KIND.json`` is written; made if needed.
        record: what is written besides the rows: the command, the machine.
        options: those of its ``run``.

    Raises:
        InputError: there is no such kind, or an option is out of range.
    """
    if kind not in KINDS:
        raise InputError(f"experiment.kind is {kind!r}; choose train or one of {', '.join(KINDS)}")
    return import_module(f"experiments.{kind}").run(folder, record, **options)
