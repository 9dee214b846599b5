"""Who is told that others use the cores, from what Linux says of how many are running."""

import os

import pytest

from datasets.cores import crowded


@pytest.fixture
def load(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    file = tmp_path / "loadavg"

    def write(running):
        file.write_text(f"0.30 0.20 0.10 {running}/122 20287\n")
        return file

    return write


@pytest.mark.parametrize(("running", "others"), [(3, 2), (5, 4), (40, 4)])
def test_advice_where_others_use_half_of_the_cores(load, running, others):
    assert f"use {others} of 4 cores" in crowded(load(running))  # this process runs too


def test_none_where_they_do_not_or_where_the_threads_are_set(load, monkeypatch, tmp_path):
    assert crowded(load(2)) == crowded(tmp_path / "not Linux") == ""
    (tmp_path / "odd").write_text("0.3 0.2\n")
    assert crowded(tmp_path / "odd") == ""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert crowded(load(5)) == ""
