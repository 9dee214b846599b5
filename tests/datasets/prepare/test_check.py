import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bload import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.read import KNOBS_FILE, OBJECTS_FILE, PERSONS_FILE
from datasets.frames.manifest import Manifest, write_manifest
from datasets.prepare import check
from datasets.prepare.__main__ import main
from tests.datasets.annotations.making import edit
from tests.datasets.box_root import write_box_root


@pytest.fixture
def root(small_root, tmp_path):
    return Path(shutil.copytree(small_root, tmp_path / "root"))


def checked(root):
    return check.check(root, workers=2)[0]


def counts(problems):
    """Kind -> number of problems."""
    return {kind: len(examples) for kind, examples in problems.examples.items()}


def problems(root):
    return counts(checked(root).problems)


def remarks(report):
    """All remarks but those about the published counts."""
    return [kind for kind in report.remarks.examples if "as published" not in kind]


def pickled(root, file=OBJECTS_FILE):
    return pickle.loads((root / "annotations" / file).read_bytes())


def counting_frames(root):
    """Frames with a visible object and a person, as the files say it."""
    person_of = pickled(root, PERSONS_FILE)
    return [
        name
        for name, entries in pickled(root).items()
        if any(entry["visible"] for entry in entries) and len(person_of[name]["bbox"])
    ]


def visible_entry(entries):
    return next(entry for entry in entries if entry["visible"])


def test_a_whole_root_has_no_problem_and_its_counts_are_those_of_its_files(root):
    needed = len(counting_frames(root))
    report, command = check.check(root)
    assert command.startswith("torchrun ")
    assert command.endswith(f" train.py dataset=synthetic dataset.root={root}")
    assert not report.problems
    assert f"of {needed:,} frames that count {needed:,} are as they should be" in str(report)
    rows = re.findall(r"videos of 3 frames or more +(\d+)", str(report))
    assert sum(map(int, rows)) == needed


def test_a_missing_frame_that_counts_is_a_problem_and_another_is_not(root):
    needed = counting_frames(root)
    (root / "frames" / next(name for name in pickled(root) if name not in needed)).unlink()
    assert problems(root) == {}
    (root / "frames" / needed[0]).unlink()
    assert f"missing frames (1): {root / 'frames' / needed[0]}" in str(checked(root))
    shutil.rmtree(root / "frames")
    report = checked(root)
    assert counts(report.problems) == {"missing frames": len(needed)}
    assert check.check(root)[1] == ""  # a synthetic root has no videos
    (root / KNOBS_FILE).unlink()
    assert check.check(root)[1] == f"python -m datasets.prepare --root {root}"


def test_a_frame_that_cannot_be_read_or_has_another_size_is_named(root):
    path = root / "frames" / counting_frames(root)[3]
    data = path.read_bytes()
    middle = len(data) // 2
    bit = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for content in (b"", data[:-20], bit):
        path.write_bytes(content)
        report = checked(root)
        assert counts(report.problems) == {"unreadable frames; remove them": 1}
        assert str(path) in str(report)
    Image.new("RGB", (32, 48)).save(path)
    assert f"{check.OTHER_SIZE} (1): {path} is 32 x 48, not 64 x 64" in str(checked(root))


def test_frames_that_are_numbered_from_0_are_a_problem_here_and_in_training(root):
    path = root / "frames" / counting_frames(root)[3]
    shutil.copy(path, path.with_name("000000.png"))
    assert problems(root) == {check.FROM_0: 1}
    with pytest.raises(InputError, match="numbered from 0, not from 1"):
        ActionGenome(root, "train", (64, 64))


def test_a_frame_without_a_relation_is_a_problem_where_it_has_to_be_scored(root):
    name = next(name for name in counting_frames(root) if name.startswith("test"))
    groups = ("attention_relationship", "spatial_relationship", "contacting_relationship")

    def empty(value):
        for entry in value[name]:
            entry.update({group: [] for group in groups if entry["visible"]})

    edit(root, empty)
    assert problems(root) == {"frames without a relation, which recall cannot count": 1}
    table = ActionGenome(root, "test", (64, 64)).table
    with pytest.raises(InputError, match=f"{name} has no ground-truth relation"):
        table.check_labelled()


