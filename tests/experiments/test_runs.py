"""One table of runs and one of epochs, whatever is in a folder and whoever writes at once."""

import json

import pandas as pd
import pytest
import torch.multiprocessing as mp

from bload.errors import InputError
from experiments.runs import read_epochs, read_runs, write_results
from tests.experiments.report.made_runs import make_record, make_run, write


def test_a_run_is_a_row_with_its_config_and_its_summary(tmp_path):
    make_run(tmp_path / "temporal", "bload", 3, recall=0.5, train__slots=10, name="a")
    make_record(tmp_path / "temporal")
    (run,) = read_runs(tmp_path).to_dict("records")
    found = {key: run[key] for key in ("experiment", "run", "state", "overrides")}
    assert found == {
        **{"experiment": "temporal", "run": "a", "state": "finished", "overrides": "loader=a"}
    }
    assert (run["loader.name"], run["train.seed"], run["train.slots"]) == ("bload", 3, 10)
    assert (run["padding"], run["with/recall@20"]) == (930, 0.5)


def test_epochs_have_their_figures_and_those_of_the_evaluation(tmp_path):
    run = make_run(tmp_path, "bload", recall=0.5)
    with (run / "metrics.jsonl").open("a") as file:  # resumed: the last line counts
        file.write('{"kind": "epoch", "epoch": 4, "seconds": 77, "processed": 9}\n{"kind": "epo')
    epochs = read_epochs(tmp_path)
    assert epochs.epoch.tolist() == [0, 1, 2, 3, 4]
    last = epochs.iloc[-1]
    assert (last.seconds, last.processed, last.eval_seconds) == (77, 9, 9)
    assert last["with/recall@20"] == pytest.approx(0.5)


def test_tables_of_folders_and_of_their_csv_files_are_the_same(made, tmp_path):
    for experiment in ("paper_table", "tmax_sweep", "temporal"):
        place = tmp_path / experiment
        place.mkdir()
        (place / "experiment.json").write_bytes(
            (made / experiment / "experiment.json").read_bytes()
        )
        runs, epochs = read_runs(made / experiment), read_epochs(made / experiment)
        runs.drop(columns="overrides").to_csv(place / "runs.csv", index=False)
        epochs.to_csv(place / "curves.csv", index=False)
        for before, after in ((runs, read_runs(place)), (epochs, read_epochs(place))):
            whole = after[list(before)].astype(object).where(after[list(before)].notna(), None)
            wanted = before.astype(object).where(before.notna(), None)
            pd.testing.assert_frame_equal(whole, wanted, check_dtype=False)


def test_states_say_what_became_of_a_run(made, tmp_path):
    runs = read_runs(made)
    runs = runs[runs.experiment == "paper_table"]
    assert dict(runs.state.value_counts()) == {"finished": 15, "failed": 1, "unfinished": 1}
    assert runs.says[runs.state == "failed"].item() == "the gradient is nan in epoch 1"
    assert runs.says[runs.state == "unfinished"].item() == "5 of 5 epochs"
    make_run(tmp_path, "bload")
    make_record(tmp_path, jobs=[{"run": "later", "overrides": ["a=1", "b=2"]}])
    later = read_runs(tmp_path).set_index("run").loc["later"]
    assert (later.state, later.overrides) == ("unfinished", "a=1 b=2")


def spoil(run, name, **changes):
    content = json.loads((run / name).read_text())
    for key, value in changes.items():
        group, _, name_ = key.rpartition("__")
        (content[group] if group else content)[name_] = value
    write(run / name, content)


def turn_into_a_folder(run):
    (run / "config.json").unlink()
    (run / "config.json").mkdir()


