"""Experiments that measure something themselves: their command line, and their record.

``FOLDER/NAME.json`` holds the rows that were measured, the command, the machine, the versions, the
commit and the times of start and end. A flag that is given is part of NAME, as
in ``balance_measured``.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bload.errors import InputError
from datasets.write_whole import write_whole
from training.provenance import surroundings


def measure(
    name: str,
    about: str,
    run: Callable[..., dict[str, Any]],
    full: dict[str, Any],
    quick: dict[str, Any],
    texts: dict[str, str],
) -> None:
    """Parse the command line, run an experiment and write its record.

    Exits with status 1 if the experiment did not end as it should, 2 for bad options, 130 for
    Ctrl-C.

    Args:
        name: of the module in ``experiments``; `about` is its docstring.
        run: prints its table and returns what the record holds besides the options; "as_expected"
            decides the status. There is an option for each of its arguments.
        full, quick, texts: defaults of the options, those that ``--quick`` changes, and the help.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}",
        description=about.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for key, value in full.items():
        if value is False:
            parser.add_argument(f"--{key}", action="store_true", help=texts[key])
            continue
        several = isinstance(value, list)
        parser.add_argument(
            f"--{key.replace('_', '-')}",
            type=type(value[0] if several else value),
            nargs="*" if several else None,
            default=value,
            help=texts[key],
        )
    parser.add_argument("--quick", action="store_true", help=f"a short form: {quick}")
    parser.add_argument("--out", type=Path, help="folder to write to; None: runs/NAME")
    if parser.parse_args().quick:
        parser.set_defaults(**quick)
    options = vars(parser.parse_args())
    stem = "_".join([name, *(key for key in full if full[key] is False and options[key])])
    title = f"{stem}_quick" if options.pop("quick") else stem
    folder = options.pop("out") or Path("runs", title)
    record = begin_record(name, title)
    try:
        record |= options | run(**options)
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\nstopped; nothing was written and nothing is left running\n")
    end_record(folder / f"{stem}.json", record)
    if not record.get("as_expected", True):
        sys.exit(1)


def now() -> str:
    """The time as records have it: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def begin_record(module: str, name: str) -> dict[str, Any]:
    """Return what is known before anything is measured."""
    return {
        "name": name,
        "command": shlex.join(["python", "-m", f"experiments.{module}", *sys.argv[1:]]),
        **surroundings(),
        "started": now(),
    }


def end_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record with the time of its end, and print where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({**record, "ended": now()}, indent=2) + "\n")
    print(f"\nWritten to {path}")
