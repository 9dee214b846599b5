"""A video followed frame by frame: predicted as in a block, written, drawn, and refused."""

import re
import signal
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._pytree import tree_leaves

import eval as evaluation
from datasets.build import build_source
from datasets.footage import open_footage
from datasets.prepare.decoder import Decoder
from datasets.scoring.predictions_file import read_metadata, read_predictions
from experiments import inference
from experiments.inference import Follower
from models import build_model
from models.temporal import PARTS
from tests.datasets.video_making import encode
from tests.training.jobs import compose_config, one_rank
from training.page.picture import predict_video, read_video
from training.stopping import Stopped

SIDE = 80
"""Of no picture here is a side longer."""


def assert_close(mine, others):
    assert (mine.object_classes_P == others.object_classes_P).all()
    for name, scale in (
        *(("object_scores_P", 1), ("relation_scores_PR", 1)),
        *(("person_boxes_P4", SIDE), ("object_boxes_P4", SIDE)),
    ):
        one, other = getattr(mine, name), getattr(others, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("time", ["none", "gap"])
@pytest.mark.parametrize("temporal", PARTS)
def test_frame_by_frame_is_what_the_video_gets_in_a_block(config, tmp_path, temporal, time):
    """On a canvas that frames do not fill, with gaps, and with memories that matter."""
    cfg = config(
        f"model.temporal={temporal}", f"model.time={time}", "dataset.frame_size=[40,56]",
        "model.temporal_layers=2",
    )  # fmt: skip
    torch.manual_seed(0)
    model, source = build_model(cfg.model), build_source(cfg.dataset, "test")
    for name, parameter in model.named_parameters():
        if "readout" in name or "gap" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    batch = read_video(source, 2, int(source.lengths[2]))
    for target in batch.targets:
        link = tmp_path / target.name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(source.files.path(target.name).absolute())
    train = {"starts": "table", "seed": 0, "amp": "off"}
    packed = predict_video(model, source, batch, train, torch.device("cpu"))

    def follower():
        return Follower(model, (40, 56), torch.device("cpu"), nullcontext())

    followed, held, apart = follower(), [], []
    for (number, picture_hwC), wanted in zip(open_footage(link.parent), packed, strict=True):
        assert_close(followed(number, picture_hwC), wanted)
        held.append(sum(leaf.numel() for leaf in tree_leaves(followed._state) if leaf is not None))
        alone = follower()(number, picture_hwC)
        apart.append(np.abs(alone.relation_scores_PR - wanted.relation_scores_PR).max())
    assert len(held) == 23
    assert max(np.diff([target_number(t) for t in batch.targets])) > 1
    assert (max(apart) > 1e-3) == (temporal != "none" or time == "gap")
    assert (len({*held}) == len(held)) == (temporal == "attention")
    assert temporal == "attention" or len({*held}) == 1


def target_number(target):
    return int(Path(target.name).stem)


def squares(frames=20, hw=(48, 80)):
    """Pictures with a bright square that moves."""
    pictures = np.full((frames, *hw, 3), 30, np.uint8)
    for place, picture in enumerate(pictures):
        picture[10:30, 2 * place : 2 * place + 20] = (200, 60, 60)
    return pictures


def follow(capsys, finished, video, out, *more):
    lines = [f"checkpoint={finished}", f"video={video}", f"out={out}", "device=cpu", *more]
    evaluation.main(compose_config("eval", lines))
    return capsys.readouterr().out


def test_a_video_is_predicted_and_drawn_at_the_rate_that_is_asked_for(
    finished, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(inference, "GROUP", 3)
    video, out = encode(tmp_path / "my film.mp4", squares()), tmp_path / "a" / "out"
    said = follow(capsys, finished, video, out, "fps=10", "threshold=0.05")
    assert re.search(
        r"my film\.mp4: 7 frames looked at, 10 of each second; .* at \d+\.\d frames/s\n", said
    )
    assert {file.name for file in out.iterdir()} == {"predictions.parquet", "annotated.mp4"}
    found = dict(read_predictions(out / "predictions.parquet"))
    assert [*found] == [f"my film.mp4/{number:06d}.png" for number in range(1, 20, 3)]
    made = read_metadata(out / "predictions.parquet")
    assert (made["checkpoint"], made["rate"]) == (str(finished / "last.pt"), 10)

    frames, shown = tmp_path / "my film", open_footage(out / "annotated.mp4")
    assert (shown.rate, len([*shown])) == (10, 7)
    frames.mkdir()
    for number, image in Decoder().decode(video, range(1, 20, 3)):
        image.save(frames / f"shot{number}.png")
    said = follow(capsys, finished, frames, tmp_path / "again", "fps=10")
    again = dict(read_predictions(tmp_path / "again" / "predictions.parquet"))
    for one, other in zip(found.values(), again.values(), strict=True):
        assert_close(one, other)

    before = (out / "predictions.parquet").read_bytes()
    follow(capsys, finished, video, out, "fps=10")  # the same job again
    assert (out / "predictions.parquet").read_bytes() == before


def test_what_is_drawn_follows_from_the_threshold(finished, tmp_path, capsys):
    video = encode(tmp_path / "film.mp4", squares(3))
    sizes = []
    for threshold in (0, 1):
        out = tmp_path / str(threshold)
        said = follow(capsys, finished, video, out, f"threshold={threshold}")
        lower = re.search(r"none reaches threshold=1, .* (\S+); threshold=(\S+) would", said)
        assert bool(lower) == (threshold == 1)
        _, picture_hwC = next(iter(open_footage(out / "annotated.mp4")))
        panel_hwC = picture_hwC[:, -380:]
        sizes.append((panel_hwC.min(-1) < 128).sum())
    assert sizes[0] > 3 * sizes[1] > 0
    assert 0 < float(lower[2]) < float(lower[1]) < 1
    said = follow(capsys, finished, video, tmp_path / "lower", f"threshold={lower[2]}")
    assert "no relation" not in said


def test_what_cannot_be_followed_is_said_in_a_sentence(sentence, finished, tmp_path):
    junk, empty, held = tmp_path / "junk.mp4", tmp_path / "empty", tmp_path / "held"
    junk.write_text("no video")
    empty.mkdir()
    held.mkdir()
    (held / "notes.txt").touch()
    film = encode(tmp_path / "film.mp4", squares(2))
    for lines, words in (
        ([f"video={tmp_path / 'none.mp4'}"], r"there is no .*none\.mp4; give a video or a folder"),
        ([f"video={junk}"], r"junk\.mp4 cannot be read as a video \(.*\); give a file that ffmpeg"),
        ([f"video={empty}"], r"empty holds no frame \(\.png, .*\); give a video or a folder"),
        ([f"video={film}", f"out={held}"], r"out=.*held holds notes\.txt; give a new folder"),
        ([f"video={film}", f"out={junk}"], r"out=.*junk\.mp4 cannot be made a folder"),
        ([f"video={film}", "out=null"], r"needs a folder for what is made; give out=FOLDER"),
        ([f"video={film}", "split=train"], r"split=train is for the evaluation on a data set"),
        ([f"video={film}", "pictures=2"], r"pictures=2 is for the evaluation on a data set"),
        ([f"video={film}", "fps=0"], r"fps is 0"),
        (["fps=3"], r"fps is for video=; give video=FILE too"),
    ):
        said = sentence(evaluation, f"checkpoint={finished}", f"out={tmp_path / 'out'}", *lines)
        assert re.search(words, said), said
    for name in ("a.pt", "b.pt"):
        (held / name).touch()
    said = sentence(evaluation, f"checkpoint={held}", f"video={film}", f"out={tmp_path / 'out'}")
    assert "held holds 2 checkpoints and video= takes one, such as checkpoint=" in said
    assert not [*tmp_path.glob("out/*")]


def test_predictions_of_another_video_are_not_written_over(sentence, finished, tmp_path, capsys):
    one, other = (encode(tmp_path / f"{name}.mp4", squares(2)) for name in ("one", "other"))
    follow(capsys, finished, one, tmp_path / "out")
    lines = f"checkpoint={finished}", f"out={tmp_path / 'out'}", "device=cpu"
    said = sentence(evaluation, f"video={other}", *lines)
    assert re.search(r"out=.* holds the predictions of .*last\.pt for .*one\.mp4; give", said)


def test_nothing_stays_of_a_video_that_fails_in_the_middle(sentence, finished, tmp_path):
    frames = tmp_path / "frames"
    frames.mkdir()
    for place, picture in enumerate(squares(4)):
        Image.fromarray(picture[: 48 - place // 3]).save(frames / f"{place}.png")
    lines = f"checkpoint={finished}", f"video={frames}", f"out={tmp_path / 'out'}"
    said = sentence(evaluation, *lines, "device=cpu")
    assert "3.png is 80 x 47 pixels and those before it are 80 x 48" in said
    assert not [*(tmp_path / "out").iterdir()]


def test_a_signal_ends_it_between_two_frames_and_leaves_nothing(finished, tmp_path):
    film, out = encode(tmp_path / "film.mp4", squares(3)), tmp_path / "out"
    ranks = one_rank()
    ranks.stop.number = signal.SIGTERM
    lines = [f"checkpoint={finished}", f"video={film}", f"out={out}"]
    with pytest.raises(Stopped, match="the same command goes on from the beginning of this video"):
        inference.follow_video(compose_config("eval", lines), ranks)
    assert not [*out.iterdir()]
