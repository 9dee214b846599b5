"""Figures of packing, training steps, evaluation and reading on a CPU, measured in one run.

    python -m experiments.benchmark                       # two idle cores, under 30 minutes
    python -m experiments.benchmark --quick               # a short form of every part
    python -m experiments.benchmark --only packing hard   # some of the parts
    python -m experiments.benchmark --tables FILE --into PAGE.md

The parts run one after another, each in a process of its own, on one thread but for the first run,
which is as it is typed. The record is written after every part; with ``--only`` it keeps the parts
that it has. A part that fails is noted in it, the others go on, and the exit status is 1. With
``--tables`` nothing is measured: the tables of a record replace those between the marks in a page.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

from bload.errors import InputError
from datasets.write_whole import write_whole
from experiments.benchmarks.evaluation_speed import EVALUATION
from experiments.benchmarks.installed import INSTALLED
from experiments.benchmarks.packing import HARD, USUAL
from experiments.benchmarks.part import Part, Rows
from experiments.benchmarks.small_sets import SMALL
from experiments.benchmarks.step_profile import PROFILE
from experiments.benchmarks.training_step import BLOCKS, WALK
from experiments.benchmarks.waiting import READING, WAITING
from experiments.measured import begin_record, end_record

PARTS: dict[str, Part] = {
    "packing": USUAL,
    "hard": HARD,
    "small": SMALL,
    "installed": INSTALLED,
    "walk": WALK,
    "blocks": BLOCKS,
    "profile": PROFILE,
    "evaluation": EVALUATION,
    "reading": READING,
    "waiting": WAITING,
}


def run(names: list[str], quick: bool, path: Path) -> bool:
    """Measure the parts, print their tables, and write the record; False if one failed."""
    parts = _parts_of(path) if len(names) < len(PARTS) else {}
    record: dict[str, Any] = begin_record("benchmark", "benchmark") | {"parts": parts}
    for name in names:
        began = time.perf_counter()
        outcome = _apart(name, quick)
        seconds = round(time.perf_counter() - began, 1)
        outcome |= {"seconds": seconds, "quick": quick, "git": record["git"]}
        record["parts"][name] = outcome
        shown = PARTS[name].table(outcome["rows"]) if "rows" in outcome else outcome["error"]
        print(f"\n{name}, {outcome['seconds']:.0f} s\n{shown}", flush=True)
        end_record(path, record)
    print(f"\n{_about(record)}")
    return all("rows" in record["parts"][name] for name in names)


def _parts_of(path: Path) -> dict[str, Any]:
    """The parts of the record at `path`, to which others are added; none without one."""
    parts: dict[str, Any] = json.loads(path.read_text())["parts"] if path.exists() else {}
    return parts


def _apart(name: str, quick: bool) -> dict[str, Any]:
    """The rows of a part, or the error that ended it, from a process of its own."""
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(name, quick, theirs))
    process.start()
    theirs.close()
    try:
        outcome: dict[str, Any] = mine.recv()
    except EOFError:
        process.join()
        outcome = {"error": f"the process of part {name} ended with status {process.exitcode}"}
    process.join()
    return outcome


def _measure(name: str, quick: bool, pipe: Any) -> None:
    multiprocessing.set_start_method(None, force=True)  # else this process's start method is theirs
    try:
        pipe.send({"rows": PARTS[name].measure(quick)})
    except Exception as error:  # whatever ends a part is told, and the others go on
        pipe.send({"error": f"{type(error).__name__}: {error}"})


def fill_page(page: str, record: dict[str, Any]) -> str:
    """The page with the record's tables between ``<!-- table NAME -->`` and ``<!-- end -->``.

    Raises:
        InputError: the page has no such marks for a part of the record, or the part failed.
    """
    tables = {name: _table(name, outcome) for name, outcome in record["parts"].items()}
    tables["about"] = _about(record)
    for name, table in tables.items():
        before, mark, rest = page.partition(f"<!-- table {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise InputError(f"the page has no '<!-- table {name} -->' with an '<!-- end -->'")
        page = f"{before}{mark}\n{table}\n\n{end}{after}"
    return page


def _about(record: dict[str, Any]) -> str:
    """Machine, versions and commits that a record was made with."""
    machine, versions = record["machine"], record["versions"]
    commits = {part["git"] or "unknown" for part in record["parts"].values()}
    named = sorted(commit[:7] + "-dirty" * commit.endswith("-dirty") for commit in commits)
    return (
        f"{machine['cores']} cores of {machine['cpu']}, one thread, Python {versions['python']}, "
        f"PyTorch {versions['torch']}, numpy {versions['numpy']}, commit {', '.join(named)}, "
        f"{record['started'][:10]}."
    )


def _table(name: str, outcome: dict[str, Any]) -> str:
    if "rows" not in outcome:
        raise InputError(f"part {name} of the record failed: {outcome['error']}; measure it again")
    if outcome["quick"]:
        raise InputError(
            f"part {name} of the record is of the short form; measure it without --quick"
        )
    rows: Rows = outcome["rows"]
    return PARTS[name].table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmark", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="a short form of every part")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--out", type=Path, help="the record; None: runs/benchmark/benchmark.json")
    parser.add_argument("--tables", type=Path, help="a record, whose tables go into a page")
    parser.add_argument("--into", type=Path, default=Path("docs/performance.md"))
    arguments = parser.parse_args()
    if not arguments.tables:
        folder = "benchmark_quick" if arguments.quick else "benchmark"
        path = arguments.out or Path("runs", folder, "benchmark.json")
        if path.is_dir():
            parser.error(
                f"--out {path} is a folder; give a file, such as {path / 'benchmark.json'}"
            )
        sys.exit(0 if run(arguments.only, arguments.quick, path) else 1)
    try:
        record = json.loads(arguments.tables.read_text())
        write_whole(arguments.into, fill_page(arguments.into.read_text(), record))
    except (InputError, OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")


if __name__ == "__main__":
    main()
