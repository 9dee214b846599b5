import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bload.lengths import action_genome_lengths
from datasets.verify import verify
from datasets.verify.__main__ import main
from datasets.verify.published import compare_lengths
from tests.datasets.box_root import write_box_root

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(small_root, tmp_path):
    return Path(shutil.copytree(small_root, tmp_path / "root"))


def checked(root, **options):
    return verify(root, small_boxes="keep", progress=False, workers=2, **options)


def counts(root, **options):
    return checked(root, **options).problems.counts()


def edit(root, change, file="object_bbox_and_relationship.pkl"):
    path = root / "annotations" / file
    value = pickle.loads(path.read_bytes())
    change(value)
    path.write_bytes(pickle.dumps(value))


def counting_frames(root):
    """Frames with a visible object and a person, as the files say it."""
    folder = root / "annotations"
    entries_of = pickle.loads((folder / "object_bbox_and_relationship.pkl").read_bytes())
    person_of = pickle.loads((folder / "person_bbox.pkl").read_bytes())
    return [
        name
        for name, entries in entries_of.items()
        if any(entry["visible"] for entry in entries) and len(person_of[name]["bbox"])
    ]


def visible_entry(entries):
    return next(entry for entry in entries if entry["visible"])


@pytest.mark.parametrize("decode", [False, True])
def test_a_whole_root_has_no_problem_and_its_counts_are_those_of_its_files(root, decode):
    report = checked(root, decode=decode)
    assert not report.problems
    needed = counting_frames(root)
    assert report.frames.needed == report.frames.there == report.frames.checked == len(needed)
    assert report.frames.annotated == len(list(root.glob("frames/*/*.png")))
    assert sum(counts.frames for counts in report.counts.values()) == len(needed)
    text = str(report)
    assert "everything that is needed is there" in text
    assert "published are 7,464 videos, 166,785 frames" in text


def test_a_root_of_annotations_alone_is_told_what_is_still_missing(root, capsys):
    shutil.rmtree(root / "frames")
    (root / "synthetic.json").unlink()
    assert main(["--root", str(root), "--small-boxes", "keep"]) == 1
    text = capsys.readouterr().out
    needed = len(counting_frames(root))
    assert f"0 of {needed:,} are there" in text
    assert f"missing frames ({needed:,}): " in text
    assert f"python -m datasets.prepare --root {root} writes missing frames" in text
    assert "synthetic" not in text


def test_a_missing_frame_that_counts_is_a_problem_and_another_is_not(root):
    needed = counting_frames(root)
    entries = pickle.loads((root / "annotations" / "object_bbox_and_relationship.pkl").read_bytes())
    other = next(name for name in entries if name not in needed)
    (root / "frames" / other).unlink()
    assert counts(root) == {}
    (root / "frames" / needed[0]).unlink()
    report = checked(root)
    assert report.problems.examples() == {"missing frames": [str(root / "frames" / needed[0])]}
    assert report.frames.annotated_there == report.frames.annotated - 2


