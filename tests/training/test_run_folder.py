"""The name of a run follows from its config; its metrics can go back to a checkpoint."""

import json
import re
from dataclasses import asdict, make_dataclass, replace
from unittest import mock

import pytest

from bload import BlockSampler
from bload.errors import InputError
from tests.training.jobs import one_rank
from training.folder import RunFolder, advise_on_steps, run_name


def test_the_config_and_the_ranks_name_a_run(config):
    first, second = config(), config()
    assert run_name(first, 2) == run_name(second, 2)
    assert re.fullmatch(r"bload-dds_tiny-synthetic-s0-[0-9a-f]{8}", run_name(first, 2))
    assert len({run_name(first, ranks) for ranks in (1, 2, 4)}) == 3  # other frames per step


def test_the_name_does_not_hold_the_ranks(config):
    shared_out = {
        run_name(config(f"train.batch_slots={frames}"), ranks)
        for ranks, frames in ((1, 256), (2, 128), (4, 64))
    }
    assert len(shared_out) == 1


def change(job, line):
    """The job with another value, given as ``group.key=json``."""
    group, key, text = re.split("[.=]", line, maxsplit=2)
    return replace(job, **{group: replace(getattr(job, group), **{key: json.loads(text)})})


def test_what_changes_training_changes_the_name(config):
    changes = (
        *("train.seed=1", "train.lr=0.5", "train.batch_slots=65", "train.epochs=3"),
        *('train.amp="bf16"', "train.slots=9", "train.bptt=9", "train.ema=0.9"),
        *("train.eval_every=1", 'train.starts="wrong"', 'train.padding="repeated"'),
        *('loader.long="split"', 'loader.draw="length"', "loader.t_max=50"),
        *('loader.last="drop"', "model.width=32", 'model.weights="resnet18"'),
        *('model.time="gap"', 'model.temporal="gru"'),
        *("dataset.seed=4", "dataset.augment=null", 'dataset.augment={"flip": 0.5}'),
    )
    jobs = [config(), config("loader=mix"), *(change(config(), line) for line in changes)]
    assert len({run_name(job, 1) for job in jobs}) == len(jobs)


def test_what_does_not_change_training_does_not_change_the_name(config):
    job = config()
    for line in (
        *("train.workers=5", 'train.device="auto"', "train.log_every=3"),
        *("train.checkpoint_minutes=0", 'wandb.mode="online"', 'wandb.group="mine"'),
        *('experiment.name="mine"', 'run.resume="never"'),
        *('run.root="elsewhere"', 'model.recompute="backbone"'),
    ):
        assert run_name(change(job, line), 1) == run_name(job, 1), line


def test_a_new_key_at_its_default_leaves_names_and_folders_as_they_are(config, tmp_path):
    job, folder = config(), RunFolder(tmp_path / "earlier")
    folder.path.mkdir()
    folder.write_json(folder.config, {**asdict(job), "ranks": 1})
    keys = {**vars(job.train), "momentum": 0.5}
    newer = make_dataclass("Newer", [("momentum", float, 0.9)], bases=(type(job.train),))
    job = replace(job, train=newer(**{**keys, "momentum": 0.9}))
    assert (
        run_name(job, 1) == run_name(config(), 1) != run_name(replace(job, train=newer(**keys)), 1)
    )
    plan = BlockSampler([5, 4], t_max=job.train.batch_slots)
    folder.check_same_config(job, plan)
    with pytest.raises(InputError, match=r"train\.momentum was None and is 0\.5"):
        folder.check_same_config(replace(job, train=newer(**keys)), plan)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def sampler(ranks, batch_slots, **options):
    """Blocks of 16 slots, or batches of fewer."""
    options |= {"rank": 0, "world_size": ranks, "batch_slots": batch_slots}
    return BlockSampler([16, 9, 5], **options)


