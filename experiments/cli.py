"""Entry points: errors of the command line and of the run, each in one sentence."""

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bload.errors import InputError
from experiments.config import CONFIGS, register, typed


def run(
    main: Callable[[], None],
    config_name: str,
    sweep: Callable[[list[str]], None] | None = None,
) -> None:
    """Check the overrides of the command line, then hand over to Hydra.

    Hydra tells a misspelt key in several lines and a trace; here it is one sentence with the
    nearest key. Exits with status 2.

    Args:
        main: what Hydra calls.
        config_name: of `main`.
        sweep: called for ``-m`` with the overrides. Left to Hydra are command lines with other
            options of Hydra, or with a sweeper or launcher of their own.
    """
    register()
    arguments = sys.argv[1:]
    sweeps = any(argument in ("-m", "--multirun") for argument in arguments)
    try:
        if sweeps and "TORCHELASTIC_RUN_ID" in os.environ:
            raise InputError(
                "-m starts one run after another and cannot itself run under torchrun; type "
                f"python {Path(sys.argv[0]).name} {' '.join(arguments)}"
            )
        # Other options of Hydra, such as --cfg job, have values of their own: Hydra reads those.
        jobs = [argument for argument in arguments if argument not in ("-m", "--multirun")]
        options = any(argument.startswith("-") for argument in jobs)
        if not options:
            # A list of plain values stands for its first; the rest is Hydra's grammar.
            plain = [job if re.search(r"[\[{('\"]", job) else job.split(",")[0] for job in jobs]
            check_overrides(config_name, plain if sweeps else jobs)
            if not sweeps:
                check_is_one_run(config_name, jobs)
    except InputError as error:
        stop(error)
    others = options or any(job.startswith(("hydra/launcher", "hydra/sweeper")) for job in jobs)
    if sweeps and sweep and not others:
        with errors_in_one_line():
            sweep(jobs)
    else:
        main()


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the process with one sentence on an `InputError` or Ctrl-C inside."""
    try:
        yield
    except InputError as error:
        stop(error)
    except KeyboardInterrupt:
        print(
            "\nstopped; the same command goes on from the last checkpoint, if one was written",
            file=sys.stderr,
        )
        sys.exit(130)


def stop(error: InputError) -> None:
    """Print the sentence and end the process with status 2."""
    print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr, flush=True)
    sys.exit(2)


def check_overrides(config_name: str, overrides: list[str]) -> DictConfig:
    """The config; raises an `InputError` that says which override is wrong, and how."""
    folders = {path.name for path in CONFIGS.iterdir() if path.is_dir()}
    groups = [o for o in overrides if o.split("=")[0].lstrip("+~") in folders]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            config = compose(config_name, overrides)
            missing = OmegaConf.missing_keys(config)
        except (HydraException, OmegaConfBaseException) as error:
            try:
                known = compose(config_name, groups)
            except (HydraException, OmegaConfBaseException):
                known = compose(config_name)
            raise InputError(_sentence(error, known)) from None
        unknown = set()
        if any(override.startswith("+") for override in overrides):
            unknown = set(_keys(config)) - set(_keys(compose(config_name, groups)))
    if unknown:
        raise InputError(f"there is no config key {min(unknown)!r}; leave it out")
    if missing:
        raise InputError(f"{', '.join(sorted(missing))} is not set; give {min(missing)}=VALUE")
    typed(config)
    return config


def check_is_one_run(config_name: str, overrides: list[str]) -> None:
    """Raise an `InputError` if an experiment of several runs was asked for without ``-m``.

    Hydra would quietly train the default values under the experiment's name. One of its runs can
    be had, under torchrun for instance, by giving all that varies a value.
    """
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        params = compose(config_name, overrides, return_hydra_config=True).hydra.sweeper.params
    given = {override.partition("=")[0] for override in overrides}
    missing = [str(key) for key in params or () if key not in given]
    if missing:
        raise InputError(
            f"this experiment is several runs, over {', '.join(missing)}; type "
            f"python {Path(sys.argv[0]).name} -m {' '.join(overrides)}"
        )


def _sentence(error: Exception, known: DictConfig) -> str:
    text = str(error)
    group = re.search(r"Could not find '(\w+)/(\w+)'", text)
    if group:
        folder, name = group.groups()
        options = sorted(path.stem for path in (CONFIGS / folder).glob("*.yaml"))
        return f"there is no {folder} {name!r}; choose one of {', '.join(options)}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        parent, _, name = key[1].rpartition(".")
        group = OmegaConf.select(known, parent) if parent else known
        names = [str(name) for name in group] if isinstance(group, DictConfig) else list(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
        if near and parent and isinstance(group, DictConfig):
            near = [f"{parent}.{near[0]}"]
        near = near or difflib.get_close_matches(key[1], _keys(known), n=1, cutoff=0.8)
        there = f"{parent} has" if names != list(known) else "there are"
        hint = f"did you mean {near[0]}?" if near else f"{there} {', '.join(names)}"
        return f"there is no config key {key[1]!r}; {hint}"
    merging = re.search(r"Error merging override (\S+)", text)
    if merging:
        reason = str(error.__cause__).splitlines()[0].rstrip(".")
        hint = "; give a list, like [480,640]" if "ListConfig" in reason else ""
        return f"cannot set {merging[1]}: {reason}{hint}"
    return " ".join(text.split())


def _keys(config: DictConfig, prefix: str = ""):
    for key in config:
        child = None if OmegaConf.is_missing(config, key) else config._get_node(key)
        if isinstance(child, DictConfig):
            yield from _keys(child, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
