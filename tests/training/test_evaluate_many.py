"""One command evaluates a file that is whole, a run, or a folder of these."""

import csv
import json
import os
import re
import shutil

import pytest
import torch

from bload.errors import InputError
from datasets.annotations.read import KNOBS_FILE
from datasets.annotations.vocabulary import OBJECTS
from tests.training.jobs import REPOSITORY, assert_same_state, checkpoint, evaluate
from training import data
from training.checkpoint import find_checkpoints, load_checkpoint
from training.config import EvalJob
from training.data import find_videos


def test_a_folder_stands_for_its_runs_and_a_run_for_its_last_checkpoint(tmp_path):
    for name in ("b/last.pt", "b/best.pt", "a/1.pt", "sweep/c/last.pt", "notes/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    last, other = tmp_path / "b/last.pt", tmp_path / "sweep/c/last.pt"
    assert find_checkpoints(tmp_path) == {"b": last, "sweep/c": other}
    assert [*find_checkpoints(tmp_path / "b").values()] == [last]
    assert [*find_checkpoints(tmp_path / "a/1.pt").values()] == [tmp_path / "a/1.pt"]
    with pytest.raises(InputError, match=r"there is no .*notes"):
        find_checkpoints(tmp_path / "notes")
    with pytest.raises(InputError, match="checkpoint is empty"):
        find_checkpoints("")


def test_no_data_are_made_where_a_checkpoint_says(type_eval, finished, data_root, tmp_path):
    state = checkpoint(finished)
    (tmp_path / "empty").mkdir()
    for root, there in ((tmp_path / "empty", False), (tmp_path / "no", False), (data_root, True)):
        state["config"]["dataset"].update(root=str(root), cache=str(tmp_path / "cache"))
        torch.save(state, tmp_path / "other.pt")
        error, _ = type_eval(f"checkpoint={tmp_path / 'other.pt'}")
        assert (error is None) == there
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "other.pt"}
    assert not [*(tmp_path / "empty").iterdir()]


def test_another_root_is_read_for_what_it_is(finished, data_root, tmp_path):
    saved = checkpoint(finished)["config"]["dataset"]
    source = find_videos(EvalJob("x", root=str(data_root)), saved, {})
    assert (source.split, source.yardsticks is None) == ("final", False)
    real = shutil.copytree(data_root, tmp_path / "real", ignore=lambda *_: [KNOBS_FILE])
    source = find_videos(EvalJob("x", root=str(real)), saved, {})
    assert (source.split, source.yardsticks) == ("test", None)


def test_the_page_predicts_the_frames_of_a_folder(finished, data_root, capsys):
    page = (REPOSITORY / "docs" / "evaluation.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", page, re.S)
    (folder, *_) = sorted((data_root / "frames").iterdir())
    exec(code.replace("runs/NAME", str(finished)).replace("FRAMES", str(folder)), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len([*folder.iterdir()])
    assert {line.split()[0] for line in lines} <= {*OBJECTS}


@pytest.fixture
def type_eval(capsys):
    """Evaluate as a command line says; give the error, if any, and what was printed."""

    def type_and_read(*arguments):
        error = None
        try:
            evaluate(*arguments)
        except InputError as raised:
            error = raised
        return error, capsys.readouterr().out

    return type_and_read


def test_a_folder_of_runs_gives_a_line_each_and_reads_equal_data_once(
    type_eval, finished, tmp_path, monkeypatch
):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(finished / "last.pt", tmp_path / name / "last.pt")
    built = []
    whole = data.open_to_score
    monkeypatch.setattr(data, "open_to_score", lambda *a: built.append(a) or whole(*a))
    out, relations = tmp_path / "out.json", tmp_path / "relations.csv"
    status, printed = type_eval(f"checkpoint={tmp_path}", f"out={out}", f"relations={relations}")
    assert status is None
    assert [split for _, split in built] == ["final"]
    one, two = (line.split() for line in printed.rstrip().splitlines()[-4:-2])
    assert (one[0], two[0]) == ("one", "two")
    assert one[1:] == two[1:]
    figures = json.loads(out.read_text())
    assert figures["one"]["with/recall@100"] == figures["two"]["with/recall@100"]
    assert figures["one"]["unseen_triplets"] > 0
    with relations.open(newline="") as file:
        named = {row["checkpoint"] for row in csv.DictReader(file)}
    assert named == {str(tmp_path / name / "last.pt") for name in ("one", "two")}


def test_one_that_cannot_be_read_is_reported_and_the_others_go_on(type_eval, finished, tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        shutil.copy(finished / "last.pt", tmp_path / name)
    (tmp_path / "b/last.pt").write_text("hello\n")
    status, printed = type_eval(f"checkpoint={tmp_path}")
    assert "1 of 3" in str(status)
    a, c, b = printed.rstrip().splitlines()[-3:]
    assert a.split()[1:] == c.split()[1:]
    assert a.split()[1:6] == ["45", "1", "of", "1", "61"]
    assert b.startswith(f"b  not evaluated: {tmp_path / 'b/last.pt'} cannot be read")


def test_a_file_that_cannot_be_written_is_reported_before_the_work(finished, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for key in ("out", "relations", "predictions"):
        for path in ("nowhere/file", "pipe", "/proc/file", "x" * 300):
            with pytest.raises(InputError, match="cannot be written; name a file in a folder that"):
                evaluate(f"checkpoint={finished}", f"{key}={tmp_path / path}")
    with pytest.raises(InputError, match="name one file; give each its own"):
        evaluate(f"checkpoint={finished}", *(f"{key}=same" for key in ("out", "predictions")))


def test_a_flipped_bit_is_noticed_or_changes_nothing_and_a_cut_is_noticed(tmp_path):
    state = {"model": {"weight": torch.arange(6.0)}, "config": {"model": {"width": 6}}}
    path = tmp_path / "last.pt"
    torch.save(state, path)
    good = path.read_bytes()
    draw = torch.Generator().manual_seed(0)
    noticed = 0
    for _ in range(300):
        damaged = bytearray(good)
        place = int(torch.randint(len(good), (), generator=draw))
        damaged[place] ^= 1 << int(torch.randint(8, (), generator=draw))
        path.write_bytes(damaged)
        try:
            assert_same_state(load_checkpoint(path), state)
        except InputError as error:
            noticed += "last.pt cannot be read" in str(error)
    assert noticed > 100  # the rest of such a small file are names and times of its parts
    for size in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(InputError, match=r"last.pt cannot be read"):
            load_checkpoint(path)
