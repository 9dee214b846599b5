"""A run ends with a page of its own, a picture of predictions and a verdict."""

import base64
import csv
import json
import re
import shutil
from unittest import mock

import numpy as np
import pytest
import torch

import train
from bload import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.vocabulary import RELATIONS
from tests.training.jobs import contents, one_rank, only_run, train_until
from training.checkpoint import load_model
from training.evaluation import measure
from training.report import charts, video
from training.report import page as run_page
from training.report.page import write_page
from training.report.record import read_record
from training.report.video import predict_video, read_video, representative_video
from training.report.write import drawn_files

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("pages")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(finished, tmp_path / "runs" / finished.name)


def drawn(folder):
    """The page of a run, drawn again."""
    write_page(folder, CPU)
    return (folder / "report.html").read_text()


def test_a_run_ends_with_a_page_that_needs_no_other_file(finished):
    page = (finished / "report.html").read_text()
    assert not re.search(r'<script|<link rel="style|(src|href)="(?!data:|#)|url\((?!#)', page)
    for kind, beginning in (("png", b"\x89PNG"), ("webp", b"RIFF")):
        shown = base64.b64decode(re.search(rf"data:image/{kind};base64,([^\"]+)", page)[1])
        assert shown == (finished / f"prediction.{kind}").read_bytes()
        assert shown.startswith(beginning)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4  # one epoch: nothing by epoch
    assert not any("var(" in drawing or "color-mix" in drawing for drawing in drawings)
    assert "mathdefault" not in page  # a label as TeX
    summary = json.loads((finished / "summary.json").read_text())
    result = f"is {100 * summary['with/recall@20']:.1f} %"
    for text in (result, "without memory", f"{summary['padding']:,.0f},", "train.batch_slots"):
        assert text in page, text
    commit = read_record(finished).made_on["git"]
    assert commit is None or commit in page


def test_the_page_is_made_again_to_the_last_bit(finished, run):
    before = contents(run)
    before["report.html"] = before["report.html"].replace(
        *(str(p).encode() for p in (finished, run))
    )
    for file in drawn_files(run):
        file.unlink()
    write_page(run, CPU)
    assert contents(run) == before


def test_the_picture_shows_what_evaluation_predicts(finished, data_root):
    model, saved = load_model(finished / "last.pt", CPU)
    source = ActionGenome(data_root, "test", (32, 32))
    batch = read_video(source, 2, 9)
    found = predict_video(model, source, batch, saved["config"], CPU)
    kept = {}

    def keep(targets, predictions):
        names = [target.name for target in targets]
        kept.update(zip(names, predictions, strict=True))

    measure(model, source, one_rank(), batch_slots=64, amp="off", records=[keep])
    assert len(found) == 9
    for target, prediction in zip(batch.targets, found, strict=True):
        for name in ("object_boxes_P4", "object_scores_P", "relation_scores_PR"):
            one, other = (torch.tensor(getattr(p, name)) for p in (prediction, kept[target.name]))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_video_shown_is_of_middle_length_and_has_most_objects(data_root):
    source = ActionGenome(data_root, "test", (32, 32))
    objects = [len(source.targets(video, 0, 1)[0].object_classes_M) for video in range(4)]
    assert min(objects) < max(objects) == objects[representative_video(source)]
    with mock.patch.object(video, "CANDIDATES", 0):
        assert source.lengths[representative_video(source)] == 35  # of 12, 23, 35 and 53


def test_a_run_that_goes_on_has_a_page_of_what_is_there(config, tmp_path):
    job = ("train.eval_every=1", "train.checkpoint_minutes=0", "train.log_every=1")
    train_until(one_rank(), config(*job), (1, 1))
    folder = only_run(tmp_path / "runs")
    assert drawn_files(folder) == []
    assert "not finished, epoch 2, step 1" in drawn(folder)
    train_until(one_rank(), config(*job), (1, 2))
    assert drawn_files(folder) == []  # it was of before


def test_a_page_shows_what_is_there(run, tmp_path):
    (run / "prediction.png").unlink()
    (run / "last.pt").unlink()
    (run / "prediction.webp").unlink()
    (run / "relations.csv").unlink()
    page = drawn(run)
    assert "There is no picture" in page
    assert "has no relations.csv" in page


