"""Where this runs is said in one sentence before anything is imported that would not."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datasets import pickle_trial
from datasets.supported import check, not_installed, refusal

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("version", "platform", "words"),
    [
        ((3, 14, 0), "linux", ("3.14", "Hydra", "3.13")),
        ((3, 15, 0), "darwin", ("3.15", "3.13")),
        ((3, 10, 13), "linux", ("3.10", "3.11")),
        ((3, 13, 1), "win32", ("Windows", "WSL 2")),
        ((3, 13, 1), "linux", ()),
        ((3, 11, 7), "darwin", ()),
    ],
)
def test_other_pythons_and_windows_are_refused(version, platform, words, monkeypatch, capsys):
    said = refusal(version, platform)
    assert bool(said) == bool(words)
    assert all(word in said for word in words)
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("RANK", raising=False)
    if words:
        with pytest.raises(SystemExit, match="2"):
            check()
        assert capsys.readouterr().err == f"error: {said}\n"
        monkeypatch.setenv("RANK", "1")  # rank 0 speaks
        with pytest.raises(SystemExit, match="2"):
            check()
    else:
        check()
    assert capsys.readouterr().err == ""


def other_pythons():
    """Of this machine's, some of pyenv's among them, those that are not supported."""
    others = [f"python3.{minor}" for minor in (8, 9, 10, 14, 15)]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [path for name in others for path in versions.glob(f"*/bin/{name}")]
    return [*found, *filter(None, map(shutil.which, others))]


def test_a_python_without_the_packages_is_told_how_to_get_them():
    assert not_installed(("numpy", "torch")) == ""
    said = not_installed(("numpy", "nobodys_package", "nor_this"))
    assert said.startswith("nobodys_package and nor_this cannot be imported by ")
    assert "pip install -r requirements.txt" in said


@pytest.mark.parametrize("command", [["train.py"], ["eval.py"], ["-m", "datasets.prepare"]])
def test_an_unsupported_python_reads_far_enough_to_say_so(command):
    said = 0
    for python in other_pythons():
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [python, *command], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        if "supported" not in done.stderr and done.returncode == 127:
            continue  # a name without a Python behind it
        assert done.returncode == 2
        assert done.stderr.startswith("error: this is Python 3.")
        assert len(done.stderr.splitlines()) == 1
        said += 1
    if not said:
        pytest.skip("only supported Pythons are here")


def test_a_system_that_refuses_a_limit_on_memory_still_tries_pickles(monkeypatch):
    """As macOS does."""

    def refuse(what, limits):
        limited.append(what)
        if what == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    limited, started = [], []
    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(pickle_trial.gc, "disable", lambda: None)
    monkeypatch.setattr(pickle_trial.threading, "stack_size", lambda size: None)
    monkeypatch.setattr(pickle_trial.threading.Thread, "start", lambda self: started.append(self))
    monkeypatch.setattr(sys, "argv", ["pickle_trial.py", "100"])
    pickle_trial.main()
    assert resource.RLIMIT_AS in limited
    assert len(started) == 1
