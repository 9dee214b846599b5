"""Plain DDP on uneven ranks waits and says so; all else ends; nothing is left running."""

import json
import multiprocessing

import pytest

from bload import PACKERS, InputError
from experiments.deadlock import run
from experiments.rank_pair import RankOutcome, RankPair

TINY = {"videos": 12, "batch_frames": 188, "timeout": 2.0, "seed": 2}


def rows(folder):
    record = json.loads((folder / "deadlock.json").read_text())
    return {(row["what"], row["loader"]): row for row in record["rows"]}


@pytest.mark.dist
@pytest.mark.slow
def test_uneven_ranks_hang_under_plain_ddp_and_end_under_join_and_every_loader(tmp_path, capsys):
    assert run(tmp_path, {"command": "typed"}, **TINY)
    assert not multiprocessing.active_children()
    table = rows(tmp_path)
    assert len(table) == 3 + len(PACKERS)

    plain = table["plain DDP", "uneven"]
    few, many = sorted(plain["planned"])
    assert plain["ended"] == "timed out"
    assert TINY["timeout"] <= plain["seconds"] < 20
    assert few < many
    assert plain["steps"] == [few, few]
    done, waits = plain["planned"].index(few), plain["planned"].index(many)
    assert f"rank {done} was done after its {few} steps" in plain["says"]
    assert f"rank {waits} in step {few + 1} of {many} waited" in plain["says"]

    leaving = table["DDP, exits when done", "uneven"]
    assert leaving["ended"] == "failed"
    assert "onnection" in leaving["says"]

    joined = table["DDP with Join", "uneven"]
    assert joined["ended"] == "finished"
    assert joined["steps"] == joined["planned"] == plain["planned"]
    assert f"shadowed {many - few} steps" in joined["says"]

    for loader in PACKERS:
        row = table["DDP, blocks", loader]
        assert row["ended"] == "finished"
        assert row["steps"][0] == row["steps"][1] > 0
    assert "Every row ended as it should" in capsys.readouterr().out


def test_a_row_that_does_not_end_as_it_should_is_told(tmp_path, monkeypatch, capsys):
    fine = RankOutcome("finished", 3, 3, 0.1)
    monkeypatch.setattr(RankPair, "run", lambda self, job, patience: [fine, fine])
    assert not run(tmp_path, {"command": "typed"}, **TINY)
    out = capsys.readouterr().out
    assert "plain DDP, uneven: finished, where timed out was to be expected" in out
    assert "Every row" not in out


def test_ranks_killed_by_the_parent_have_timed_out(tmp_path, monkeypatch):
    fine = RankOutcome("finished", 3, 3, 0.1)
    late = RankOutcome("running", 3, 5, 7.0)
    monkeypatch.setattr(RankPair, "run", lambda self, job, patience: [late, fine])
    run(tmp_path, {"command": "typed"}, **TINY)
    row = rows(tmp_path)["plain DDP", "uneven"]
    assert row["ended"] == "timed out"
    assert row["says"] == (
        "rank 0 in step 4 of 5 was killed after 7 s; rank 1 was done after its 3 steps"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"clip": 94, "batch_frames": 94, "videos": 2}, "both ranks happen to have 1 clips"),
        ({"batch_frames": 5}, "experiment.batch_frames is 5 but the longest sequence has"),
        ({"timeout": 0.1}, "experiment.timeout is 0.1 s"),
        ({"videos": 1}, "experiment.videos is 1"),
        ({"loaders": ["naiv"]}, "no loader 'naiv'"),
    ],
)
def test_bad_options_start_nothing(tmp_path, monkeypatch, options, sentence):
    monkeypatch.setattr(RankPair, "run", lambda *_: pytest.fail("ranks were started"))
    with pytest.raises(InputError, match=sentence):
        run(tmp_path / "nothing", {"command": "typed"}, **TINY | options)
    assert not (tmp_path / "nothing").exists()