DAMAGE = {
    "summary.json": lambda run: (run / "summary.json").write_text("{"),
    "object": lambda run: (run / "summary.json").write_text("[1]"),
    "t_max": lambda run: (run / "summary.json").write_text("{}"),
    "loader.name": lambda run: write(run / "config.json", {}),
    "config.json cannot": lambda run: (run / "config.json").write_bytes(b"\xff\x00"),
    "config.json": turn_into_a_folder,
    "nested": lambda run: (run / "config.json").write_text("[" * 100_000),
    "deeply": lambda run: (run / "config.json").write_text('{"a":' * 990 + "1" + "}" * 990),
    "many": lambda run: spoil(run, "config.json", dataset__train_videos="many"),
    "train.slots": lambda run: spoil(run, "config.json", train__slots=[1]),
    "0.4": lambda run: spoil(run, "summary.json", t_max=0.4),
    "frames 1000": lambda run: spoil(run, "summary.json", frames=10**400),
    "epoch_seconds 1e-320": lambda run: spoil(run, "summary.json", epoch_seconds=1e-320),
    "with/recall@20 nan": lambda run: spoil(
        run, "summary.json", **{"with/recall@20": float("nan")}
    ),
}


@pytest.mark.parametrize("names", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_count(tmp_path, names):
    make_run(tmp_path, "naive")
    run = make_run(tmp_path, "bload")
    DAMAGE[names](run)
    runs = read_runs(tmp_path).set_index("run")
    assert sorted(runs.state) == ["damaged", "finished"]
    assert runs.state[run.name] == "damaged"
    assert names in runs.says[run.name]


def test_other_damaged_files_are_named_and_the_runs_count(tmp_path):
    for name in ("metrics", "early", "fine"):
        make_run(tmp_path / "a", "bload", name=name)
    (tmp_path / "a" / "metrics" / "metrics.jsonl").unlink()
    (tmp_path / "a" / "metrics" / "metrics.jsonl").mkdir()
    lines = [{"kind": "eval", "epoch": epoch, "with/recall@20": 0.5} for epoch in (0, -1, None)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "a" / "early" / "metrics.jsonl").write_text(text)
    (tmp_path / "a" / "experiment.json").write_text('{"sweeps": 3}')
    (tmp_path / "a" / "runs.csv").write_text("x,y\n1,2\n")
    (tmp_path / "a" / "curves.csv").write_text('"')
    runs, epochs = read_runs(tmp_path), read_epochs(tmp_path)
    states = runs.set_index("run").state
    assert dict(states[["experiment.json", "runs.csv"]]) == dict.fromkeys(states.index[:0], 0) | {
        **{"experiment.json": "damaged", "runs.csv": "damaged"}
    }
    assert (states == "finished").sum() == 3
    says = epochs[epochs.epoch.isna()].set_index("run").says
    assert {*says.index} == {"metrics", "early", "curves.csv"}
    assert says["early"].endswith("3")
    assert len(epochs[epochs.run == "fine"]) == 5


def test_what_is_no_folder_of_runs_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        read_runs(tmp_path / "nowhere")
    run = make_run(tmp_path / "paper_table", "naive")
    with pytest.raises(InputError, match="paper_table"):
        read_epochs(run)


def test_results_are_the_finished_runs_of_the_folder_to_the_last_digit(tmp_path):
    make_run(tmp_path, "bload", name="007", recall=0.1 + 0.2)
    make_run(tmp_path, "naive", name="nan", train__starts='x, "y"')
    write(tmp_path / "broken" / "error.json", {"error": "no"})
    make_run(tmp_path / "other", "bload")
    write_results(tmp_path)
    write_results(tmp_path)
    options = {"keep_default_na": False, "na_values": [""]}
    found = pd.read_csv(tmp_path / "results.csv", dtype={"run": str}, **options).set_index("run")
    assert {*found.index} == {"007", "nan"}
    assert found.loc["007", "with/recall@20"] == 0.1 + 0.2
    assert found.loc["nan", "train.starts"] == 'x, "y"'


def finish(root, loader):
    for seed in range(8):
        make_run(root, loader, seed)
        write_results(root)


@pytest.mark.dist
def test_writers_at_once_lose_no_run(tmp_path):
    context = mp.get_context("fork")  # this module is light, and a spawned one is slow to import
    writers = [context.Process(target=finish, args=(tmp_path, one)) for one in ("bload", "mix")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(pd.read_csv(tmp_path / "results.csv")) == 16
