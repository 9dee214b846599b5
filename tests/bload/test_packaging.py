"""pip installs the library's folder, and the example runs."""

import runpy
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from setuptools import find_packages

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_what_pip_installs_is_what_is_in_the_folder():
    find = SETTINGS["tool"]["setuptools"]["packages"]["find"]
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("bload/**/__init__.py")}
    assert set(find_packages(str(ROOT), **find)) == {".".join(f.parts) for f in folders}
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["bload"]
    for path in (ROOT / "bload").rglob("*"):
        name = str(path.relative_to(ROOT / "bload"))
        if path.suffix == ".py":
            assert path.parent.relative_to(ROOT) in folders, name
        elif path.is_file() and "__pycache__" not in path.parts:
            assert any(fnmatch(name, pattern) for pattern in patterns), name
    needed = SETTINGS["project"]["dependencies"]
    assert [requirement.split(">")[0] for requirement in needed] == ["numpy", "torch"]


def test_the_example_on_own_data_learns(capsys):
    runpy.run_path(str(ROOT / "examples/own_data.py"))
    padded, deleted, loss = capsys.readouterr().out.split(", ")
    assert (padded, deleted) == ("20 padded", "0 deleted")
    assert float(loss.split()[-1]) < 0.3  # it begins at log 2