def test_a_video_in_two_sizes_which_training_refuses_is_a_problem(tmp_path):
    root = write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 21, 21)] * 4)})
    edit(root, lambda value: value["A.mp4/000007.png"].update(bbox_size=(24, 40)), PERSONS_FILE)
    assert problems(root)["frames annotated in another size than their video"] == 1


def test_frames_stored_as_the_manifest_says_are_right(root):
    for path in root.glob("frames/*/*.png"):
        Image.open(path).resize((32, 32)).save(path.with_suffix(".jpg"), quality=90)
        path.unlink()
    assert set(problems(root)) == {"missing frames"}
    write_manifest(root / "frames", Manifest("jpeg", 90, 32))
    report = checked(root)
    assert not report.problems
    assert "JPEG 90, short side 32" in str(report)
    write_manifest(root / "frames", Manifest("jpeg", 90, 24))
    assert set(problems(root)) == {check.OTHER_SIZE}
    (root / "frames" / "manifest.json").write_text('{"version": 1, "format": "gif"}')
    assert "manifests that cannot be read" in problems(root)


def test_odd_boxes_are_found(root):
    name = counting_frames(root)[5]
    flat, away, out = (f"object boxes {kind}" for kind in check.ODD_BOXES)
    for box, remark in (
        ((5.0, 5.0, 0.0, 9.0), [flat]),
        ((20.0, 20.0, -9.0, 9.0), [flat]),
        ((64.0, 0.0, 9.0, 9.0), [away]),
        ((0.0, -30.0, 9.0, 30.0), [away]),
        ((50.0, 50.0, 16.5, 9.0), [out]),
        ((-3.0, 5.0, 16.5, 9.0), [out]),
        ((50.0, 50.0, 14.5, 14.5), []),
    ):
        edit(root, lambda value, box=box: visible_entry(value[name]).update(bbox=box))
        report = checked(root)
        assert (list(report.problems.examples), remarks(report)) == ([], remark)
        assert (f"{name} (" in str(report)) == bool(remark)
    box = np.array([[9, 9, 9, 20]], dtype=np.float32)
    edit(root, lambda value: value[name].update(bbox=box), PERSONS_FILE)
    assert remarks(checked(root)) == ["person boxes without an area"]


def test_all_kinds_of_problems_are_reported_in_one_run(root):
    names = counting_frames(root)

    def spoil(value):
        visible_entry(value[names[0]])["class"] = "unicorn"
        visible_entry(value[names[1]])["spatial_relationship"] = ["inside_out"]
        visible_entry(value[names[2]])["bbox"] = None
        value["../../etc/000001.png"] = value[names[3]]

    edit(root, spoil)
    (root / "frames" / names[5]).unlink()
    (root / "frames" / names[6]).write_bytes(b"x")
    found = problems(root)
    assert set(found.values()) == {1}
    patterns = ("VIDEO/NUMBER", "four numbers", "'unicorn'", "'inside_out'")
    for pattern in (*patterns, "missing", "unreadable"):
        assert len(re.findall(f".*{pattern}", "\n".join(found))) == 1
    assert len(found) == 6


def test_lengths_are_compared_with_the_published_ones(root, monkeypatch):
    lengths = {split: ActionGenome(root, split, (64, 64)).lengths for split in ("train", "test")}
    for last in (None, -1):
        here = {split: lengths_V[:last] for split, lengths_V in lengths.items()}
        (root / KNOBS_FILE).unlink(missing_ok=True)
        monkeypatch.setattr(check, "action_genome_lengths", here.get)
        assert ("not as published (1): " in str(checked(root))) == bool(last)


def test_the_command_reports_and_writes_nothing(root, capsys):
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert main(["--root", str(root), "--check"]) == 0
    assert "next: torchrun " in capsys.readouterr().out
    (root / "frames" / counting_frames(root)[0]).unlink()
    assert main(["--root", str(root), "--check"]) == 1
    assert main(["--root", "nowhere", "--check"]) == 2
    error = capsys.readouterr().err
    assert "nowhere" in error
    assert error.count("\n") == 1
    assert {path for path in before if path.exists()} == {*root.rglob("*")}
