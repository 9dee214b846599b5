"""Entry points: errors of the command line and of the run, each in one sentence."""

import difflib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bload.errors import InputError

CONFIGS = Path(__file__).parents[2] / "configs"


def run(main: Callable[[], None], config_name: str) -> None:
    """Check the overrides of the command line, then hand over to Hydra.

    Hydra tells a misspelt key in several lines and a trace; here it is one sentence with the
    nearest key. Exits with status 2.
    """
    arguments = sys.argv[1:]
    sweeps = any(argument in ("-m", "--multirun") for argument in arguments)
    try:
        if sweeps and "TORCHELASTIC_RUN_ID" in os.environ:
            raise InputError(
                "-m starts one run after another and cannot itself run under torchrun; type "
                f"python {Path(sys.argv[0]).name} {' '.join(arguments)}"
            )
        if not sweeps:
            check_overrides(config_name, [a for a in arguments if not a.startswith("-")])
    except InputError as error:
        stop(error)
    main()


def stop(error: InputError) -> None:
    """Print the sentence and end the process with status 2."""
    print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr, flush=True)
    sys.exit(2)


def check_overrides(config_name: str, overrides: list[str]) -> None:
    """Compose the config and raise an `InputError` that says which override is wrong, and how."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            config = compose(config_name, overrides)
            missing = OmegaConf.missing_keys(config)
        except (HydraException, OmegaConfBaseException) as error:
            groups = [o for o in overrides if "." not in o.split("=")[0]]
            try:
                known = compose(config_name, groups)
            except (HydraException, OmegaConfBaseException):
                known = compose(config_name)
            raise InputError(_sentence(error, known)) from None
        unknown = config.keys() - compose(config_name).keys()
    if unknown:
        raise InputError(f"there is no config key {min(unknown)!r}; leave it out")
    if missing:
        raise InputError(f"{', '.join(sorted(missing))} is not set; give {min(missing)}=VALUE")


def _sentence(error: Exception, known: DictConfig) -> str:
    text = str(error)
    group = re.search(r"Could not find '(\w+)/(\w+)'", text)
    if group:
        folder, name = group.groups()
        options = sorted(path.stem for path in (CONFIGS / folder).glob("*.yaml"))
        return f"there is no {folder} {name!r}; choose one of {', '.join(options)}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        keys = list(_keys(known))
        near = difflib.get_close_matches(key[1], keys, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"there is no config key {key[1]!r}; {hint}"
    merging = re.search(r"Error merging override (\S+)", text)
    if merging:
        return f"cannot set {merging[1]}: {str(error.__cause__).splitlines()[0]}"
    return " ".join(text.split())


def _keys(config: DictConfig, prefix: str = ""):
    for key in config:
        child = None if OmegaConf.is_missing(config, key) else config._get_node(key)
        if isinstance(child, DictConfig):
            yield from _keys(child, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
