"""The examples of each kind of data, run as programs from another directory."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIGURES = {
    "text": (r"([\d.]+) bits per byte before, ([\d.]+) after", 5.0),
    "transformer": (r"([\d.]+) bits per byte before, ([\d.]+) after", 5.0),
    "events": (r"([\d.]+) of the variance left before, ([\d.]+) after", 0.1),
    "audio": (r"(\d+)% of transcripts before; .* (\d+)% of transcripts after", 70.0),
}
"""Example -> its last line, with the figures before and after, and a bound for the second."""


def run(name: str, folder: Path, *launcher: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launcher, str(ROOT / "examples" / f"{name}.py")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Warning: The given NumPy array is not writable" not in done.stderr
    return done.stdout


def check(name: str, said: str, ranks: int, folder: Path) -> None:
    assert not [*folder.iterdir()]  # nothing is left behind
    assert "bload_exact" in said  # the padding table
    (line,) = re.findall(r"blocks of .* steps x (\d+) rank", said)  # printed once
    assert int(line) == ranks
    pattern, bound = FIGURES[name]
    ((before, after),) = re.findall(pattern, said)
    if name == "audio":  # more is better
        assert float(before) <= 10 < bound <= float(after), said
        ((_, named),) = re.findall(r"(\d+)% of instruments.* (\d+)% of instruments", said)
        assert int(named) >= 80, said
    else:
        assert float(after) < bound < float(before), said


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_an_example_learns(name, tmp_path):
    check(name, run(name, tmp_path), 1, tmp_path)


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize("name", FIGURES)
def test_an_example_learns_on_two_ranks_as_it_is(name, tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    check(name, run(name, tmp_path, *launcher), 2, tmp_path)
