"""Folders of runs are read whatever is in them; what cannot be read is listed."""

import json
import shutil

import pytest

from bload.errors import InputError
from bload.report.collect import collect
from bload.report.comparison import comparable
from tests.report.made_runs import make_record, make_run


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
            "lacks loader.name",
        ),
        ("config.json", "\x00", "config.json cannot be read"),
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