def test_a_page_of_a_run_whose_data_are_gone_has_no_picture(run, capsys):
    for file in drawn_files(run):
        file.unlink()
    with mock.patch.object(run_page, "draw_run", side_effect=InputError("the data are gone")):
        assert "There is no picture" in drawn(run)
    assert capsys.readouterr().err == "no picture: the data are gone\n"


def test_a_failure_to_draw_is_a_warning(config, tmp_path, capsys):
    with mock.patch.object(run_page, "draw_run", side_effect=RuntimeError("no ink")):
        train.train(config("train.epochs=1"), one_rank())
    folder, said = only_run(tmp_path / "runs"), capsys.readouterr().out
    assert "warning" in said
    assert f"python -m training.report {folder}" in said
    assert re.search("conclusion .*too short", said)
    assert json.loads((folder / "summary.json").read_text())["epochs"] == 1
    assert drawn_files(folder) == []


def test_a_run_that_ended_while_its_page_was_drawn_has_it_after_the_next_start(run, config):
    before, job = contents(run), config("train.epochs=1", "train.log_every=1")
    for name in ("report.html", "prediction.webp"):
        (run / name).unlink()
    with mock.patch("training.open.open_training", side_effect=AssertionError("it trains")):
        train.train(job, one_rank())
        after = contents(run)
        with mock.patch.object(run_page, "write_page") as again:
            train.train(job, one_rank())
    again.assert_not_called()
    assert [name for name in before if after.get(name) != before[name]] == ["report.html"]


def test_a_run_in_its_first_epoch_shows_its_steps(run):
    keep(run, lambda line: line["kind"] == "step")
    (run / "summary.json").unlink()
    page = drawn(run)
    assert "not finished, epoch 1, step " in page
    assert "last weights are not evaluated yet" in page
    assert page.count("<svg") == 2  # the loss and its parts


def test_a_run_with_epochs_but_no_steps_on_record_says_where_it_is(run):
    keep(run, lambda line: line["kind"] != "step")
    (run / "summary.json").unlink()
    (epoch,) = [line for line in read_record(run).epochs if line["epoch"] == 1]
    assert f"not finished, epoch 1, step {epoch['step']}" in drawn(run)
    keep(run, lambda line: False)
    assert "not finished, epoch 1, step 0" in drawn(run)


def test_what_several_epochs_and_evaluations_have_is_drawn_over_them(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines += [line | {"epoch": 2, "after": 2} for line in lines if line["kind"] != "summary"]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = drawn(run)
    assert "<figcaption>Seconds of an epoch" in page
    end = lines[-1]  # of the second epoch
    assert charts.global_step(read_record(run), end) == 2 * end["step"]
    assert "Recall@20 on validation videos" in page


def test_the_end_says_what_of_each_relation_is_found_on_final_videos(finished, data_root):
    model, _ = load_model(finished / "last.pt", CPU)
    source = ActionGenome(data_root, "final", (32, 32))
    meter = measure(model, source, one_rank(), batch_slots=128, amp="off")
    with (finished / "relations.csv").open() as file:
        every = [row for row in csv.DictReader(file) if row["constraint"] == "with"]
    rows = [row for row in every if (row["kind"], row["k"]) == ("relation", "20")]
    recall_R = meter.class_recalls("with", 20)
    assert [row["name"] for row in rows] == list(RELATIONS)
    found_R = [float(row["recall"] or "nan") for row in rows]
    np.testing.assert_array_equal(found_R, recall_R)
    there = sum(row["triplets"] != "0" for row in rows)
    page = (finished / "report.html").read_text()
    low = np.sum(recall_R < 0.03)
    assert f"below 3% for {low} of {there} relations" in page


def test_a_loader_and_a_data_set_of_ones_own_leave_the_other_defaults(run):
    config = json.loads((run / "config.json").read_text())
    config["loader"] |= {"name": "next_fit"}
    config["dataset"] |= {"name": "kitchen", "cameras": 3}
    (run / "config.json").write_text(json.dumps(config))
    page = " ".join(re.sub("<[^>]*>", " ", drawn(run)).split())
    for line in ("loader.name next_fit bload", "dataset.cameras 3 -", "train.epochs 1 5"):
        assert line in page


def keep(run, wanted):
    """Keep some lines of the run's metrics."""
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(x for x in lines if wanted(json.loads(x))))
