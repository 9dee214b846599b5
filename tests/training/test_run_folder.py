"""The name of a run follows from its config; its metrics can go back to a checkpoint."""

import json
import re
from dataclasses import asdict, make_dataclass, replace
from unittest import mock

import pytest

from bload.errors import InputError
from tests.training.jobs import one_rank
from training.folder import RunFolder, run_name
from training.run import find_run
from training.stopping import AgreedError


def test_the_config_and_the_slots_of_a_step_name_a_run(config):
    names = [run_name(config(), ranks) for ranks in (1, 2, 2, 4)]
    assert re.fullmatch(r"bload-dds_tiny-synthetic-s0-[0-9a-f]{8}", names[0])
    assert len({*names}) == 3
    shared = [(1, 256), (2, 128), (4, 64)]
    shared = {run_name(config(f"train.batch_slots={slots}"), ranks) for ranks, slots in shared}
    assert len(shared) == 1
    blocks = [(47, 4), (94, 2), (100, 2)]  # 4, 2 and 2 blocks of 94
    names = [run_name(config("loader.t_max=94", f"train.batch_slots={s}"), r) for s, r in blocks]
    assert names[0] != names[1] == names[2]


def test_what_changes_training_changes_the_name_and_nothing_else_does(config):
    job = config()

    def name(line):
        group, key, text = re.split("[.=]", line, maxsplit=2)
        part = replace(getattr(job, group), **{key: json.loads(text)})
        return run_name(replace(job, **{group: part}), 1)

    lines = ("train.seed=1", "train.lr=0.5", "train.batch_slots=65", 'train.starts="wrong"')
    lines += ('loader.long="split"', "model.width=32", 'model.weights="resnet18"')
    lines += ("dataset.seed=4", "dataset.augment=null", 'dataset.augment={"flip": 0.5}')
    assert len({run_name(job, 1), *map(name, lines)}) == 1 + len(lines)
    for line in ("train.workers=5", 'wandb.mode="online"', 'model.recompute="backbone"'):
        assert name(line) == run_name(job, 1), line


def test_a_new_key_at_its_default_leaves_names_and_folders_as_they_are(config, tmp_path):
    job, folder = config(), RunFolder(tmp_path)
    folder.write_json(folder.config, {**asdict(job), "ranks": 1})
    keys = {**vars(job.train), "momentum": 0.5}
    newer = make_dataclass("Newer", [("momentum", float, 0.9)], bases=(type(job.train),))
    same = replace(job, train=newer(**{**keys, "momentum": 0.9}))
    other = replace(job, train=newer(**keys))
    assert run_name(same, 1) == run_name(job, 1) != run_name(other, 1)
    folder.check_same_config(same, 1)
    with pytest.raises(InputError, match=r"train\.momentum was 0\.9 and is 0\.5"):
        folder.check_same_config(other, 1)


def test_a_folder_takes_a_config_that_trains_the_same(config, tmp_path):
    folder = RunFolder(tmp_path)
    folder.check_same_config(config(), 1)
    folder.begin(config(), one_rank())
    folder.check_same_config(config("train.workers=5", "dataset.root=/moved", "run.name=x"), 1)


def test_a_finished_run_is_of_its_data_and_its_steps_alone(config, tmp_path):
    folder = RunFolder(tmp_path)
    folder.begin(config("train.batch_slots=128"), one_rank())
    folder.write_json(folder.summary, {"t_max": 60})
    folder.check_same_config(config("train.batch_slots=64"), 2)
    folder.check_same_config(config("train.batch_slots=128", "run.resume=elastic"), 2)
    for slots, ranks, line in (
        (128, 1, "train.micro_batches=2"),
        (128, 1, "dataset.root=/moved"),
        (128, 1, "dataset.root=/moved run.resume=elastic"),
        (32, 2, "train.micro_batches=2"),  # the same slots, of four blocks in place of two
    ):
        with pytest.raises(InputError, match=r"dataset\.root was|its steps had 1"):
            folder.check_same_config(config(f"train.batch_slots={slots}", *line.split()), ranks)
    for line in ("loader.balance=queue", "train.sync=local"):  # whose steps are of the ranks
        folder.begin(cfg := config("train.batch_slots=128", line), one_rank())
        folder.write_json(folder.summary, {"t_max": 60})
        folder.check_same_config(cfg, 1)
        with pytest.raises(InputError, match="the number of ranks was 1 and is 2"):
            folder.check_same_config(config("train.batch_slots=64", line), 2)
    folder.check_same_config(config("run.resume=never"), 2)


def test_a_name_stays_in_the_folder_of_runs(config, tmp_path):
    with pytest.raises(InputError, match=r"run\.name is \.\., a folder outside of run\.root"):
        find_run(config("run.name=.."), one_rank())
    (tmp_path / "runs").mkdir()
    with pytest.raises(AgreedError, match="name too long"):
        find_run(config(f"run.name={'x' * 300}"), one_rank())


LINES = [
    {"kind": kind, "epoch": epoch, "step": step, "loss": 0.1 + epoch}
    | ({"after": epoch} if kind == "eval" else {})
    for epoch in (1, 2, 3)
    for kind, step in [("step", 1), ("step", 2), ("step", 3), ("epoch", 3), ("eval", 3)]
]


def test_going_back_drops_exactly_the_later_lines(tmp_path):
    folder = RunFolder(tmp_path)

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


def refused(ranks, path):
    """True if a rank may not write in a folder, which rank 0 alone can find out."""
    lock = RunFolder(path).lock(ranks)
    with mock.patch("training.folder.PATIENCE", 0.1), pytest.raises(InputError), lock:
        pass
    return ranks.gather("together") == ["together"] * 2
