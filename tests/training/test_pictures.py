"""Pictures show what the measure counts, for the same videos every time."""

from tests.datasets.box_root import open_root
from tests.datasets.scoring.drawing import cup_frame
from training.report.album import Album


def test_an_album_draws_the_videos_it_saw(data_root, tmp_path):
    source = open_root(data_root, "test", (32, 32))
    album = Album(source, 2)
    targets = source.videos[3].frames
    album.keep(targets, [cup_frame(target.name, [], [[6, 20]])[0] for target in targets])
    album.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{source.names[3]}.png"]