@pytest.mark.parametrize("content", [b"", b"not an image", "truncated", "flipped"])
def test_a_frame_that_cannot_be_read_is_named(root, content):
    path = root / "frames" / counting_frames(root)[3]
    data = bytearray(path.read_bytes())
    if content == "truncated":
        data = data[:-20]
    elif content == "flipped":
        data[len(data) // 2] ^= 1
    else:
        data = content
    path.write_bytes(data)
    report = checked(root)
    assert report.problems.counts() == {"unreadable frames": 1}
    assert str(path) in str(report)


def test_a_frame_of_another_size_is_named_with_both(root):
    path = root / "frames" / counting_frames(root)[0]
    Image.new("RGB", (32, 48)).save(path)
    report = checked(root)
    assert report.problems.examples() == {
        "frames of another size than annotated": [f"{path} is 32 x 48, not 64 x 64"]
    }


def manifest(root, **said):
    plain = {"version": 1, "format": "jpeg", "quality": 90, "short_side": 32}
    text = json.dumps(plain | {"decoder": "d", "encoder": "e"} | said)
    (root / "frames" / "manifest.json").write_text(text)


def test_frames_stored_as_the_manifest_says_are_right(root):
    for path in root.glob("frames/*/*.png"):
        Image.open(path).resize((32, 32)).save(path.with_suffix(".jpg"), quality=90)
        path.unlink()
    assert set(counts(root)) == {"missing frames"}
    manifest(root)
    report = checked(root, decode=True)
    assert not report.problems
    assert "JPEG files of quality 90, short side 32" in str(report)
    manifest(root, short_side=24)
    assert set(counts(root)) == {"frames of another size than annotated"}


def test_a_manifest_that_is_broken_or_does_not_fit_is_a_problem(root):
    manifest(root, format="png", quality=None, short_side=None, checksum="sha256:0", complete=True)
    assert set(counts(root)) == {"frames folders that are not as their manifest says"}
    manifest(root, format="gif")
    assert "manifests that cannot be read" in counts(root)


def test_orphans_are_a_remark(root):
    (root / "frames" / "unknown.mp4").mkdir()
    for name in ("000001.png", "000002.png"):
        (root / "frames" / "unknown.mp4" / name).write_bytes(b"")
    report = checked(root)
    assert not report.problems
    assert report.frames.orphans == 2
    assert "files in frames/ that no annotation asks for (2)" in str(report)


@pytest.mark.parametrize(
    ("box", "problem", "remark"),
    [
        ((5.0, 5.0, 0.0, 9.0), "object boxes without an area", None),
        ((20.0, 20.0, -9.0, 9.0), "object boxes without an area", None),
        ((64.0, 0.0, 9.0, 9.0), "object boxes outside the image", None),
        ((0.0, -30.0, 9.0, 30.0), "object boxes outside the image", None),
        ((50.0, 50.0, 16.5, 9.0), None, "object boxes partly outside the image"),
        ((-3.0, 5.0, 16.5, 9.0), None, "object boxes partly outside the image"),
        ((50.0, 50.0, 14.5, 14.5), None, None),
    ],
)
def test_odd_boxes_are_found(root, box, problem, remark):
    name = counting_frames(root)[5]
    edit(root, lambda value: visible_entry(value[name]).update(bbox=box))
    report = checked(root)
    assert set(report.problems.counts()) == {problem} - {None}
    assert set(report.remarks.counts()) == {remark} - {None}
    assert (f"{name} (box 1: " in str(report)) == bool(problem or remark)


def test_a_person_without_an_area_is_found(root):
    name = counting_frames(root)[5]
    box = np.array([[9, 9, 9, 20]], dtype=np.float32)
    edit(root, lambda value: value[name].update(bbox=box), "person_bbox.pkl")
    assert counts(root) == {"person boxes without an area": 1}


def test_all_kinds_of_problems_are_told_in_one_run(root):
    names = counting_frames(root)

    def spoil(value):
        visible_entry(value[names[0]])["class"] = "unicorn"
        visible_entry(value[names[1]])["spatial_relationship"] = ["inside_out"]
        visible_entry(value[names[2]])["bbox"] = None
        value["../../etc/000001.png"] = value[names[3]]
        visible_entry(value[names[4]])["bbox"] = (1.0, 1.0, 0.0, 0.0)

    edit(root, spoil)
    (root / "frames" / names[5]).unlink()
    (root / "frames" / names[6]).write_bytes(b"x")
    (root / "annotations" / "object_classes.txt").write_text("person\nunicorn\n")
    assert counts(root) == {
        "class lists that do not agree with the vocabulary": 1,
        "frame names not of the form VIDEO/NUMBER.png": 1,
        "frames in which a box is not four numbers within 1,000,000 pixels": 1,
        "frames in which object class 'unicorn' is not one of the 36 of Action Genome": 1,
        "frames in which relation 'inside_out' is not a spatial_relationship, which are: above, "
        "beneath, in_front_of, behind, on_the_side_of, in": 1,
        "object boxes without an area": 1,
        "missing frames": 1,
        "unreadable frames": 1,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: ["unicorn", *lines[1:]], "'unicorn' as class 1, not 'person'"),
        (lambda lines: lines[:-1], "35 classes, not 36"),
        (lambda lines: [*lines, "more"], "37 classes, not 36"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "'bag' as class 1"),
    ],
)
def test_class_lists_that_differ_are_told(root, change, said):
    path = root / "annotations" / "object_classes.txt"
    path.write_text("\n".join(change(path.read_text().split())))
    assert said in str(checked(root))


def test_class_lists_may_be_absent_or_spelt_with_separators(root):
    (root / "annotations" / "relationship_classes.txt").unlink()
    path = root / "annotations" / "object_classes.txt"
    path.write_text(path.read_text().replace("sofacouch", "sofa/couch") + "\n")
    report = checked(root)
    assert not report.problems
    assert "relationship_classes.txt" in str(report)


