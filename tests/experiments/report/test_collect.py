"""Folders of runs are read whatever is in them; what cannot be read is listed."""

import json
import shutil

import pytest

from bload.errors import InputError
from experiments.report.collect import collect
from experiments.report.comparison import comparable
from experiments.report.write import write_report
from tests.experiments.report.made_runs import (
    make_deadlock,
    make_lengths,
    make_record,
    make_run,
    sweep,
)


def states(experiment) -> dict[str, int]:
    found = [run.state for run in experiment.runs]
    return {state: found.count(state) for state in set(found)}


def test_every_run_is_finished_failed_or_unfinished(made):
    table = collect(made).find("paper_table")
    assert states(table) == {"finished": 15, "failed": 1, "unfinished": 1}
    (failed,) = (run for run in table.runs if run.state == "failed")
    assert failed.says.startswith("the gradient is nan")
    (half,) = (run for run in table.runs if run.state == "unfinished")
    assert half.says == "5 of 5 epochs"


def test_one_experiment_reads_as_it_does_among_several(made):
    alone = collect(made / "paper_table")
    assert alone.find("paper_table").runs == collect(made).find("paper_table").runs


def test_a_foreign_folder_is_listed(made):
    assert [path for path, _ in collect(made).strange] == ["notes"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("summary.json", "{", "summary.json cannot be read"),
        ("summary.json", "[1]", "holds no json object"),
        ("summary.json", '{"t_max": 94}', "lacks padding, deleted"),
        ("config.json", "{}", "lacks loader, dataset, model, train"),
        (
            "config.json",
            '{"loader": {"name": 3}, "dataset": {}, "model": {}, "train": {}}',
            "has loader.name 3",
        ),
        ("config.json", "\x00", "config.json cannot be read"),
        ("summary.json", "[" * 100_000, "summary.json is nested too deeply"),
        ("config.json", '{"a":' * 900 + "1" + "}" * 900, "config.json is nested too deeply"),
    ],
)
def test_a_broken_run_is_listed_and_the_others_count(tmp_path, name, content, says):
    make_run(tmp_path / "paper_table", "naive")
    broken = make_run(tmp_path / "paper_table", "bload")
    (broken / name).write_text(content)
    found = collect(tmp_path)
    assert [run.loader for run in found.find("paper_table").runs] == ["naive"]
    ((path, sentence),) = found.strange
    assert path == f"paper_table/{broken.name}"
    assert says in sentence


def spoil(path, **changes):
    """Change keys of a json file; ``train__slots`` is a key of a group."""
    content = json.loads(path.read_text())
    for key, value in changes.items():
        group, _, name = key.rpartition("__")
        (content[group] if group else content)[name] = value
    path.write_text(json.dumps(content))


def make_metrics_a_folder(run):
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()


def evaluate_at(*epochs, last=-1):
    """Lines of metrics with evaluations at `epochs` alone, and epochs up to `last`."""
    kinds = [("eval", epoch) for epoch in epochs] + [("epoch", i) for i in range(last + 1)]
    lines = [
        {"kind": kind, "epoch": epoch, "with/recall@20": 0.5, "seconds": 1, "processed": 9}
        for kind, epoch in kinds
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return lambda run: (run / "metrics.jsonl").write_text(text)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda run: spoil(run / "config.json", dataset__train_videos="many"),
            'config.json has dataset.train_videos "many"',
        ),
        (
            lambda run: spoil(run / "config.json", train__slots=[1]),
            "config.json has train.slots [1]",
        ),
        (make_metrics_a_folder, "metrics.jsonl cannot be read"),
        (evaluate_at(-1, 0, last=0), "evaluations without the epochs before them: 1"),
        (evaluate_at(0, 10**12), "evaluations without the epochs before them: 2"),
        (evaluate_at("0", None), "evaluations without the epochs before them: 2"),
        (lambda run: spoil(run / "summary.json", t_max=0.4), "summary.json has t_max 0.4"),
        (lambda run: spoil(run / "summary.json", frames=10**400), "summary.json lacks frames"),
        (lambda run: spoil(run / "summary.json", epoch_seconds=1e-320), "has epoch_seconds 1e-320"),
    ],
    ids=(
        *("train_videos", "slots", "metrics folder", "epoch -1", "no epochs", "epoch texts"),
        *("t_max", "frames", "seconds"),
    ),
)
def test_what_is_odd_in_a_run_is_listed_and_the_report_is_written(tmp_path, change, says):
    for loader in ("bload", "sampling"):
        for seed in (0, 1):
            run = make_run(tmp_path / "paper_table", loader, seed)
    change(run)
    report = write_report(tmp_path)
    ((path, sentence),) = collect(tmp_path).strange
    assert path.startswith(f"paper_table/{run.name}")
    assert says in sentence
    assert sentence in report.markdown.read_text()


@pytest.mark.parametrize(
    ("make", "change", "says"),
    [
        (make_deadlock, {"loader": ["a"]}, 'has loader ["a"] in row 1'),
        (make_deadlock, {"ended": {"how": "well"}}, 'has ended {"how": "well"} in row 1'),
        (make_lengths, {"shape": ["x"]}, 'has shape ["x"] in row 1'),
        (make_lengths, {"longest": "far"}, 'has longest "far" in row 1'),
        (make_lengths, {"processed": -1}, "has processed -1 in row 1"),
    ],
)
def test_rows_with_an_odd_value_are_listed_and_the_report_is_written(tmp_path, make, change, says):
    make(tmp_path / "rows")
    path = tmp_path / "rows" / "rows.json"
    content = json.loads(path.read_text())
    content["rows"][0] |= change
    kind = "deadlock" if make is make_deadlock else "length_variance"
    path.rename(path.with_name(f"{kind}.json")).write_text(json.dumps(content))
    report = write_report(tmp_path)
    found = collect(tmp_path)
    assert found.strange == ((f"rows/{kind}.json", f"{kind}.json {says}"),)
    assert found.find(kind) is None
    assert says in report.markdown.read_text()


