"""The examples of each kind of data, run as programs from another directory."""

import re
import sys
from pathlib import Path

import pytest

from tests.installation import ROOT, run, torchrun

FIGURES = {
    "text": (r"([\d.]+) bits per byte before, ([\d.]+) after", 5.0),
    "transformer": (r"([\d.]+) bits per byte before, ([\d.]+) after", 5.0),
    "events": (r"([\d.]+) of the variance left before, ([\d.]+) after", 0.1),
    "audio": (r"(\d+)% of transcripts before; .* (\d+)% of transcripts after", 70.0),
}
"""Example -> its last line, with the figures before and after, and a bound for the second."""


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
@pytest.mark.dist
@pytest.mark.parametrize(
    ("name", "ranks"), [("text", 2), ("transformer", 1), ("events", 1), ("audio", 2)]
)
def test_an_example_learns_on_one_rank_or_two_as_it_is(name, ranks, tmp_path):
    launcher = torchrun(ranks) if ranks > 1 else []
    command = [sys.executable, *launcher, ROOT / "examples" / f"{name}.py"]
    check(name, run(command, cwd=tmp_path, more={"PYTHONPATH": str(ROOT)}), ranks, tmp_path)
