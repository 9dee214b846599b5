"""Plain DDP on uneven ranks waits and times out; all else ends; nothing is left running."""

import json
import multiprocessing
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from bload import PACKERS, BlockLoader, action_genome_lengths
from experiments import deadlock
from experiments.rank_pair import RankOutcome
from experiments.sequences import FeatureSequences

TINY = ["--videos=12", "--batch-frames=188", "--timeout=2", "--seed=2"]
FINE = RankOutcome("finished", 3, 3, 0.1)


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Run the script as it is typed; give its record, if it wrote one, and its exit status."""
    monkeypatch.chdir(tmp_path)

    def measure(*options, run_pair=deadlock.run_pair, folder="deadlock"):
        monkeypatch.setattr(deadlock, "run_pair", run_pair)
        monkeypatch.setattr(sys, "argv", ["deadlock.py", *options])
        status = 0
        try:
            deadlock.main()
        except SystemExit as end:
            status = end.code
        path = Path("runs", folder, "deadlock.json")
        return path.exists() and json.loads(path.read_text()), status

    return measure


@pytest.mark.dist
@pytest.mark.slow
def test_uneven_ranks_hang_under_plain_ddp_and_end_under_join_and_every_loader(measure):
    before = {*multiprocessing.active_children()}
    record, status = measure(*TINY)
    assert (record["as_expected"], status) == (True, 0)
    assert not {*multiprocessing.active_children()} - before
    rows = {(row["what"], row["loader"]): row for row in record["rows"]}
    assert len(rows) == 3 + len(PACKERS)

    plain = rows["plain DDP", "uneven"]
    few, many = sorted(plain["planned"])
    assert plain["ended"] == "timed out"
    assert 2 <= plain["seconds"] < 20
    assert few < many
    assert plain["steps"] == [few, few]
    done, waits = plain["planned"].index(few), plain["planned"].index(many)
    assert f"rank {done} was done after its {few} steps" in plain["says"]
    assert f"rank {waits} in step {few + 1} of {many} waited" in plain["says"]

    leaving = rows["DDP, exits when done", "uneven"]
    assert leaving["ended"] == "failed"
    assert "onnection" in leaving["says"]

    joined = rows["DDP with Join", "uneven"]
    assert joined["ended"] == "finished"
    assert joined["steps"] == joined["planned"] == plain["planned"]
    assert f"shadowed {many - few} steps" in joined["says"]

    for loader in PACKERS:
        row = rows["DDP, blocks", loader]
        assert row["ended"] == "finished"
        assert row["steps"][0] == row["steps"][1] > 0


def test_rows_that_do_not_end_as_they_should_are_named_and_are_status_1(measure, capsys):
    late = RankOutcome("running", 3, 5, 7.0)  # killed by the parent, which is a timeout
    record, status = measure(*TINY, run_pair=Mock(return_value=[late, FINE]))
    assert (record["as_expected"], status) == (False, 1)
    assert {row["ended"] for row in record["rows"]} == {"timed out"}
    assert "rank 0 in step 4 of 5 was killed after 7 s" in record["rows"][0]["says"]
    out = capsys.readouterr().out
    assert "plain DDP, uneven" not in out
    assert "DDP with Join, uneven: timed out, where finished was expected" in out


def test_what_a_loader_pads_is_told_of_the_plan_that_it_trains(measure):
    record, _ = measure(*TINY, run_pair=Mock(return_value=[FINE, FINE]))
    says = {row["loader"]: row["says"] for row in record["rows"]}
    source = FeatureSequences(np.random.default_rng(2).choice(action_genome_lengths(), 12))
    for name in PACKERS:
        counted = BlockLoader(source, name, batch_frames=188, rank=0, world_size=2).account
        assert says[name].startswith(f"{counted.padding:,} padded"), name
        assert says[name].endswith(f" {counted.filler:,} filler"), name


def test_a_sequence_is_read_in_pieces_as_in_one():
    source = FeatureSequences([3, 7, 5])
    whole, classes = source.read(1, 0, 7)
    head, tail = source.read(1, 0, 4), source.read(1, 4, 3)
    assert torch.equal(whole, torch.cat([head[0], tail[0]]))
    assert classes == head[1] + tail[1] == [1] * 7
    assert not torch.equal(whole[:3], source.read(0, 0, 3)[0])


def test_the_record_has_the_command_the_options_and_the_times(measure):
    two = Mock(return_value=[FINE, FINE])
    record, _ = measure("--quick", "--seed=2", run_pair=two, folder="deadlock_quick")
    assert record["name"] == "deadlock_quick"
    assert record["command"] == "python -m experiments.deadlock --quick --seed=2"
    options = deadlock.FULL | deadlock.QUICK | {"seed": 2}
    assert {key: record[key] for key in options} == options
    assert record["started"] <= record["ended"]


def test_bad_options_start_nothing(measure, capsys):
    for options, words in (
        (("--clip=94", "--batch-frames=94", "--videos=2"), ("1 clips", "--seed")),
        (("--batch-frames=5",), ("--batch-frames", "5")),
        (("--timeout=0.1",), ("--timeout", "0.1")),
    ):
        assert measure(*TINY, *options, run_pair=None) == (False, 2)
        error = capsys.readouterr().err
        assert all(word in error for word in words), error


def test_ctrl_c_writes_nothing(measure):
    assert measure(*TINY, run_pair=Mock(side_effect=KeyboardInterrupt)) == (False, 130)
