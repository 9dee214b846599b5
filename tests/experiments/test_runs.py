"""One table of runs and one of epochs, whatever is in a folder and whoever writes at once."""

import csv
import json

import pandas as pd
import pytest
import torch.multiprocessing as mp

from bload.errors import InputError
from experiments.runs import read_epochs, read_runs, write_results
from tests.experiments.report.made_runs import make_record, make_run, write


def test_a_run_is_a_row_with_its_config_summary_and_state(tmp_path):
    make_run(tmp_path / "a", "bload", 3, recall=0.5, train__slots=10, name="finished")
    write(tmp_path / "a" / "failed" / "error.json", {"error": "the gradient is nan"})
    (make_run(tmp_path / "a", "naive", name="unfinished") / "summary.json").unlink()
    make_record(tmp_path / "a", jobs=[{"run": "later", "overrides": ["a=1", "b=2"]}])
    runs = read_runs(tmp_path).set_index("run").sort_index()
    assert runs.state.tolist() == ["failed", "finished", "unfinished", "unfinished"]
    assert {*runs.experiment} == {"a"}
    done = runs.loc["finished"]
    assert (done["loader.name"], done["train.seed"], done["train.slots"]) == ("bload", 3, 10)
    assert (done["padding"], done["with/recall@20"]) == (930, 0.5)
    assert runs.says["failed"] == "the gradient is nan"
    assert runs.says["unfinished"] == "5 of 5 epochs"
    assert runs.overrides["later"] == "a=1 b=2"


def test_epochs_have_their_figures_and_those_of_the_evaluation(tmp_path):
    run = make_run(tmp_path, "bload", recall=0.5)
    with (run / "metrics.jsonl").open("a") as file:  # resumed: the last line counts
        file.write('{"kind": "epoch", "epoch": 4, "seconds": 77, "processed": 9}\n{"kind": "epo')
    epochs = read_epochs(tmp_path)
    assert epochs.epoch.tolist() == [0, 1, 2, 3, 4]
    last = epochs.iloc[-1]
    assert (last.seconds, last.processed, last.eval_seconds) == (77, 9, 9)
    assert last["with/recall@20"] == pytest.approx(0.5)


def test_folders_and_the_csv_files_made_of_them_say_the_same(tmp_path):
    make_run(tmp_path / "a", "bload", loader__t_max=64, memory=False)
    make_run(tmp_path / "a", "mix", 1, train__slots=116_360, dataset__size=[64, 64])
    make_run(tmp_path / "a", "naive", dataset__made=True, name="007")
    make_record(tmp_path / "a")
    runs, epochs = read_runs(tmp_path / "a"), read_epochs(tmp_path / "a")
    place = tmp_path / "b"
    write(place / "experiment.json", json.loads((tmp_path / "a" / "experiment.json").read_text()))
    runs.drop(columns="overrides").to_csv(place / "runs.csv", index=False)
    epochs.to_csv(place / "curves.csv", index=False)
    for before, after in ((runs, read_runs(place)), (epochs, read_epochs(place))):
        known = [of.astype(object).where(of.notna(), None) for of in (before, after[list(before)])]
        pd.testing.assert_frame_equal(*known, check_dtype=False)


def spoil(file, group="", **changes):
    def change(run):
        content = json.loads((run / file).read_text())
        (content[group] if group else content).update(changes)
        write(run / file, content)

    return change


def test_a_damaged_run_is_named_and_the_others_count(tmp_path):
    make_run(tmp_path, "naive")
    for says, change in {
        "summary.json": lambda run: (run / "summary.json").write_text("{"),
        "object": lambda run: (run / "summary.json").write_text("[1]"),
        "config.json": lambda run: (run / "config.json").write_bytes(b"\xff\x00"),
        "nested": lambda run: (run / "config.json").write_text("[" * 100_000),
        "deeply": lambda run: (run / "config.json").write_text('{"a":' * 990 + "1" + "}" * 990),
        "train.seed": lambda run: write(run / "config.json", {}),
        "loader.name": spoil("config.json", "loader", name=3),
        "many": spoil("config.json", "dataset", train_videos="many"),
        "train.slots": spoil("config.json", "train", slots=[1]),
        "t_max 0.4": spoil("summary.json", t_max=0.4),
        "frames 1000": spoil("summary.json", frames=10**400),
        "epoch_seconds 1e-320": spoil("summary.json", epoch_seconds=1e-320),
        "with/recall@20 nan": spoil("summary.json", **{"with/recall@20": float("nan")}),
    }.items():
        run = make_run(tmp_path, "bload", name="damaged")
        change(run)
        runs = read_runs(tmp_path).set_index("run")
        assert sorted(runs.state) == ["damaged", "finished"], says
        assert says in runs.says["damaged"]


def test_other_damaged_files_are_named_and_the_runs_count(tmp_path):
    for name in ("metrics", "early", "fine"):
        make_run(tmp_path / "a", "bload", name=name)
    (tmp_path / "a" / "metrics" / "metrics.jsonl").unlink()
    (tmp_path / "a" / "metrics" / "metrics.jsonl").mkdir()
    lines = [{"kind": "eval", "epoch": epoch, "with/recall@20": 0.5} for epoch in (0, -1, None)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "a" / "early" / "metrics.jsonl").write_text(text)
    (tmp_path / "a" / "experiment.json").write_text('{"sweeps": 3}')
    for name in ("runs.csv", "curves.csv"):
        (tmp_path / "a" / name).write_text("x,y\n1,2\n")
    runs, epochs = read_runs(tmp_path), read_epochs(tmp_path)
    states = runs.set_index("run").state
    assert [states["experiment.json"], states["runs.csv"]] == ["damaged", "damaged"]
    assert (states == "finished").sum() == 3
    says = epochs[epochs.epoch.isna()].set_index("run").says
    assert {*says.index} == {"metrics", "early", "curves.csv"}
    assert says["early"].endswith("3")
    assert len(epochs[epochs.run == "fine"]) == 5
    with pytest.raises(InputError, match="nowhere"):
        read_runs(tmp_path / "nowhere")
    with pytest.raises(InputError, match="single run"):
        read_epochs(tmp_path / "a" / "fine")


def finish(root, loader):
    for seed in range(8):
        make_run(root, loader, seed, recall=0.1 + 0.2, dataset__root='x, "y"')
        write_results(root)


@pytest.mark.dist
def test_results_lose_no_finished_run_and_no_digit_whoever_writes_at_once(tmp_path):
    write(tmp_path / "broken" / "error.json", {"error": "no"})
    make_run(tmp_path / "other", "naive")
    context = mp.get_context("fork")  # this module is light, and a spawned one is slow to import
    writers = [context.Process(target=finish, args=(tmp_path, one)) for one in ("bload", "mix")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["run"] for row in rows}) == len(rows) == 16
    assert {(row["with/recall@20"], row["dataset.root"]) for row in rows} == {
        (repr(0.1 + 0.2), 'x, "y"')
    }
