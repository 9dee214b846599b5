"""Predictions that an evaluation wrote give its figures again, to the last bit, without torch."""

import json
import sys

import pytest
import torch

from datasets.annotations.read import read_annotations
from datasets.scoring.__main__ import main
from datasets.scoring.predictions_file import read_metadata, read_predictions
from datasets.scoring.ranking import KS
from tests.installation import run
from tests.training.jobs import REPOSITORY, checkpoint, evaluate, one_rank
from tests.training.test_evaluate import NOT_EQUAL, recall, seer_and_source
from training.evaluation import open_sinks

WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None; "
    "from datasets.scoring.__main__ import main; sys.exit(main())"
)


def write(ranks, config, path):
    """Predictions of a network that is told what it sees, and the meter's figures."""
    seer, source = seer_and_source(config)
    metadata = {"root": str(source.root), "split": "test", "small_boxes": "keep"}
    with open_sinks(path, ranks, metadata) as sinks:
        return recall(seer, source, ranks, sinks=sinks)


@pytest.fixture(scope="module")
def written(small_job, tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "predictions.parquet"
    return path, write(one_rank(), small_job, path)


def test_a_file_is_scored_from_the_command_line_without_torch(written, tmp_path):
    path, figures = written
    assert 0.05 < figures["with/recall@10"] < figures["no/recall@50"] < 1
    command = [sys.executable, "-c", WITHOUT_TORCH, path, "--out", tmp_path / "out.json"]
    said = run(command, cwd=REPOSITORY, more={"PYTHONPATH": str(REPOSITORY)})
    assert f"{100 * figures['with/recall@20']:.2f}" in said
    assert json.loads((tmp_path / "out.json").read_text()).items() >= figures.items()


@pytest.mark.dist
def test_two_ranks_write_the_file_of_one(config, two_ranks, written, tmp_path):
    path, figures = written
    both = tmp_path / "both.parquet"
    assert two_ranks.run(write, config(), both) == [figures, figures]
    assert both.read_bytes() == path.read_bytes()


def test_the_command_writes_every_frame_once_and_says_what_made_it(finished, data_root, tmp_path):
    path, out, relations = tmp_path / "p.parquet", tmp_path / "out.json", tmp_path / "r.csv"
    lines = [f"checkpoint={finished}", f"predictions={path}", f"out={out}"]
    evaluate(*lines, "iou=continuous")
    assert read_metadata(path) == {
        "checkpoint": str(finished / "last.pt"),
        "split": "final",
        "root": str(data_root),
        "small_boxes": "keep",
        "validation": 0.0,
        "starts": "table",
        "trained_root": str(data_root),
    }
    names = [name for name, _ in read_predictions(path)]
    videos = read_annotations(data_root, "final").videos
    assert names == [frame.name for video in videos for frame in video.frames]
    score_out = tmp_path / "score.json"
    options = ["--iou", "continuous", "--out", str(score_out), "--relations", str(relations)]
    main([str(path), *options])
    figures = json.loads(out.read_text())
    of_the_world = ("_memory", "memoryless/recall@20", "remembering/recall@20")  # not in the file
    assert json.loads(score_out.read_text()) == {
        name: value
        for name, value in figures.items()
        if name not in (*NOT_EQUAL, "epoch", "t_max", "starts") and not name.endswith(of_the_world)
    }
    assert len(relations.read_text().splitlines()) == 1 + 3 * len(KS) * 26


def test_states_are_cleared_as_in_training_unless_asked(finished, tmp_path):
    state, path = checkpoint(finished), tmp_path / "p.parquet"
    state["config"]["train"]["starts"] = "ignored"
    torch.save(state, tmp_path / "ignoring.pt")
    for more, used in (((), "ignored"), (("starts=wrong",), "wrong")):
        figures = evaluate(f"checkpoint={tmp_path}/ignoring.pt", f"predictions={path}", *more)
        assert read_metadata(path)["starts"] == figures["starts"] == used
