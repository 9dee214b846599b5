"""One table of runs and one of epochs, whatever is in a folder and whoever writes at once."""

import csv
import os

import pandas as pd
import pytest
import torch.multiprocessing as mp

from bload.errors import InputError
from datasets.frames.one_writer import one_writer
from tests.experiments.report.made_runs import make_record, make_run, write
from training import runs as runs_module
from training.runs import read_epochs, read_runs, write_results, write_tables


def test_a_run_is_a_row_with_its_config_summary_and_state(tmp_path):
    make_run(tmp_path / "a", "bload", 3, recall=0.5, train__slots=10, name="finished")
    write(tmp_path / "a" / "failed" / "error.json", {"error": "the gradient is nan"})
    (make_run(tmp_path / "a", "naive", name="unfinished") / "summary.json").unlink()
    by_slots = make_run(tmp_path / "a", "naive", train__slots=9, name="by slots")
    (by_slots / "summary.json").unlink()
    (make_run(tmp_path / "a", "naive", name="spoilt") / "summary.json").write_text("{")
    make_record(tmp_path / "a", jobs=[{"run": "later", "overrides": ["a=1", "b=2"]}])
    runs = read_runs(tmp_path).set_index("run")
    assert runs.state.to_dict() == {
        **{"failed": "failed", "finished": "finished", "spoilt": "damaged"},
        **{"unfinished": "unfinished", "by slots": "unfinished", "later": "unfinished"},
    }
    assert {*runs.experiment} == {"a"}
    done = runs.loc["finished"]
    assert (done["loader.name"], done["train.seed"], done["train.slots"]) == ("bload", 3, 10)
    assert (done["padding"], done["with/recall@20"]) == (930, 0.5)
    assert runs.says["failed"] == "the gradient is nan"
    assert runs.says["unfinished"] == "5 of 5 epochs"
    assert runs.says["by slots"] == "5 epochs"  # how many in all follows from the slots
    assert "summary.json" in runs.says["spoilt"]
    assert runs.overrides["later"] == "a=1 b=2"


def test_epochs_have_their_figures_and_those_of_the_evaluation(tmp_path):
    run = make_run(tmp_path, "bload", recall=0.5)
    with (run / "metrics.jsonl").open("a") as file:  # resumed: the last line counts
        file.write('{"kind": "epoch", "epoch": 3, "seconds": 77, "processed": 9}\n{"kind": "epo')
    epochs = read_epochs(tmp_path).set_index("epoch")
    assert epochs.index.tolist() == [0, 1, 2, 3, 4]
    assert (epochs.seconds[3], epochs.processed[3], epochs.eval_seconds[4]) == (77, 9, 9)
    assert epochs["with/recall@20"][4] == pytest.approx(0.5)


def test_folders_and_the_csv_files_made_of_them_say_the_same(tmp_path):
    make_run(tmp_path / "a", "bload", loader__t_max=64, memory=False)
    make_run(tmp_path / "a", "mix", 1, train__slots=116_360, dataset__size=[64, 64])
    make_run(tmp_path / "a", "naive", dataset__made=True, name="007")
    make_record(tmp_path / "a")
    runs, epochs = read_runs(tmp_path / "a"), read_epochs(tmp_path / "a")
    place = tmp_path / "b"
    written = [path.name for path in write_tables(tmp_path / "a", place)]
    assert written == ["curves.csv", "experiment.json", "runs.csv"]
    for before, after in ((runs, read_runs(place)), (epochs, read_epochs(place))):
        both = before, after.reindex(columns=list(before))  # without columns that are empty
        known = [of.astype(object).where(of.notna(), None) for of in both]
        pd.testing.assert_frame_equal(*known, check_dtype=False)


def test_what_cannot_be_read_is_named(tmp_path):
    run = make_run(tmp_path / "a", "bload")
    for name, text in (("experiment.json", "["), ("runs.csv", "x,y\n1,2\n")):
        (tmp_path / "a" / name).write_text(text)
        with pytest.raises(InputError, match=name):
            read_runs(tmp_path)
        (tmp_path / "a" / name).unlink()
    with pytest.raises(InputError, match="nowhere"):
        read_runs(tmp_path / "nowhere")
    with pytest.raises(InputError, match="single run"):
        read_epochs(run)


def test_a_run_that_may_not_be_entered_and_a_half_written_table_cost_nothing(tmp_path, monkeypatch):
    def stat(path, **options):
        if "closed/" in str(path):
            raise PermissionError(13, "Permission denied")
        return original(path, **options)

    original = os.stat
    make_run(tmp_path, "bload", name="open")
    make_run(tmp_path, "bload", name="closed")
    for name in ("results.csv.123.part", "draft.part"):
        (tmp_path / name).write_text("half")
    monkeypatch.setattr(os, "stat", stat)
    write_results(tmp_path)
    assert "open" in (tmp_path / "results.csv").read_text()
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {"results.lock"} == {"closed", "draft.part", "open", "results.csv"}


def test_a_table_that_another_process_holds_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(runs_module, "PATIENCE", 0.1)
    lock = one_writer(tmp_path, lock=tmp_path / "results.lock")
    with lock, pytest.raises(InputError, match=r"another process is writing .*results.csv; wait"):
        write_results(tmp_path)


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