@pytest.mark.parametrize("changes", [{"name": "deadlock"}, {"name": None}])
def test_rows_are_found_by_their_name_in_any_folder(tmp_path, changes):
    make_deadlock(tmp_path / "deadlock")
    spoil(tmp_path / "deadlock" / "deadlock.json", **changes)
    (tmp_path / "deadlock").rename(tmp_path / "mine")
    found = collect(tmp_path).find("deadlock")
    assert found.name == "deadlock"
    assert found.sweeps[0].started == "2026-11-21T11:00:00+00:00"


def test_rows_of_a_quick_form_are_not_taken_for_the_full_one(tmp_path):
    make_deadlock(tmp_path / "deadlock")
    spoil(tmp_path / "deadlock" / "deadlock.json", name=None)
    (tmp_path / "deadlock").rename(tmp_path / "deadlock_quick")
    assert collect(tmp_path).find("deadlock").name == "deadlock_quick"


def test_rows_and_runs_of_one_folder_are_two_experiments(tmp_path):
    make_deadlock(tmp_path / "deadlock")
    make_run(tmp_path / "deadlock", "bload")
    make_record(tmp_path / "deadlock", "paper_table")
    found = collect(tmp_path)
    assert len(found.find("paper_table").finished) == 1
    assert not found.find("deadlock").runs


def test_a_record_of_one_command_reads_as_one_sweep_of_unknown_runs(tmp_path):
    make_run(tmp_path / "temporal", "bload")
    flat = {"name": "temporal", "jobs": [], **sweep("temporal")}
    del flat["runs"]
    (tmp_path / "temporal" / "experiment.json").write_text(json.dumps(flat))
    (found,) = collect(tmp_path).find("temporal").sweeps
    assert (found.command, found.threads) == ("python train.py -m experiment=temporal", 1)
    assert found.machine["cpu"] == "Made CPU"
    assert found.runs is None


def test_a_record_of_odd_values_is_no_error(tmp_path):
    make_run(tmp_path / "temporal", "bload")
    odd = {"name": 3, "command": ["a"], "jobs": {"a": 1}, "versions": [1], "machine": "x"}
    (tmp_path / "temporal" / "experiment.json").write_text(json.dumps(odd | {"git": 7}))
    write_report(tmp_path)
    assert collect(tmp_path).find("temporal").sweeps[0].command is None
    (tmp_path / "temporal" / "experiment.json").write_text('{"sweeps": [3]}')
    write_report(tmp_path)
    assert collect(tmp_path).strange == (
        ("temporal/experiment.json", "its sweeps are no list of objects"),
    )


def test_a_recall_that_is_no_number_is_no_result(tmp_path):
    run = make_run(tmp_path / "paper_table", "naive")
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"with/recall@20": float("nan")}))
    assert "lacks with/recall@20" in collect(tmp_path).strange[0][1]


def test_blocks_of_no_slots_are_no_result(tmp_path):
    make_run(tmp_path / "paper_table", "naive", costs=(0, 10, 0))
    assert "has t_max 0" in collect(tmp_path).strange[0][1]


def test_half_a_line_of_metrics_is_left_out(tmp_path):
    run = make_run(tmp_path / "paper_table", "naive")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "epoch", "epo')
    assert len(collect(tmp_path).find("paper_table").runs[0].epochs) == 5


def test_a_job_without_a_folder_has_not_begun(tmp_path):
    make_run(tmp_path / "temporal", "bload")
    jobs = [{"run": "bload-later", "overrides": ["model.temporal=gru"]}]
    make_record(tmp_path / "temporal", jobs=jobs)
    (later,) = (run for run in collect(tmp_path).experiments[0].runs if run.state == "unfinished")
    assert (later.says, later.overrides) == ("not begun", ("model.temporal=gru",))


def test_the_quick_form_stands_in_until_the_full_one_has_results(tmp_path):
    make_run(tmp_path / "temporal_quick", "bload")
    assert collect(tmp_path).find("temporal").name == "temporal_quick"
    make_run(tmp_path / "temporal", "bload")
    assert collect(tmp_path).find("temporal").name == "temporal"


def test_what_is_no_folder_of_runs_is_said_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="is not a folder of runs"):
        collect(tmp_path / "nowhere")
    run = make_run(tmp_path / "paper_table", "naive")
    with pytest.raises(InputError, match=f"single run; name the folder.*{run.parent.name}"):
        collect(run)


def test_runs_of_other_settings_are_never_averaged_in(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path, "bload", seed)
        make_run(tmp_path, "naive", seed)
    make_run(tmp_path, "bload", 2, train__epochs=9)
    make_run(tmp_path, "bload", 3, dataset__train_videos=50)
    found = comparable(collect(tmp_path).experiments[0].finished, "loader")
    assert sorted((run.loader, run.seed) for run in found.runs) == [
        *(("bload", 0), ("bload", 1), ("naive", 0), ("naive", 1))
    ]
    assert sorted(run.seed for run in found.others) == [2, 3]
    assert found.note.startswith("2 runs stand apart")


def test_a_run_that_was_copied_counts_once(tmp_path):
    run = make_run(tmp_path, "bload")
    shutil.copytree(run, tmp_path / "zz-copy")
    assert len(comparable(collect(tmp_path).experiments[0].finished, "loader").runs) == 1
