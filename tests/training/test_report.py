"""A run ends with a page of its own and a picture of predictions."""

import json
import re
import shutil
from unittest import mock

import pytest

import train
from tests.datasets.box_root import open_root
from tests.datasets.scoring.drawing import cup_frame
from tests.training.jobs import one_rank, only_run
from training.folder import RunFolder, read_json
from training.report.album import Album
from training.report.page import draw_progress, read_progress

pytestmark = pytest.mark.usefixtures("pages")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return RunFolder(shutil.copytree(finished, tmp_path / "runs" / finished.name))


def test_a_run_ends_with_a_page_that_needs_no_other_file(finished):
    page = (finished / "report.html").read_text()
    assert not re.search(r'<script|<link rel="style|(src|href)="(?!data:|#)|url\((?!#)', page)
    assert page.count("data:image/png;base64,") == page.count("data:image/svg+xml;base64,") == 1
    summary = json.loads((finished / "summary.json").read_text())
    recall = f"{100 * summary['with/recall@20']:.2f} %"
    for text in (recall, "with memory, ", f"{summary['padding']:,.0f} slots", "train.batch_slots"):
        assert text in page, text
    commit = read_json(finished / "made_on.json")["git"]
    assert commit is None or commit in page


def test_a_failure_to_draw_is_a_warning(config, tmp_path, capsys):
    with mock.patch.object(Album, "draw", side_effect=RuntimeError("no ink")):
        train.train(config("train.epochs=1"), one_rank())
    folder, said = only_run(tmp_path / "runs"), capsys.readouterr().out
    assert f"warning: {folder} has no page" in said
    assert json.loads((folder / "summary.json").read_text())["epochs"] == 1


def test_several_epochs_are_drawn_one_after_another(run):
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    lines += [line | {"epoch": 2, "after": 2} for line in lines if line["kind"] != "summary"]
    run.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    progress = read_progress(run)
    assert progress["at"].iloc[-1] == 2 * lines[-1]["step"]
    assert b"<svg" in draw_progress(progress)


def test_an_album_draws_the_videos_it_saw(data_root, tmp_path):
    source = open_root(data_root, "test", (32, 32))
    album = Album(source, 2)
    targets = source.videos[3].frames
    album.keep(targets, [cup_frame(target.name, [], [[6, 20]])[0] for target in targets])
    album.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{source.names[3]}.png"]
