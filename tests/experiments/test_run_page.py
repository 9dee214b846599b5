"""A run ends with a page of its own, a picture of predictions and a verdict."""

import base64
import json
import re
import shutil
import sys
from unittest import mock

import pytest
import torch

import train
from bload.errors import InputError
from datasets.action_genome import ActionGenome
from experiments import run_page
from experiments.checkpoint import load_model
from experiments.evaluate import measure
from experiments.run_page import drawn, write_page
from experiments.run_picture import predict_video, read_video
from experiments.run_record import read_record
from tests.experiments.jobs import compose_config, contents, interrupted, one_rank, only_run

CPU = torch.device("cpu")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(finished, tmp_path / "runs" / finished.name)


def test_a_run_ends_with_a_page_that_needs_no_other_file(finished):
    page = (finished / "report.html").read_text()
    assert not re.search(r'<script|<link rel="style|(src|href)="(?!data:|#)|url\((?!#)', page)
    shown = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", page)[1])
    assert shown == (finished / "prediction.png").read_bytes()
    assert shown.startswith(b"\x89PNG")
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4
    assert not any("var(" in drawing or "color-mix" in drawing for drawing in drawings)
    summary = json.loads((finished / "summary.json").read_text())
    reached = f"{100 * summary['with/recall@20']:.1f} % is"
    for text in (reached, "without memory", f"{summary['padding']:,.0f},", "train.batch_frames"):
        assert text in page, text
    commit = read_record(finished).made_on["git"]
    assert commit is None or commit in page


def test_the_page_is_made_again_to_the_last_bit(finished, run):
    before = contents(run)
    before["report.html"] = before["report.html"].replace(
        *(str(p).encode() for p in (finished, run))
    )
    for name in ("report.html", "prediction.png"):
        (run / name).unlink()
    assert write_page(run, CPU) == ""
    assert contents(run) == before


def test_the_picture_shows_what_evaluation_predicts(finished, data_root):
    model, saved = load_model(finished / "last.pt", CPU)
    source = ActionGenome(data_root, "test", (32, 32))
    batch = read_video(source, 2, 9)
    found = predict_video(model, source, batch, saved["config"]["train"], CPU)
    kept = {}

    def keep(targets, predictions):
        names = [target.name for target in targets]
        kept.update(zip(names, predictions, strict=True))

    measure(model, source, one_rank(), batch_frames=64, amp="off", records=[keep])
    assert len(found) == 9
    for target, prediction in zip(batch.targets, found, strict=True):
        for name in ("object_boxes_P4", "object_scores_P", "relation_scores_PR"):
            one, other = (torch.tensor(getattr(p, name)) for p in (prediction, kept[target.name]))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_run_that_goes_on_has_a_page_of_what_is_there(config, tmp_path):
    job = ("train.eval_every=1", "train.checkpoint_every=2", "train.log_every=1")
    with interrupted((1, 1)), pytest.raises(KeyboardInterrupt):
        train.train(config(*job), one_rank())
    folder = only_run(tmp_path / "runs")
    assert drawn(folder) == {}
    assert write_page(folder, CPU) == ""
    assert "not finished, 1 epoch so far" in (folder / "report.html").read_text()
    with interrupted((1, 2)), pytest.raises(KeyboardInterrupt):
        train.train(config(*job), one_rank())
    assert drawn(folder) == {}  # it was of before


def test_a_run_without_its_data_keeps_its_picture_and_none_are_made(run, tmp_path):
    for path in (tmp_path / "nothing", tmp_path / "empty"):
        state = torch.load(run / "last.pt", weights_only=True)
        state["config"]["dataset"]["root"] = str(path)
        before = (run / "prediction.png").read_bytes()
        with mock.patch("experiments.checkpoint.load_checkpoint", return_value=state):
            assert str(path) in write_page(run, CPU)
        assert not path.exists()
        assert (run / "prediction.png").read_bytes() == before
    (run / "prediction.png").unlink()
    (run / "last.pt").unlink()
    (run / "made_on.json").unlink()
    assert "no checkpoint" in write_page(run, CPU)
    page = (run / "report.html").read_text()
    assert "There is no picture" in page
    assert "Commit and machine were not recorded" in page


def test_a_failure_to_draw_is_a_warning(config, tmp_path, capsys):
    with mock.patch.object(run_page, "draw_run", side_effect=RuntimeError("no ink")):
        train.train(config("train.epochs=1"), one_rank())
    folder, said = only_run(tmp_path / "runs"), capsys.readouterr().out
    assert "warning" in said
    assert f"no ink); python -m experiments.run_page {folder}" in said
    assert json.loads((folder / "summary.json").read_text())["epochs"] == 1
    assert drawn(folder) == {}


def test_the_summary_names_the_files_and_says_on_which_side_of_the_observer_it_is(
    config, tmp_path, capsys
):
    train.train(config("train.epochs=1"), one_rank())
    folder, said = only_run(tmp_path / "runs"), capsys.readouterr().out
    lines = dict(line.split(maxsplit=1) for line in said.splitlines() if len(line.split()) > 1)
    assert lines["report"] == str(folder / "report.html")
    assert lines["picture"] == str(folder / "prediction.png")
    assert " points below the best observer without memory (" in lines["verdict"]


def test_real_data_have_no_observers(command_line, data_root, tmp_path, capsys):
    options = ("dataset=action_genome", f"dataset.root={data_root}", "dataset.frame_size=[32,32]")
    options = (*options, "dataset.small_boxes=keep")
    lines = [line for line in command_line() if not line.startswith("dataset.")]
    job = compose_config("train", [*lines, *options, "train.epochs=1"])
    train.train(job, one_rank())
    folder, said = only_run(tmp_path / "runs"), capsys.readouterr().out
    assert "verdict" not in said
    assert sorted(drawn(folder)) == ["picture", "report"]
    page = (folder / "report.html").read_text()
    assert "observer" not in page
    assert "Recall@20" in page
    assert "dataset.root" in page


@pytest.mark.parametrize("there", [False, True])
def test_another_folder_is_no_run(tmp_path, monkeypatch, capsys, there):
    place = tmp_path if there else tmp_path / "nothing"
    monkeypatch.setattr(sys, "argv", ["run_page", str(place)])
    with pytest.raises(SystemExit) as end:
        run_page.main()
    assert end.value.code == 2
    assert f"{place} is not the folder of a run; name one" in capsys.readouterr().err


def test_the_command_prints_what_it_made(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run_page", str(run)])
    run_page.main()
    assert capsys.readouterr().out.split() == [
        str(run / "prediction.png"),
        str(run / "report.html"),
    ]


def test_what_training_does_not_write_is_one_sentence(run):
    (run / "config.json").write_text('{"loader": 7}')
    with pytest.raises(InputError, match=r"holds something that training does not write"):
        write_page(run, CPU)
