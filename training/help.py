"""``--help``: usage and groups of keys, or of one group every key with its value and meaning.

A meaning is the comment beside a field of a config's class, on its line or on lines above it; the
options of packers have theirs in the packer's docstring.
"""

import ast
import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ValidationError

from bload.errors import InputError
from bload.packers import PACKERS
from training.config import CONFIGS, EvalJob, TrainJob

SCHEMAS: dict[str, Any] = {"train": TrainJob, "eval": EvalJob}
"""Script -> the class of its config."""
WIDTH = 100
"""Columns of help that goes to no terminal."""
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
LISTS = {int: "a list of whole numbers, as [480,640]", str: "a list, as [a,b]"}


def asked(arguments: Sequence[str]) -> bool:
    """True if a command line asks for help."""
    return any(one.partition("=")[0] in ("-h", "--help") for one in arguments)


def split_off(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The group after ``--help``, or nothing, and the overrides beside it."""
    rest = [one.removeprefix("--help=") for one in arguments if one not in ("-h", "--help")]
    return next((one for one in rest if "=" not in one), ""), [one for one in rest if "=" in one]


def help_text(name: str, config: DictConfig, group: str) -> str:
    """The first screen of train.py or eval.py, or that of a group.

    Args:
        name: of the script.
        config: of the command line, with Hydra's own.
        group: of keys or config files; of nothing, the first screen.
    """
    schema, chosen = SCHEMAS[name], config.hydra.runtime.choices
    says = meanings(schema)
    defaults = (CONFIGS / f"{name}.yaml").read_text()
    files = dict(re.findall(r"^  - (?:optional )?(\w+): \S+(?:  # (.*))?$", defaults, re.M))
    groups = [*files, *(one.name for one in fields(schema) if one.name not in files)]
    if group and (group not in groups or not files):
        there = f"there are {', '.join(groups)}" if files else "--help alone shows all keys"
        raise InputError(f"there is no group {group!r} of keys; {there}")
    if group:
        return _of_group(config, chosen, group)
    usage = ast.get_docstring(ast.parse((CONFIGS.parent / f"{name}.py").read_text())) or ""
    if not files:
        return f"{usage}\n\n{_columns(_rows(schema, config))}"
    rows = [
        (f"{of}={chosen[of] or 'null'}", f"{says.get(of, files[of])}; or {', '.join(others)}")
        if (others := [one for one in _names(of) if of in files and one != chosen[of]])
        else (f"{of}.KEY=VALUE", says[of])
        for of in groups
    ]
    return (
        f"{usage}\n\nWhat can be set, and what it is now; `python {name}.py --help GROUP` explains "
        f"a group:\n\n{_columns(rows)}\n\n"
        "Several values, as train.seed=0,1, are several runs and take -m; --cfg job shows them all."
    )


def choices(group: str) -> list[str]:
    """The names of config files of a group that one can choose."""
    names = GlobalHydra.instance().config_loader().get_group_options(group)
    return [name for name in names if not name.endswith("_schema") and name[0] != "_"]


def _names(group: str) -> list[str]:
    """The same; a file and its short form as one, ``NAME[_quick]``."""
    names = choices(group)
    long = [name for name in names if name.removesuffix("_quick") not in {*names} - {name}]
    return [f"{name}[_quick]" if f"{name}_quick" in names else name for name in long]


@cache
def meanings(schema: type) -> dict[str, str]:
    """Meaning of every field of a config's class by name, empty where nobody has written one."""
    found: dict[str, str] = {}
    for part in reversed(schema.__mro__):
        if "__annotations__" not in vars(part):
            continue
        if part.__module__ == "types":  # made of a packer
            packer = PACKERS[schema.__name__.removesuffix("_config")]
            found |= {option: _in_docstring(packer, option) for option in part.__annotations__}
        else:
            found |= _in_comments(part)
    return found


def _in_comments(schema: type) -> dict[str, str]:
    lines, _ = inspect.getsourcelines(schema)
    (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            above: list[str] = []
            first = node.lineno - 2
            while re.match(r"\s*#", lines[first]):
                above.insert(0, lines[first].strip())
                first -= 1
            assert node.end_lineno is not None
            last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
            texts = [text.strip("# \n") for text in (*above, last)]
            found[node.target.id] = " ".join(filter(None, texts))
    return found


def _in_docstring(function: Any, argument: str) -> str:
    text = inspect.getdoc(function) or ""
    match = re.search(rf"^    {argument}: (.+(?:\n {{8}}.+)*)", text, re.M)
    return " ".join(match[1].replace("``", "").replace("`", "").split()) if match else ""


def _of_group(config: DictConfig, chosen: Mapping[str, Any], group: str) -> str:
    parts = []
    if group in chosen:
        names = [
            (f"{group}={one}", _title(group, one.removesuffix("[_quick]"))) for one in _names(group)
        ]
        parts = [_columns(names)]
        if any("[" in name for name, _ in names):
            parts += [f"{group}=NAME_quick is the short form of {group}=NAME."]
    if group in config:
        of = f"{group}={chosen[group] or 'null'}" if group in chosen else group
        parts += [
            f"Keys of {of}:",
            _columns(_rows(OmegaConf.get_type(config[group]), config[group], f"{group}.")),
        ]
    return "\n\n".join(parts)


def _title(group: str, name: str) -> str:
    """The first sentence of a config file's comment that is no command."""
    path = CONFIGS / group / f"{name}.yaml"
    text = path.read_text() if path.exists() else ""
    comments = re.findall(r"^# ?(.*)", text.partition("\n\n")[0], re.M)
    words = [one for one in comments if not one.startswith(("@", "python ", "torchrun "))]
    return " ".join(words).partition(". ")[0].rstrip(".")


def _rows(schema: Any, node: DictConfig, prefix: str = "") -> Iterator[tuple[str, str]]:
    """``key=value`` and its meaning, of a group and those in it."""
    for key, says in meanings(schema).items():
        if OmegaConf.is_missing(node, key):
            yield f"{prefix}{key}=NEEDED", says
        elif OmegaConf.is_dict(node[key]):
            yield f"{prefix}{key}.KEY", says
            yield from _rows(OmegaConf.get_type(node[key]), node[key], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_shown(node[key])}", says


def _shown(value: Any) -> str:
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _columns(rows: Iterable[tuple[str, str]]) -> str:
    """Two columns as wide as the terminal, the second one wrapped."""
    rows = [*rows]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    left = min(max(len(one) for one, _ in rows), width // 2)
    lines = []
    for one, says in rows:
        wrapped = textwrap.wrap(says, max(20, width - left - 4), break_on_hyphens=False) or [""]
        if len(one) > left:
            lines.append(f"  {one}")
            one = ""
        lines.append(f"  {one:<{left}}  {wrapped[0]}".rstrip())
        lines += [" " * (left + 4) + line for line in wrapped[1:]]
    return "\n".join(lines)


def expected(error: BaseException) -> str:
    """What a value of a wrong type has to be, in a sentence; nothing for any other error."""
    key, schema = getattr(error, "full_key", None), getattr(error, "object_type", None)
    if not isinstance(error, ValidationError) or not key:
        return ""
    hint: Any = getattr(error, "ref_type", None)  # of a list whose element is wrong
    if is_dataclass(schema):
        hint = get_type_hints(schema)[key.rpartition(".")[2]]
    kind = _kind(hint, key)
    value = getattr(error, "value", None)
    shown = repr(value) if isinstance(value, str) else _shown(value)
    return f"{key} is {shown}; give {kind}" if kind else ""


def _kind(hint: Any, key: str) -> str:
    options = get_args(hint)
    if NoneType in options:
        return f"{_kind(next(one for one in options if one is not NoneType), key)}, or null"
    if get_origin(hint) is list:
        return LISTS.get(options[0], "")
    if is_dataclass(hint):
        return f"its keys one by one, as {key}.KEY=VALUE"
    return KINDS.get(hint, "")