def test_a_folder_refuses_another_config_by_what_differs(folder, config):
    folder.check_same_config(config(), sampler(1, 64))
    folder.begin(config(), one_rank())
    folder.check_same_config(config("train.workers=5", "dataset.root=/moved"), sampler(1, 64))
    folder.check_same_config(config("train.batch_slots=32"), sampler(2, 32))
    with pytest.raises(InputError, match=r"on 1 rank.* set train.batch_slots=32"):
        folder.check_same_config(config(), sampler(2, 64))
    folder.check_same_config(config("run.resume=elastic"), sampler(2, 64))
    with pytest.raises(InputError, match=r": train.lr was 0.0015 and is 0.5;"):
        folder.check_same_config(config("train.lr=0.5"), sampler(1, 64))


LINES = [
    {"kind": kind, "epoch": epoch, "step": step, "after": epoch, "loss": 0.1 + epoch}
    for epoch in (1, 2, 3)
    for kind, step in [("step", 1), ("step", 2), ("step", 3), ("epoch", 3), ("eval", 3)]
]


def test_going_back_drops_exactly_the_later_lines(folder):
    def rewound(lines, epoch, step, cut=None, evaluated=3):
        folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines)[:cut])
        folder.rewind_metrics(epoch, step, evaluated)
        return [json.loads(text) for text in folder.metrics.read_text().splitlines()]

    folder.rewind_metrics(1, 0, 0)
    assert not folder.metrics.exists()
    for epoch, step, kept in ((1, 0, 0), (1, 2, 2), (2, 0, 5), (2, 1, 6), (3, 2, 12), (4, 0, 15)):
        assert rewound(LINES, epoch, step) == LINES[:kept]
    # A summary will be written again; of half a line the process was killed while it wrote.
    assert rewound([*LINES, {"kind": "summary", "epoch": 3, "step": 0}], 4, 0) == LINES
    assert rewound(LINES, 4, 0, cut=-20) == LINES[:-1]
    # An evaluation that a checkpoint does not know of will be done again.
    assert rewound(LINES, 3, 1, evaluated=1) == [*LINES[:9], LINES[10]]


@pytest.mark.parametrize("lacking", ["kind", "epoch", "step", "after"])
def test_a_line_that_lacks_something_is_named(folder, lacking):
    line = {key: value for key, value in LINES[4].items() if key != lacking}
    folder.metrics.write_text(f"{json.dumps(LINES[0])}\n{json.dumps(line)}\n")
    with pytest.raises(InputError, match=rf"metrics.jsonl, line 2, has no {lacking};"):
        folder.rewind_metrics(3, 0, 3)


def test_a_fresh_start_forgets_the_run_and_nothing_else(folder):
    for path in (folder.summary, folder.previous, folder.last, folder.best, folder.metrics):
        path.write_text("old")
        with pytest.raises(InputError, match="nothing is deleted"):
            folder.checkpoints("never")  # perhaps not a run's
    folder.config.write_text('{"loader": {}, "model": {}, "train": {}}')
    assert folder.checkpoints("never") == []
    (folder.path / "notes.txt").write_text("mine")
    folder.clear()
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json", "notes.txt"]


@pytest.mark.dist
def test_one_run_at_a_time_writes_in_a_folder(tmp_path, two_ranks, monkeypatch):
    monkeypatch.setattr("training.folder.PATIENCE", 0.1)
    folder = RunFolder(tmp_path / "run")
    with folder.lock(one_rank()):
        with pytest.raises(InputError, match="another process is writing"), folder.lock(one_rank()):
            pass
        assert two_ranks.run(refused, folder.path) == [True, True]
    with folder.lock(one_rank()):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/run cannot be written .* run.root"):
        RunFolder(tmp_path / "file" / "run").lock(one_rank()).__enter__()


def refused(ranks, path):
    """True if a rank may not write in a folder, which rank 0 alone can find out."""
    lock = RunFolder(path).lock(ranks)
    with mock.patch("training.folder.PATIENCE", 0.1), pytest.raises(InputError), lock:
        pass
    return ranks.gather("together") == ["together"] * 2


