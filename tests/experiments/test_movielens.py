"""The study of MovieLens, on twenty users of made-up data."""

import zipfile
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments import movielens as m


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the data, and for the rows and the page of a small study."""
    random, rows = np.random.default_rng(0), []
    for user in range(20):
        items = random.permutation(60)[: random.integers(10, 40)]
        rows += [(user, item, 3, 60 * place**2) for place, item in enumerate(items)]
    with zipfile.ZipFile(tmp_path / "small.whl", "w") as archive:
        archive.writestr(m.MEMBER, pd.DataFrame(rows).to_csv(sep="\t", index=False))
    (tmp_path / "page.md").write_text("<!-- experiments.movielens -->\n<!-- end -->\n")
    pairs = [("gru", key) for key in ("naive", m.CLIPS, m.EXACT, m.NO_STARTS)]
    small = {"SEEDS": dict.fromkeys([*pairs, ("transformer", m.EXACT)], 2), "RATES": (2e-3, 8e-3)}
    small |= {"SEARCH_SEEDS": (9,), "EPOCHS": 2, "POINTS": 3, "TURNS": 1, "FOLDER": tmp_path}
    small |= {"study.DOCS": tmp_path}
    for name, value in small.items():
        monkeypatch.setattr(f"experiments.movielens.{name}", value)
    one_thread = SimpleNamespace(Pool=lambda *_: ThreadPool(1))  # autograd may not run after a fork
    monkeypatch.setattr(m, "get_context", lambda _: one_thread)
    monkeypatch.setattr("sys.argv", ["movielens", str(tmp_path / "small.whl")])
    return tmp_path


@pytest.mark.slow
def test_runs_train_equal_frames_and_a_study_that_goes_on_ends_with_the_same_rows(folder):
    rows = []
    for _ in range(2):
        m.main()
        rows.append(pd.read_csv(folder / "runs.csv").sort_values("run"))
        rows[0][rows[0].seed == 0].to_csv(folder / "runs.csv", index=False)
    pd.testing.assert_frame_equal(*(each.reset_index(drop=True) for each in rows))
    by = rows[0].query("stage == 'final' and model == 'gru'").groupby("loader")
    users, steps = m.read_split(folder / "small.whl")[0], by.steps.max()
    for loader in ("naive", m.EXACT):
        assert steps[loader] == 2 * m.make_loader(users, loader).steps
    assert f" {by.recall.mean()[m.EXACT]:.1f} [" in (folder / "page.md").read_text()


def test_recall_is_that_of_each_user_alone(folder):
    users, _, _, items = m.read_split(folder / "small.whl")
    net, hits = m.Recommender("gru", items), []
    for user in users:
        (batch,) = m.make_loader([user], "naive")
        scores_NI = net.score(net(batch)[batch.valid_BT])
        for place, item in enumerate(user["item"]):
            scores_NI[place:, item] = -torch.inf
        hits.append(int((scores_NI.topk(20).indices == user["next"][:, None]).sum()))
    events = sum(len(user["next"]) for user in users)
    assert m.evaluate(net, users) == pytest.approx(100 * sum(hits) / events)
