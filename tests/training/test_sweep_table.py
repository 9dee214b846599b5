"""A sweep ends with the figures of its runs, and the paper's only for Action Genome's lengths."""

import csv

import pytest
import torch

from bload import BlockSampler, action_genome_lengths
from training.figures import lengths_digest
from training.jobs import EndedJob
from training.printing import opening_text
from training.ranks import Ranks
from training.sweep_table import close_sweep, name_rows

PAPERS = action_genome_lengths("train")


def job(loader, seed, seconds, recall, folder, lengths=PAPERS, t_max=94):
    summary = {"loader": loader, "clips": None, "t_max": t_max, "lengths": lengths_digest(lengths)}
    summary |= {"padding": 4000 + seed, "deleted": 7, "epoch_seconds": seconds, "steps": 9}
    summary |= {"with/recall@20": recall, "folder": str(folder / f"{loader}-{seed}")}
    return EndedJob(["experiment=x", f"loader={loader}", f"train.seed={seed}"], 0, summary)


def test_runs_of_a_loader_are_one_row_beside_the_papers_figures(tmp_path):
    jobs = [job("naive", 2, 300.0, 0.8, tmp_path), job("bload", 2, 60.0, 0.7, tmp_path)]
    jobs += [job("bload", 4, 90.0, 0.75, tmp_path)]
    jobs += [EndedJob(["experiment=x", "loader=mix", "train.seed=2"], 2, {"error": "no frames"})]
    text = close_sweep(jobs)
    lines = (tmp_path / "table.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert [row[1:] for row in table[4:]] == [
        ["4,003", "7", "9", "75.0", "4.00", "72.50", "2"],
        ["3,695*", "0", "", "", "4.15†", "43.3", ""],
    ]
    assert [row[0] for row in table[2:]] == ["naive", "in the paper", "bload", "in the paper"]
    assert max(map(len, text.split("written")[0].splitlines())) <= 80
    assert text.endswith("failed: experiment=x loader=mix train.seed=2: no frames")
    rows = [*csv.DictReader((tmp_path / "table.csv").open())]
    assert [(row["run"], float(row["padding"]), row["paper_padding"]) for row in rows] == [
        ("naive", 4002, "534,831"),
        ("bload", 4003, "3,695*"),
    ]


@pytest.mark.parametrize("changed", [{"lengths": PAPERS[1:]}, {"t_max": 188}])
def test_the_papers_figures_stand_only_beside_its_lengths_and_block_size(changed, tmp_path):
    jobs = [job("bload", seed, 60.0, 0.7, tmp_path, **changed) for seed in (2, 3)]
    assert "in the paper" not in close_sweep(jobs)


def test_rows_are_named_by_what_differs_whatever_is_in_it():
    jobs = [EndedJob(["loader=mix", f"run.name=a {word}"], 0, {}) for word in ("b", "c")]
    assert name_rows(jobs) == ["run.name=a b", "run.name=a c"]


def test_one_process_on_a_machine_with_several_gpus_is_told_how_to_use_all(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr("sys.argv", ["train.py", "loader=bload"])
    sampler = BlockSampler([3, 4])
    for world_size, told in ((1, True), (4, False)):
        ranks = Ranks(0, world_size, torch.device("cuda"))
        text = opening_text(tmp_path, "bload", sampler, ranks, [])
        assert ("torchrun --nproc_per_node=4 train.py loader=bload" in text) == told