def test_a_longer_run_is_another_and_says_so(config, tmp_path):
    for epochs, ended in ((2, False), (3, True)):
        cfg = config(f"train.epochs={epochs}")
        sentence = RunFolder.for_job(cfg, 1).describe_other_epochs(cfg)
        assert ("is the same with train.epochs=2" in sentence) == ended
        begin_on(1, cfg)


def begin_on(ranks, cfg):
    """The folder of a run that has begun on some ranks."""
    folder = RunFolder.for_job(cfg, ranks)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.begin(cfg, replace(one_rank(), world_size=ranks))
    folder.last.touch()
    return folder


@pytest.mark.parametrize("packer", ["bload", "bucket", "ragged"])
@pytest.mark.parametrize("saved", [(2, 2), (3, 1), (4, 3)])
@pytest.mark.parametrize("here", [(1, 1), (1, 4), (2, 2), (4, 1), (3, 2)])
def test_advice_on_other_ranks_leads_to_the_same_steps(packer, saved, here):
    """Ranks and micro-batches of a saved run, and of the command that is to go on with it."""
    (ranks, micro_batches), (ranks_here, micro_here) = saved, here
    train = {"batch_slots": 32, "micro_batches": micro_batches}
    keys = {"batch_slots": 32, "micro_batches": micro_here}
    for _ in range(3):
        goes_on = sampler(ranks_here, packer=packer, **keys)
        if not (advice := advise_on_steps({"ranks": ranks, "train": train}, goes_on)):
            break
        assert ("elastic" in advice) == (packer == "bload")  # ragged batches cannot be regrouped
        if f"start it on {ranks} ranks" in advice:
            ranks_here = ranks
        else:
            keys |= {key: int(n) for key, n in re.findall(r"train\.(\w+)=(\d+)", advice)}
    assert not advice
    assert goes_on.definition() == sampler(ranks, packer=packer, **train).definition()


def test_a_run_that_moved_to_these_ranks_needs_its_name_alone(config):
    cfg = config()
    folder = begin_on(4, cfg)
    assert begin_on(2, config("run.resume=elastic")).path == folder.path
    here = RunFolder.for_job(cfg, 2)
    assert here.path != folder.path
    words = rf"{folder.path} .* on 2 ranks; to go on with it, set run.name={folder.path.name};"
    with pytest.raises(InputError, match=words):
        here.check_other_ranks(cfg, sampler(2, 64))
    folder.check_same_config(config(f"run.name={folder.path.name}"), sampler(2, 64))


def test_an_elastic_run_goes_on_where_one_is_unfinished_on_other_ranks(config, tmp_path):
    cfg = config("run.resume=elastic")
    folders = {ranks: RunFolder(tmp_path / "runs" / run_name(cfg, ranks)) for ranks in (2, 4)}
    assert RunFolder.for_job(cfg, 3).path.name == run_name(cfg, 3)
    for ranks, folder in folders.items():
        folder.path.mkdir(parents=True)
        folder.begin(cfg, replace(one_rank(), world_size=ranks))
        folder.last.touch()
        folder.begin(cfg, replace(one_rank(), world_size=3))  # goes on on three
        if ranks == 2:
            assert RunFolder.for_job(cfg, 3).path == RunFolder.for_job(cfg, 5).path == folder.path
    with pytest.raises(InputError, match=rf"{run_name(cfg, 2)}.* set run.name"):
        RunFolder.for_job(cfg, 3)
    assert RunFolder.for_job(cfg, 4).path == folders[4].path
    assert RunFolder.for_job(config("run.resume=elastic", "run.name=mine"), 3).path.name == "mine"
    folders[2].summary.touch()
    assert RunFolder.for_job(cfg, 3).path == folders[4].path
    folders[4].summary.touch()
    assert RunFolder.for_job(cfg, 3).path in (folders[2].path, folders[4].path)  # it has finished
    assert RunFolder.for_job(cfg, 5).path.name == run_name(cfg, 5)
    assert RunFolder.for_job(config(), 3).path.name == run_name(cfg, 3)
