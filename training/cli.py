"""Command lines of train.py and eval.py: checked jobs, and every error in one sentence."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets.supported import not_installed

try:
    import hydra
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException, OverrideParseException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
except ModuleNotFoundError as error:  # the first import of train.py that another Python lacks
    sys.exit(f"error: {not_installed((error.name,))}")

from bload.errors import InputError, spelling
from training.config import CONFIGS, TrainJob, register
from training.help import asked, choices, expected, help_text, split_off
from training.launch import errors_in_one_line, is_launched, launch
from training.stopping import leave_unread, printing
from training.typed import check_words, nearest, quoted

HYDRAS = ("-", "hydra/launcher", "hydra/sweeper")
"""Beginnings of arguments with which a command line is left to Hydra, such as ``--cfg job``."""
OPTIONAL = "adamw"
"""The group of which Hydra passes over a file that is not there, as not every model has one."""


def run(main: Callable[[Any], None], name: str, job: Any = None) -> None:
    """Run an entry point with the command line of this process.

    Args:
        main: called with the `TrainJob` or `EvalJob`, if this process is the one to do it.
        name: its config's file in configs/.
        job: what `check_first` has returned; None: the command line is still to be read.
    """
    with spelling(_as_key), errors_in_one_line():
        if job is None and _hydra_sweeps(name):
            _by_hydra(name, errors_in_one_line()(lambda config: main(OmegaConf.to_object(config))))
        elif job := job or _job_here(name):
            main(job)


def check_first(name: str) -> Any:
    """The job of this process's command line, for `run`, before a script imports torch.

    That takes seconds, so a wrong command line ends the process here, and so does one of which this
    process computes nothing: ``--help``, a sweep, ranks to be started.
    """
    with spelling(_as_key), errors_in_one_line():
        if _hydra_sweeps(name):
            return None
        job = _job_here(name)
    if job is None:
        sys.exit()
    return job


def _typed(name: str) -> tuple[list[str], bool]:
    """What is typed but ``-m``, and whether that is there."""
    words = [one for one in sys.argv[1:] if one not in ("-m", "--multirun")]
    if not asked(words):
        check_words(name, words)
    return [quoted(one) for one in words], len(words) < len(sys.argv) - 1


def _hydra_sweeps(name: str) -> bool:
    """True for jobs that Hydra runs one after another in this process, or by its launchers."""
    overrides, sweeps = _typed(name)
    if not sweeps or asked(overrides) or _shows(overrides) or "TORCHELASTIC_RUN_ID" in os.environ:
        return False
    return name != "train" or any(one.startswith(HYDRAS) for one in overrides)


def _shows(overrides: Sequence[str]) -> bool:
    return any(one.startswith(("--cfg", "-c")) for one in overrides)


def _by_hydra(name: str, task: Callable[[Any], None]) -> None:
    register()
    hydra.main(config_path=str(CONFIGS), config_name=name, version_base="1.3")(task)()


@printing(leave_unread)
def _job_here(name: str) -> Any:
    """The job that this process is to do; None once all is done that was asked for.

    Raises:
        InputError: says what is wrong with the command line.
    """
    overrides, sweeps = _typed(name)
    as_sweep = f"type python {Path(sys.argv[0]).name} -m {' '.join(overrides)}"
    register()
    if asked(overrides):
        if os.environ.get("RANK", "0") == "0":
            group, overrides = split_off(overrides)
            with _configs():
                config = _compose(name, overrides, return_hydra_config=True)
                print(help_text(name, config, group))
        return None
    if sweeps and "TORCHELASTIC_RUN_ID" in os.environ:
        raise InputError(f"-m starts the ranks itself, not under torchrun; {as_sweep}")
    if sweeps and _shows(overrides):
        raise InputError("--cfg shows the config of one run; leave out -m")
    if any(o.startswith(HYDRAS) for o in overrides):
        with _configs():  # as Hydra would pass over a file that is not there
            files = (f"{OPTIONAL}=", "hydra.searchpath=")
            _check_each(name, [one for one in overrides if one.startswith(files)])
        composed: list[DictConfig] = []
        _by_hydra(name, lambda config: composed.append(config))
        if not composed:
            return None
        job = OmegaConf.to_object(composed[0])
    elif sweeps:
        from training.sweep import sweep

        return sweep(overrides)
    else:
        lines, varied = split(name, overrides)
        if len(lines) > 1:
            what = f"this is {len(lines)} runs, over {', '.join(varied)}"
            raise InputError(f"{what}; choose one, or {as_sweep}")
        job = check_overrides(name, lines[0])
    if isinstance(job, TrainJob):
        _check_files(job)
        if job.launch.nproc > 1 and not is_launched():
            return _launch(job)
    return job


def _check_files(job: TrainJob) -> None:
    """Refuse data of another kind, and a run that is to begin with a file which is not there.

    One that has begun may not need that any more.
    """
    from datasets.build import check_kind, train_lengths
    from datasets.config import SyntheticConfig
    from models.config import missing_weights
    from training.folder import RunFolder, checkpoint_file, run_name
    from training.loader_config import check_fits

    check_kind(job.dataset)
    if isinstance(job.dataset, SyntheticConfig):  # of others the source will say
        check_fits(job.loader, lambda: train_lengths(job.dataset))
    ranks = int(os.environ.get("WORLD_SIZE", job.launch.nproc))
    if RunFolder(job.run.root, job.run.name or run_name(job, ranks)).path.exists():
        return
    if job.run.resume not in ("auto", "never"):
        checkpoint_file(job.run.resume)
    elif lacking := missing_weights(job.model.weights):
        raise InputError(lacking)


def _launch(job: TrainJob) -> None:
    """Train on ranks of their own; note in the run's folder why they failed if no rank knew."""
    from training.folder import RunFolder, run_name
    from training.provenance import now

    try:
        launch(job.launch.nproc, sys.argv[1:])
    except InputError as error:
        folder = RunFolder(job.run.root, job.run.name or run_name(job, job.launch.nproc))
        if folder.error.exists():  # by a rank that knew no more than that another one ended
            folder.note_error(str(error), now())
        raise