def test_the_published_file_is_compared_with_the_computed_rule(root):
    source = root / "annotations" / "object_bbox_and_relationship.pkl"
    small = root / "annotations" / "object_bbox_and_relationship_filtersmall.pkl"
    value = pickle.loads(source.read_bytes())
    small_of = {
        name: [e for e in entries if not e["visible"] or min(e["bbox"][2:]) > 16]
        for name, entries in value.items()
    }
    small.write_bytes(pickle.dumps(small_of))
    kind = "frames where --small-boxes computed leaves other objects than the file does"
    assert kind not in verify(root, progress=False).remarks.counts()
    name = counting_frames(root)[0]
    small_of[name] = []
    small.write_bytes(pickle.dumps(small_of))
    assert verify(root, progress=False).remarks.counts()[kind] == 1


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_published_lengths_are_as_published_and_one_video_less_is_not(split):
    lengths = action_genome_lengths(split)
    assert compare_lengths(lengths, split).same
    fewer = compare_lengths(lengths[1:], split)
    assert not fewer.same
    assert fewer.lengths == {3: (np.sum(lengths == 3) - 1, np.sum(lengths == 3))}
    assert f"3 frames: {np.sum(lengths == 3) - 1} here, {np.sum(lengths == 3)} published" in str(
        fewer
    )


def test_counts_that_are_not_published_fail_only_if_asked(root):
    assert main(["--root", str(root)]) == 0
    assert main(["--root", str(root), "--published"]) == 1


def test_the_report_for_machines_has_counts_and_problems(root, tmp_path):
    (root / "frames" / counting_frames(root)[0]).unlink()
    out = tmp_path / "report.json"
    assert main(["--root", str(root), "--out", str(out)]) == 1
    said = json.loads(out.read_text())
    assert said["ok"] is False
    assert said["problems"][0]["kind"] == "missing frames"
    assert said["splits"]["train"]["steps"][-1]["videos"] == 8
    assert said["frames"]["there"] == said["frames"]["needed"] - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--root", "nowhere"], "nowhere holds no Action Genome"),
        (["--root", "nowhere", "--workers", "0"], "--workers is 0"),
        (["--root", "nowhere", "--out", "no/folder/r.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_verified_is_one_sentence_and_status_2(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_real_root_reads_the_published_file_unless_told(root, capsys):
    (root / "synthetic.json").unlink()
    assert main(["--root", str(root)]) == 2
    assert "filtersmall.pkl" in capsys.readouterr().err
    assert main(["--root", str(root), "--small-boxes", "computed"]) in (0, 1)


def test_verifying_without_decoding_needs_no_torch(root):
    code = "import sys; sys.modules['torch'] = None; from datasets.verify.__main__ import main; "
    code += f"sys.exit(main(['--root', {str(root)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_the_advice_is_for_what_made_the_frames(root, damage):
    damage(root / "frames" / counting_frames(root)[0])
    again = "1 problem; this root is synthetic: have it drawn anew at another --root"
    assert str(checked(root)).endswith(again)
    (root / "videos").mkdir()
    again = "1 problem; make the frames that are named again, as the others were made"
    assert str(checked(root)).endswith(again)
    manifest(root, format="png", quality=None, short_side=None)
    assert f"1 problem; python -m datasets.prepare --root {root} " in str(checked(root))


def test_frames_whose_origin_is_not_told_are_not_said_to_be_of_one(root):
    manifest(root, format="png", quality=None, short_side=None, decoder="")
    assert "frames: PNG files, native size\n" in str(checked(root))


def test_a_report_into_a_folder_is_refused_before_the_work(tmp_path, capsys):
    assert main(["--root", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "cannot be written; name a file" in capsys.readouterr().err


def test_a_video_in_two_sizes_is_a_problem_as_it_is_for_training(tmp_path):
    root = write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 4)})
    path = root / "annotations" / "person_bbox.pkl"
    person_of = pickle.loads(path.read_bytes())
    person_of["A.mp4/000007.png"]["bbox_size"] = (24, 40)
    path.write_bytes(pickle.dumps(person_of))
    problems = verify(root, small_boxes="keep", progress=False).problems.counts()
    assert problems["frames annotated in another size than their video"] == 1


def test_a_picture_that_turns_when_decoded_is_of_another_size_as_for_training(tmp_path):
    root = write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 4)})
    path = root / "frames" / "A.mp4" / "000004.png"
    with Image.open(path) as image:
        turned = image.getexif()
        turned[0x0112] = 6  # orientation: a quarter turn
        image.save(path, exif=turned)
    problems = verify(root, small_boxes="keep", decode=True, progress=False).problems
    assert problems.counts()["frames of another size than annotated"] == 1
