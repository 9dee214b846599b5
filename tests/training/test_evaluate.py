"""The figures of an evaluation depend on the model and the data, not on ranks or packing."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from datasets.annotations.read import read_annotations
from datasets.build import build_source
from datasets.scoring.__main__ import main
from datasets.scoring.predictions_file import read_metadata, read_predictions
from datasets.scoring.ranking import KS
from datasets.scoring.recall import RecallMeter
from models.network_input import NetworkInput
from models.predict import predict
from models.targets import to_tensors
from tests.installation import run
from tests.models.conftest import heard
from tests.training import jobs
from tests.training.jobs import one_rank
from training.evaluation import evaluate, open_sinks

NOT_EQUAL = ("seconds", "frames_per_second")


class Seer(nn.Module):
    """A random network that is told the boxes and classes of the frames it sees.

    An untrained network never hits a box, and equal zeros would prove nothing. Here recall hangs
    on the network's own relations: by how much they differ from those of a blank frame, which is
    little in a random network and so made large, and in a good part its state. In float64, so that
    the order of two scores does not hang on how many blocks are computed at once.
    """

    def __init__(self, cfg, source):
        super().__init__()
        self.network = heard(cfg, seed=5)
        size = source.canvas_hw
        blank, start = torch.zeros(1, 1, 3, *size, dtype=torch.uint8), torch.ones(1, 1).bool()
        with torch.no_grad():
            self.blank_LBTNR = self.network(NetworkInput(blank, start)).relation_logits_LBTNR
        self.answers = {}
        for video, length in enumerate(source.lengths):
            frames, targets = source.read(video, 0, int(length))
            for frame, target in zip(frames, targets, strict=True):
                self.answers[frame.numpy().tobytes()] = target

    def forward(self, inputs):
        frames_BTCHW, valid_BT = inputs.pixels_BTCHW, inputs.valid_BT
        outputs = self.network(NetworkInput(frames_BTCHW, inputs.start_BT, valid_BT))
        person, boxes = outputs.person_boxes_LBTN4.clone(), outputs.object_boxes_LBTN4.clone()
        classes = outputs.class_logits_LBTNK.clone()
        for b, t in valid_BT.nonzero().tolist():
            target = self.answers[frames_BTCHW[b, t].numpy().tobytes()]
            told, count = to_tensors([target]), len(target.object_classes_M)
            person[:, b, t, :count] = told.boxes_FM34[0, 0, 0].double()
            boxes[:, b, t, :count] = told.boxes_FM34[0, :, 1].double()
            rows = torch.arange(count)
            classes[:, b, t, rows, told.classes_FM[0]] += 6.0
        return replace(
            outputs,
            person_boxes_LBTN4=person,
            object_boxes_LBTN4=boxes,
            class_logits_LBTNK=classes,
            relation_logits_LBTNR=200 * (outputs.relation_logits_LBTNR - self.blank_LBTNR),
        )


def seer_and_source(config):
    source = build_source(config.dataset, "test")
    return Seer(config.model, source).eval(), source


def recall(seer, source, ranks, **options):
    """The figures of an evaluation but for those that differ each time."""
    result, _ = evaluate(seer, source, ranks, batch_slots=64, **options)
    return {name: value for name, value in result.items() if name not in NOT_EQUAL}


@torch.no_grad()
def test_packed_videos_have_the_recall_of_videos_alone(small_job):
    seer, source = seer_and_source(small_job)
    packed = recall(seer, source, one_rank())
    assert packed["frames"] == 123
    meter = RecallMeter("inclusive")
    for video in np.argsort(source.lengths):
        frames_TCHW, targets = source.read(int(video), 0, int(source.lengths[video]))
        start_BT = torch.arange(len(targets))[None] == 0
        valid_BT = torch.ones_like(start_BT)
        outputs = seer(NetworkInput(frames_TCHW[None], start_BT, valid_BT))
        meter.update(predict(outputs, valid_BT, [t.size_hw for t in targets]), targets)
    assert meter.summary() == packed


def of_the_first_video(ranks, config):
    seer, source = seer_and_source(config)
    source.lengths = source.lengths[:1]
    return recall(seer, source, ranks)


@pytest.mark.dist
def test_a_rank_without_frames_gives_the_figures_of_one(small_job, two_ranks):
    one = of_the_first_video(one_rank(), small_job)
    assert two_ranks.run(of_the_first_video, small_job) == [one, one]


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
    said = run(command, cwd=jobs.REPOSITORY, more={"PYTHONPATH": str(jobs.REPOSITORY)})
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
    jobs.evaluate(*lines, "iou=continuous")
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
        if name not in (*NOT_EQUAL, "epoch", "epochs", "t_max", "starts")
        and not name.endswith(of_the_world)
    }
    assert len(relations.read_text().splitlines()) == 1 + 3 * len(KS) * 26


def test_states_are_cleared_as_in_training_unless_asked(finished, tmp_path):
    state, path = jobs.checkpoint(finished), tmp_path / "p.parquet"
    state["config"]["train"]["starts"] = "ignored"
    torch.save(state, tmp_path / "ignoring.pt")
    for more, used in (((), "ignored"), (("starts=wrong",), "wrong")):
        figures = jobs.evaluate(f"checkpoint={tmp_path}/ignoring.pt", f"predictions={path}", *more)
        assert read_metadata(path)["starts"] == figures["starts"] == used
