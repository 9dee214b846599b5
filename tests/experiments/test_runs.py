"""One table of runs and one of epochs, whatever is in a folder and whoever writes at once."""

import pandas as pd
import pytest

from bload.errors import InputError
from experiments.runs import read_epochs, read_runs, write_tables
from tests.experiments.report.made_runs import make_record, make_run


def test_a_run_is_a_row_with_its_config_summary_and_state(tmp_path):
    make_run(tmp_path / "a", "bload", 3, recall=0.5, train__slots=10, name="finished")
    (make_run(tmp_path / "a", "naive", name="unfinished") / "summary.json").unlink()
    by_slots = make_run(tmp_path / "a", "naive", train__slots=9, name="by slots")
    (by_slots / "summary.json").unlink()
    (make_run(tmp_path / "a", "naive", name="spoilt") / "summary.json").write_text("{")
    make_record(tmp_path / "a", jobs=[{"run": "later", "overrides": ["a=1", "b=2"]}])
    runs = read_runs(tmp_path).set_index("run")
    assert runs.state.to_dict() == {
        **{"finished": "finished", "spoilt": "damaged"},
        **{"unfinished": "unfinished", "by slots": "unfinished", "later": "unfinished"},
    }
    assert {*runs.experiment} == {"a"}
    done = runs.loc["finished"]
    assert (done["loader.name"], done["train.seed"], done["train.slots"]) == ("bload", 3, 10)
    assert (done["padding"], done["with/recall@20"]) == (930, 0.5)
    assert runs.says["unfinished"] == "5 of 5 epochs"
    assert runs.says["by slots"] == "5 epochs"  # how many in all follows from the slots
    assert "summary.json" in runs.says["spoilt"]
    assert runs.overrides["later"] == "a=1 b=2"


def test_epochs_have_their_figures_and_those_of_the_evaluation(tmp_path):
    run = make_run(tmp_path, "bload", recall=0.5)
    with (run / "metrics.jsonl").open("a") as file:  # resumed: the last line counts
        file.write('{"kind": "epoch", "epoch": 4, "seconds": 77, "processed": 9}\n{"kind": "epo')
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
