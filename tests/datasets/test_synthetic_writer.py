import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.unpickler import read_pickle
from datasets.synthetic import ensure, make, writer
from datasets.synthetic.__main__ import main

TINY = {"train_videos": 2, "test_videos": 1, "image_size": 32, "progress": False}


def digest(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_the_same_knobs_write_the_same_bytes(tmp_path):
    one, two = make(tmp_path / "one", **TINY), make(tmp_path / "two", **TINY)
    assert digest(one) == digest(two)
    assert digest(one) != digest(make(tmp_path / "three", **TINY, seed=1))


def test_the_files_have_action_genomes_structure(small_root):
    entries_of = read_pickle(small_root / "annotations" / "object_bbox_and_relationship.pkl")
    person_of = read_pickle(small_root / "annotations" / "person_bbox.pkl")
    assert list(entries_of) == list(person_of)
    listed = (small_root / "annotations" / "frame_list.txt").read_text().split()
    assert listed == list(entries_of)
    for name, entries in entries_of.items():
        assert (small_root / "frames" / name).is_file()
        for entry in entries:
            assert list(entry) == [
                "class",
                "bbox",
                "attention_relationship",
                "spatial_relationship",
                "contacting_relationship",
                "metadata",
                "visible",
            ]
            if entry["visible"]:
                assert isinstance(entry["bbox"], tuple)
            else:
                assert [entry[key] for key in list(entry)[1:5]] == [None] * 4
            assert entry["metadata"]["set"] in name
        person = person_of[name]
        rows = len(person["bbox"])
        assert person["bbox"].shape == (rows, 4)
        assert person["keypoints"].shape == (rows, 17, 3)
    objects = (small_root / "annotations" / "object_classes.txt").read_text().split()
    assert (len(objects), objects[0], objects[8]) == (36, "person", "closetcabinet")
    relations = (small_root / "annotations" / "relationship_classes.txt").read_text().split()
    assert (len(relations), relations[1]) == (26, "notlookingat")


def test_ensure_makes_once_and_then_leaves_alone(tmp_path, monkeypatch):
    root = ensure(tmp_path / "deep" / "root", **TINY)
    monkeypatch.setattr(writer, "paint", None)
    assert ensure(root, **TINY) == root


def test_ensure_refuses_a_root_of_other_knobs_and_says_which(tmp_path):
    root = ensure(tmp_path / "root", **TINY)
    with pytest.raises(InputError, match=r"seed is 0 there and 4 here; remove it"):
        ensure(root, **TINY, seed=4)


def test_ensure_refuses_a_folder_that_holds_something_else(tmp_path):
    (tmp_path / "annotations").mkdir()
    with pytest.raises(InputError, match="exists and is not empty"):
        ensure(tmp_path, **TINY)
    assert (tmp_path / "annotations").is_dir()


def test_make_never_writes_over_a_root(tmp_path):
    root = make(tmp_path / "root", **TINY)
    with pytest.raises(InputError, match="exists and is not empty"):
        make(root, **TINY)


def test_an_interrupted_make_leaves_no_root_and_the_next_one_completes(tmp_path, monkeypatch):
    paint, drawn = writer.paint, []

    def interrupted(script, position):
        if len(drawn) == 5:
            raise KeyboardInterrupt
        drawn.append(position)
        return paint(script, position)

    monkeypatch.setattr(writer, "paint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ensure(tmp_path / "root", **TINY)
    assert not (tmp_path / "root").exists()
    assert (tmp_path / ".root.partial").exists()
    monkeypatch.setattr(writer, "paint", paint)
    root = ensure(tmp_path / "root", **TINY)
    assert not (tmp_path / ".root.partial").exists()
    assert len(ActionGenome(root, "train", (32, 32)).videos) == 2


def test_processes_that_ask_together_get_one_root(tmp_path, monkeypatch):
    written, write_root = [], writer._write_root
    monkeypatch.setattr(
        writer, "_write_root", lambda *values: (written.append(1), write_root(*values))
    )
    with ThreadPoolExecutor(3) as pool:
        roots = list(pool.map(lambda _: ensure(tmp_path / "root", **TINY), range(3)))
    assert roots == [tmp_path / "root"] * 3
    assert len(written) == 1


def test_making_a_root_says_so_before_it_takes_its_time(tmp_path, capsys):
    ensure(tmp_path / "root", train_videos=2, test_videos=1, image_size=32)
    assert capsys.readouterr().out.startswith(f"making {tmp_path / 'root'}: 3 videos, ")
    ensure(tmp_path / "root", train_videos=2, test_videos=1, image_size=32)
    ensure(tmp_path / "quiet", progress=False, train_videos=2, test_videos=1, image_size=32)
    assert capsys.readouterr().out == ""


def test_the_command_makes_a_root_and_tells_errors_in_one_sentence(tmp_path, capsys):
    command = ["--root", str(tmp_path / "root")]
    knobs = ["--train-videos", "2", "--test-videos", "1", "--image-size", "32"]
    assert main(command + knobs) == 0
    assert json.loads((tmp_path / "root" / "synthetic.json").read_text())["train_videos"] == 2
    assert main(command) == 2
    assert "error: the synthetic root" in capsys.readouterr().err