def _as_key(name: str, value: str | None) -> str:
    """An option of the library as a key of train.py."""
    key = f"{'train' if name == 'batch_frames' else 'loader'}.{name}"
    return key if value is None else f"{key}={value}"


def split(name: str, overrides: Sequence[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The overrides of each job of a command line, and the keys that may differ between jobs.

    An experiment's file says in ``hydra.sweeper.params`` over what it is swept; what is typed
    replaces that.
    """
    chosen = [one for one in overrides if one.startswith(("experiment=", "hydra."))]
    with _configs():
        swept: dict[str, Any] = {}
        if chosen:
            swept = _compose(name, chosen, return_hydra_config=True).hydra.sweeper.params or {}
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        given = [*(f"{key}={value}" for key, value in swept.items()), *overrides]
        parsed = {one.get_key_element(): one for one in parser.parse_overrides(given)}
        varied = [key for key, one in parsed.items() if key in swept or one.is_sweep_override()]
        values = [
            [f"{key}={value}" for value in one.sweep_string_iterator()]
            if one.is_sweep_override()
            else [f"{key}={one.get_value_element_as_str()}"]
            for key, one in parsed.items()
        ]
    return list(itertools.product(*values)), varied


def check_overrides(name: str, overrides: Sequence[str]) -> Any:
    """Compose the job of a command line.

    Raises:
        InputError: names the override that is wrong, and what there is instead.
    """
    with _configs():
        config = _compose(name, overrides)
        missing = sorted(OmegaConf.missing_keys(config))
        if missing:
            value = "runs/NAME" if missing[0] == "checkpoint" else "VALUE"
            raise InputError(f"{', '.join(missing)} is not set; give {missing[0]}={value}")
        return OmegaConf.to_object(config)


@contextmanager
def _configs() -> Iterator[None]:
    """Hydra on configs/, and its errors as an `InputError`."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            yield
        except OverrideParseException as error:
            raise InputError(
                f"{error.override!r} is not KEY=VALUE as Hydra reads it; put a value with signs "
                "that mean something there in quotes, \"KEY='VALUE'\""
            ) from None
        except RecursionError:
            raise InputError("a value is nested too deeply; give it in fewer brackets") from None
        except (HydraException, OmegaConfBaseException) as error:
            text = " ".join(str(error).split())
            if error.__cause__:
                text = ": ".join(str(one).splitlines()[0] for one in (error, error.__cause__))
            raise InputError(expected(error.__cause__ or error) or text) from error
        except InputError:
            raise
        except ValueError as error:  # Hydra reads numbers by Python, which has a limit on digits
            raise InputError(f"an override cannot be read: {error}") from error


def _compose(name: str, overrides: Sequence[str], **options: Any) -> DictConfig:
    try:
        if any(override.startswith(("+", f"{OPTIONAL}=")) for override in overrides):
            _check_each(name, overrides)  # Hydra would add a key, or pass over a file
        return compose(name, list(overrides), **options)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError):
        _check_each(name, overrides)
        raise


def _check_each(name: str, overrides: Sequence[str]) -> None:
    """Raise an `InputError` if an override names a file or a key that is not there."""
    elsewhere = any(override.startswith("hydra.searchpath=") for override in overrides)
    chosen, keys = [], []
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.key_or_group
        if not key:
            raise InputError(f"{override.input_line!r} names no config key; give KEY=VALUE")
        options = GlobalHydra.instance().config_loader().get_group_options(key)
        there = override.value() in options or override.is_delete() or elsewhere
        if options and not there:
            value = override.get_value_string()
            names = ", ".join(choices(key))
            raise InputError(f"there is no {key} {value!r}; choose one of {names}")
        if options or override.is_hydra_override():
            chosen.append(str(override.input_line))
        else:
            keys.append(key)
    known = list(_keys(OmegaConf.to_container(compose(name, chosen))))
    for key in keys:
        if key not in known:
            parent = key.rpartition(".")[0]
            beside = [one for one in known if one.rpartition(".")[0] == parent]
            beside = beside or [one for one in known if "." not in one]
            near = " or ".join(nearest(key, known))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(beside)}"
            raise InputError(f"there is no config key {key!r}; {hint}")


def _keys(group: Any, prefix: str = "") -> Iterator[str]:
    """All keys of nested dicts, dotted, those of groups among them."""
    for name, value in group.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{name}.")
