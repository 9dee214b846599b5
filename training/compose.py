"""Jobs that Hydra composes from `configs/` and a command line, and the keys in ``--help``."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from textwrap import TextWrapper, fill
from typing import Any, get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bload.errors import InputError, suggest
from bload.packing.packers import PACKERS
from datasets.build import DATASETS
from datasets.config_fields import key_help
from datasets.synthetic.world import World
from training.config import CONFIGS, EvalJob, TrainJob, loader_schema
from training.stopping import AgreedError


def format_meanings(*, _root_: Any) -> str:
    """Format every key of a composed config with its value and its meaning, for ``--help``."""
    rows = []
    for prefix, part, schema in find_schemas(_root_):
        for name, words in key_help(schema):
            value = part[name]
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True)
            value = value if isinstance(value, str) else json.dumps(value)
            rows.append((f"{prefix}{name}={value}", words))
    wrapper = TextWrapper(79, "", 36 * " ", break_on_hyphens=False, break_long_words=False)
    lines = (wrapper.fill(f"  {setting:<32}  {words}") for setting, words in rows)
    return "\n".join(lines).replace("$", "$$")  # Hydra fills in a template


def config_names(group: str) -> str:
    """List the files of a group in configs/ that can be chosen, wrapped for ``--help``."""
    names = sorted(file.stem for file in (CONFIGS / group).glob("[!_]*.yaml"))
    return fill(", ".join(names), 65).replace("\n", "\n" + 14 * " ")


def slots_per_rank(slots: int, least: int) -> int:
    """Return a rank's share of the slots of a step, of which no rank takes less than `least`."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if slots % ranks or slots // ranks < least:
        raise InputError(
            f"a step has {slots} slots, of which {ranks} ranks cannot take {least} or more each; "
            "take fewer ranks, or set train.batch_slots, per rank, and train.lr"
        )
    return slots // ranks


def register() -> None:
    """Register the schemas with Hydra, and packers and data sets without a file in configs/."""
    resolvers: dict[str, Any] = {
        "meanings": format_meanings,
        "configs": config_names,
        "packers": lambda: ", ".join(PACKERS),
        "twice": lambda rate: 2 * rate,
        "per_rank": slots_per_rank,
        "root_name": lambda *, _parent_: World.root_name(_parent_),
    }
    for name, function in resolvers.items():
        OmegaConf.register_new_resolver(name, function, replace=True)
    store = ConfigStore.instance()
    # Hydra copies this single object 85 times for --help, which takes 1.5 s.
    ConfigStore.__deepcopy__ = lambda self, _: self  # type: ignore[attr-defined]
    store.store(name="train_schema", node=TrainJob)
    store.store(name="eval_schema", node=EvalJob)
    schemas: list[tuple[str, str, Any]] = [
        *(("loader", name, loader_schema(name)) for name in PACKERS),
        *(("dataset", name, schema) for name, (schema, _) in DATASETS.items()),
    ]
    for group, name, schema in schemas:
        if (CONFIGS / group / f"{name}.yaml").exists():
            store.store(group=group, name=f"_{name}", node=schema)
        else:
            node = OmegaConf.structured(schema)
            node.name = name
            store.store(group=group, name=name, node=node)


def compose_job(name: str, overrides: Sequence[str]) -> Any:
    """Return the `TrainJob` or `EvalJob` of a command line, outside of Hydra.

    Raises:
        InputError: what Hydra refuses, in its words.
    """
    register()
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return to_job(compose(name, list(overrides)))
    except CompactHydraException as error:
        raise InputError(hydras_words(error)) from error


def hydras_words(error: CompactHydraException) -> str:
    """Return an error's message without names of our classes, and without advice to add a key."""
    words = "\n".join(filter(None, map(str, (error, error.__cause__ or ""))))
    words = words.replace("missing EQUAL at '<EOF>'", "give KEY=VALUE; --help lists the keys")
    groups = [*get_type_hints(TrainJob).values(), EvalJob, World, *map(loader_schema, PACKERS)]
    known = {key.name: f"{schema.prefix}{key.name}" for schema in groups for key in fields(schema)}
    names = {group.__name__: [key.name for key in fields(group)] for group in (TrainJob, *groups)}

    def suggestion(unknown: re.Match[str]) -> str:
        key, near = unknown[1], names.get(unknown[2], ())
        hint = f"; another choice has {known[key]}" if key in known else suggest(key, near)
        return f"Key {key!r} is unknown, --help lists all keys{hint}"

    lines = re.sub(r"Key '(\w+)' not in '(\w+)'", suggestion, words).splitlines()
    hidden = re.compile("\t_|\tprovider=|Config search|To append|    (reference|object)_type=")
    return "\n".join(line for line in lines if not hidden.match(line))


def sweep_lines(params: Mapping[str, Any] | None, overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each job of a sweep, as Hydra does; later ones of a key count."""
    lines = [*(f"{key}={values}" for key, values in (params or {}).items()), *overrides]
    choices = {}
    for line in OverridesParser.create().parse_overrides(lines):
        is_sweep, key = line.is_sweep_override(), line.get_key_element()
        values = line.sweep_string_iterator() if is_sweep else [line.get_value_element_as_str()]
        choices[key] = [f"{key}={value}" for value in values]
    return [[*choice] for choice in product(*choices.values())]


def to_job(config: Any) -> Any:
    """Convert a composed config to the `TrainJob` or `EvalJob` that it describes.

    Raises:
        AgreedError: a value is invalid, on all ranks alike, since they share the command line.
    """
    try:
        check_keys(config)
        return OmegaConf.to_object(config)
    except (InputError, OmegaConfBaseException) as error:
        source: BaseException | None = error
        while source and not isinstance(source, InputError):  # a resolver's is wrapped
            source = source.__context__
        raise AgreedError(str(source or error)) from error


def check_keys(config: Any) -> None:
    """Raise `InputError` for a key that nothing reads; Hydra lets ``+`` add one."""
    for prefix, part, schema in find_schemas(config):
        known = [key.name for key in fields(schema)]
        for name in part:
            if name not in known:
                raise InputError(f"there is no key {prefix}{name}{suggest(name, known)}")


def find_schemas(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the prefix of its keys, the part and its schema, of each part that has one."""
    schema = OmegaConf.get_type(config) if OmegaConf.is_dict(config) else None
    if is_dataclass(schema):
        yield prefix, config, schema
        for name in config:
            if not (OmegaConf.is_missing(config, name) or OmegaConf.is_interpolation(config, name)):
                yield from find_schemas(config[name], f"{prefix}{name}.")
