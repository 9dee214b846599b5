import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from bload import InputError
from datasets.annotations.read import KNOBS_FILE, OBJECTS_FILE, PERSONS_FILE
from datasets.annotations.unpickler import read_pickle
from datasets.build import build_source
from datasets.prepare.__main__ import main
from datasets.prepare.check import check
from tests.datasets.annotations.making import edit
from tests.datasets.box_root import open_root
from training.compose import compose_job


@pytest.fixture
def root(small_root, tmp_path):
    return Path(shutil.copytree(small_root, tmp_path / "root"))


def counts(root):
    """Kind -> number of problems."""
    return {kind: len(examples) for kind, examples in check(root)[1].examples.items()}


def counting_frames(root):
    """Frames with a visible object and a person, as the files say it."""
    files = OBJECTS_FILE, PERSONS_FILE
    entries_of, person_of = (read_pickle(root / "annotations" / file) for file in files)
    return [
        name
        for name, entries in entries_of.items()
        if any(entry["visible"] for entry in entries) and len(person_of[name]["bbox"])
    ]


def test_the_command_reports_a_whole_root_and_the_next_one_and_writes_nothing(root, capsys):
    root = root.rename(root.with_name("München (1), a=b"))  # Hydra needs quotes of its own
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert main(["--root", str(root), "--check"]) == 0
    said, needed = capsys.readouterr().out, len(counting_frames(root))
    assert f"of {needed} frames that count {needed} are as they should be" in said
    command = said.splitlines()[-1].split("train.py ")[1]
    cfg = compose_job("train", shlex.split(command)).dataset
    assert build_source(cfg, "train").root == root  # of these knobs, or it would be refused
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    with pytest.raises(SystemExit, match="2"):
        main(["--root", "nowhere", "--check"])


def test_a_missing_frame_that_counts_is_a_problem_and_another_is_not(root):
    needed = counting_frames(root)
    others = {*read_pickle(root / "annotations" / OBJECTS_FILE)} - {*needed}
    (root / "frames" / min(others)).unlink()
    assert counts(root) == {}
    (root / "frames" / needed[0]).unlink()
    assert f"missing frames (1): {root / 'frames' / needed[0]}" in check(root)[0]
    assert check(root)[2] == ""  # a synthetic root has no videos
    (root / KNOBS_FILE).unlink()
    assert check(root)[2] == f"python -m datasets.prepare --root {root}"


def test_a_frame_that_is_damaged_or_of_another_size_is_named(root):
    path = root / "frames" / counting_frames(root)[3]
    path.write_bytes(path.read_bytes()[:-20])
    assert f"unreadable frames; remove them (1): {path}" in check(root)[0]
    Image.new("RGB", (32, 48)).save(path)
    assert f"{path} is 32 x 48, not 64 x 64" in check(root)[0]


def test_frames_numbered_from_0_are_a_problem_here_and_in_training(root):
    path = root / "frames" / counting_frames(root)[3]
    shutil.copy(path, path.with_name("000000.png"))
    assert [*counts(root).values()] == [1]
    with pytest.raises(InputError, match="numbered from 0, not from 1"):
        open_root(root, "train", (64, 64))


def test_all_faults_of_annotations_are_reported_in_one_run(root):
    names = [name for name in counting_frames(root) if name.startswith("train")]
    scored = next(name for name in counting_frames(root) if name.startswith("test"))

    def unlabel(value):
        for entry in filter(lambda entry: entry["visible"], value[scored]):
            entry |= {f"{key}_relationship": [] for key in ("attention", "spatial", "contacting")}

    edit(root, unlabel)
    with pytest.raises(InputError, match=f"{scored} has no ground-truth relation"):
        open_root(root, "test", (64, 64)).check_labelled()
    edit(root, lambda value: value.update({"../../etc/000001.png": value[names[3]]}))
    edit(root, lambda value: value[names[4]].update(bbox_size=(24, 40)), PERSONS_FILE)
    (root / "frames" / names[5]).unlink()
    report = check(root)[0]
    for part in ("VIDEO/NUMBER", scored, names[4], names[5]):
        assert part in report
