"""What pip installs is the library's folder, it loads little, and the example runs."""

import json
import runpy
import sys
import tarfile
import zipfile

import pytest

import bload
from tests.installation import ROOT, Environment, build, run

SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on


def test_the_example_on_own_data_learns(capsys):
    runpy.run_path(str(ROOT / "examples/own_data.py"))
    plan, loss = capsys.readouterr().out.splitlines()
    assert "blocks of 30, " in plan
    assert float(loss.removeprefix("loss ")) < 0.3  # it begins at log 2


def test_the_main_names_are_shown_and_the_library_loads_nothing_of_its_own():
    """Beside its own modules: only what torch and numpy have loaded, and Python's own."""
    script = """
import json, sys
import numpy.random, numpy.typing, torch, torch.distributed, torch.utils.data
before = {*sys.modules}
import bload
shown = dir(bload)
from bload import *
print(json.dumps([shown, sorted({*sys.modules} - before)]))
"""
    shown, names = json.loads(run([sys.executable, "-c", script], cwd=ROOT))
    assert {*shown} == {*bload.__all__, "__version__"}
    roots = {name.split(".")[0] for name in names}
    assert roots - sys.stdlib_module_names == {"bload"}, names


def test_plans_need_no_torch():
    """Its import takes seconds; a command that packs lengths should not wait for it."""
    script = "import sys, bload; bload.make_plan([3], 'bload'); print('torch' in sys.modules)"
    assert run([sys.executable, "-c", script], cwd=ROOT) == "False\n"


@pytest.mark.slow
def test_wheel_and_sdist_hold_the_library_and_nothing_else(wheel, checkout, tmp_path):
    names = {*zipfile.ZipFile(wheel).namelist()}
    folders = {name.split("/")[0] for name in names}
    assert folders == {"bload", f"bload-{bload.__version__}.dist-info"}
    assert {"bload/py.typed", "bload/data/action_genome_lengths.json"} <= names
    (tmp_path / "sdist").mkdir()
    sdist = build(checkout, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", **SAFELY)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    python = {path.relative_to(unpacked) for path in unpacked.rglob("*.py")}
    assert {path.parts[0] for path in python} == {"bload"}


@pytest.mark.slow
def test_datasets_of_hugging_face_are_read_whole_and_as_streams(wheel, tmp_path):
    environment = Environment(tmp_path / "environment", wheel, "datasets>=4,<6")
    script = """
import torch
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from bload import BlockLoader, StreamBlocks, StreamLoader, from_dataset

items = {"input_ids": [[5, 6, 7], [8], [9, 10]], "labels": [[0, 1, 0], [1], [1, 1]]}
for shape in (None, "torch", "numpy"):
    data = Dataset.from_dict(items).with_format(shape)
    source = from_dataset(data, length="input_ids", targets="labels")
    (batch,) = BlockLoader(source, t_max=6)
    for s, (ids, labels) in enumerate(zip(*items.values())):
        here = batch.sequence_BT == s
        assert batch.inputs_BT["input_ids"][here].tolist() == ids
        assert batch.targets_BT[here].tolist() == labels

stream = Dataset.from_dict({"x": [float(i) for i in range(40)]}).to_iterable_dataset(num_shards=4)
halves = [split_dataset_by_node(stream, rank, 2) for rank in (0, 1)]


found = []
for rank, half in enumerate(halves):
    options = {"rank": rank, "world_size": 2, "sharded": True}
    blocks = StreamBlocks(half, 8, decode=lambda row: torch.tensor([row["x"]]), **options)
    found += [x for b in StreamLoader(blocks) for x in b.inputs_BT[b.start_BT].tolist()]
assert sorted(found) == [float(i) for i in range(40)]
print("as given")
"""
    assert environment.run("-c", script, cwd=tmp_path) == "as given\n"
