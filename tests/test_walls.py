"""The structure that CONTRIBUTING.md describes: imports go down."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = {"train": 4, "eval": 4, "experiments": 4}
FLOORS |= {"training": 3, "models": 2, "datasets": 1, "bload": 0, "examples": 0, "docs": 0}
"""From the entry points down; an import may go to the same floor or a lower one."""
ROOMS = {"table": 3, "with_torch": 3, "loading": 3, "schedule": 2, "batch": 2, "packing": 1}
"""Of the library; what lies beside them is the floor that all stand on."""
LIBRARY_NEEDS = {"numpy", "torch"}


def sources():
    for top in FLOORS:
        path = ROOT / top
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            yield top, file, ast.parse(file.read_text())


def imported(tree):
    """Line and module of every import, relative ones excluded (there are none)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports relatively"
            yield node.lineno, node.module


def floor(top, room="", *_):
    """Floor of a module, and inside the library that of its room; the entries are above all."""
    is_inside = top == "bload" and room not in ("__init__", "__main__")
    return FLOORS.get(top, -1), ROOMS.get(room, 0) if is_inside else max(ROOMS.values())


def test_imports_never_go_up():
    wrong = []
    for _, file, tree in sources():
        path = file.relative_to(ROOT).with_suffix("")
        for line, module in imported(tree):
            if floor(*module.split(".")) > floor(*path.parts):
                wrong.append(f"{path}.py:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_nobody_imports_the_entry_points_or_the_experiments():
    for top, file, tree in sources():
        modules = {module.split(".")[0] for _, module in imported(tree)}
        assert not modules & {"train", "eval"}, file
        assert top == "experiments" or "experiments" not in modules, file


def test_the_library_needs_numpy_and_torch_alone():
    for top, file, tree in sources():
        if top == "bload":
            for line, module in imported(tree):
                first = module.split(".")[0]
                known = first in LIBRARY_NEEDS | {"bload"} or first in sys.stdlib_module_names
                assert known, f"{file.relative_to(ROOT)}:{line} imports {module}"
