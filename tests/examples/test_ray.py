"""Ray Train in an environment of its own: one of two nodes goes for good, and the rest go on."""

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest

from bload import BlockSampler
from tests.installation import ROOT, Environment

FOLDER = ROOT / "examples/trainers"
EPOCHS, STOP = 8, 11


@pytest.mark.slow
@pytest.mark.dist
def test_without_one_of_two_nodes_every_sequence_is_trained_once(wheel, tmp_path):
    requirements = "-r", FOLDER / "requirements-ray.txt"
    environment = Environment(tmp_path / "environment", wheel, *requirements)
    program = Path(__file__).with_name("in_ray.py")
    soon = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20"}  # the default is 60 s
    soon |= {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}  # 2 s, which each checkpoint would wait
    arguments = FOLDER / "with_ray.py", tmp_path, str(STOP)
    environment.run(program, *arguments, cwd=tmp_path, more=soon)
    one_rank, two_ranks = (
        [
            [json.loads(line) for line in path.read_text().splitlines()]
            for path in tmp_path.glob(f"{ranks}-*.jsonl")
        ]
        for ranks in (1, 2)
    )
    assert (len(one_rank), len(two_ranks)) == (1, 2)
    [((epoch, step), *after)], before = one_rank, list(zip(*two_ranks, strict=False))
    lengths = runpy.run_path(str(FOLDER / "task.py"))["Source"].lengths
    done = epoch * BlockSampler(lengths, rank=0, world_size=2).steps + step
    assert 0 < done <= len(before)  # on both ranks
    trained = [s for step in before[:done] for part in step for s in part]
    trained += [s for part in after for s in part]
    firsts = range(0, len(trained), len(lengths))
    epochs = [Counter(trained[first : first + len(lengths)]) for first in firsts]
    assert epochs == [Counter(range(len(lengths)))] * EPOCHS
