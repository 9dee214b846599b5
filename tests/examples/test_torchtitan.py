"""torchtitan's own training with blocks on two CPU ranks, in an environment of its own."""

import json
from string import ascii_lowercase

import pytest

from bload import BlockSampler
from tests.installation import ROOT, Environment, torchrun

FOLDER = ROOT / "examples/trainers"
LETTERS = {letter: n for n, letter in enumerate("_" + ascii_lowercase)}  # padding is 0
TEXTS = [[1 + (7 * n + k * k) % 26 for k in range(2 + 5 * n % 23)] for n in range(24)]
EPOCH = BlockSampler([*map(len, TEXTS)], t_max=24, rank=0, world_size=2).steps
DDP = "--parallelism.data_parallel_replicate_degree=2 --parallelism.data_parallel_shard_degree=1"
ARGUMENTS = f"""--module=with_torchtitan --config=debug_model --hf_assets_path=.
    --dataloader.dataset_path=texts --training.seq_len=24 --training.local_batch_size=1
    --training.steps={2 * EPOCH} --training.mixed_precision_param=float32
    --training.disable_cuda_graphs --checkpoint.interval=4"""


@pytest.mark.slow
@pytest.mark.dist
def test_torchtitan_trains_each_text_alone_and_once_and_resumes_exactly(wheel, tmp_path):
    """In the first step, the program compares outputs with those of each text alone."""
    requirements = "-r", FOLDER / "requirements-torchtitan.txt"
    environment = Environment(tmp_path / "environment", wheel, *requirements)
    (tmp_path / "texts").mkdir()
    lines = [json.dumps({"text": "".join([*LETTERS][n] for n in text)}) for text in TEXTS]
    (tmp_path / "texts/texts.jsonl").write_text("\n".join(lines))
    (tmp_path / "vocab.json").write_text(json.dumps(LETTERS))
    (tmp_path / "merges.txt").touch()

    def run(name, more):
        """Return the texts of each step and rank, and what torchtitan logs then."""
        program = ROOT / "tests/examples/in_torchtitan.py", name, *ARGUMENTS.split(), *more.split()
        paths = {"PYTHONPATH": str(FOLDER), "HF_HOME": str(tmp_path)}
        environment.run(*torchrun(2), *program, cwd=tmp_path, more=paths)
        files = [(tmp_path / f"{name}.{rank}").read_text().splitlines() for rank in (0, 1)]
        lines = list(zip(*([*map(json.loads, file)] for file in files), strict=True))
        return list(zip(lines[::2], lines[1::2], strict=True))

    def trained(steps):
        return [text for ranks, _ in steps for rank in ranks for text in rank if text != [0]]

    whole = run("whole", DDP)
    assert sorted(trained(whole[:EPOCH])) == sorted(trained(whole[EPOCH:])) == sorted(TEXTS)
    resumed = run("resumed", f"{DDP} --checkpoint.load_step=4")
    assert resumed == whole[4:]
    assert resumed[0] != whole[EPOCH]  # it was inside an epoch
    shared = run("shared", "--parallelism.tensor_parallel_degree=2 --checkpoint.load_step=4")
    assert all(first == second for (first, second), _ in shared)
    rest = trained(whole[:4]) + trained([((first,), logged) for (first, _), logged in shared])
    assert sorted(rest[: len(TEXTS)]) == sorted(TEXTS)
