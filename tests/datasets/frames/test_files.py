import pytest

from bload.errors import InputError
from datasets.annotations.read import PERSONS_FILE
from tests.datasets.annotations.making import edit
from tests.datasets.box_root import open_root, write_box_root

NAME = "A.mp4/000004.png"


@pytest.fixture
def root(tmp_path):
    return write_box_root(tmp_path / "root", {"A.mp4": ((40, 24), [(1, 1, 9, 9)] * 3)})


def test_a_bad_frame_is_named_and_never_replaced(root):
    path, source = root / "frames" / NAME, open_root(root, "train", (24, 40))
    edit(root, lambda value: [p.update(bbox_size=(64, 48)) for p in value.values()], PERSONS_FILE)
    larger = open_root(root, "train", (24, 40))
    with pytest.raises(InputError, match=r"A.mp4/000001.png is 40 x 24 pixels .* for 64 x 48"):
        larger.read(0, 0, 3)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=rf"{NAME} cannot be read"):
        source.read(0, 0, 3)
    path.unlink()
    with pytest.raises(InputError, match=rf"{NAME} is missing"):
        source.read(0, 0, 3)


def test_all_missing_frames_are_reported_together_before_any_is_read(root):
    files = open_root(root, "train", (24, 40)).files
    names = [NAME, "A.mp4/000002.png", *(f"B.mp4/{number:06d}.png" for number in range(1, 5))]
    with pytest.raises(InputError, match=r"missing frames \(5\): A.mp4/000002.png; .* and 2 more"):
        files.check_all_exist(names)
