"""What commands of studies share: the jobs of an experiment, wrong input in one sentence."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bload.errors import InputError
from training.config import CONFIGS, TrainJob, register


@dataclass(frozen=True)
class Job:
    """One run of an experiment. `varied` holds the overrides in which its jobs may differ."""

    varied: tuple[str, ...]
    config: TrainJob

    def __str__(self) -> str:
        return " ".join(self.varied) or self.config.loader.name


def jobs_of(arguments: Sequence[str]) -> list[Job]:
    """The jobs of ``train.py -m`` with these arguments, as Hydra's sweeper would run them."""
    from hydra import compose, initialize_config_dir  # here, as the GPU benchmark has no Hydra
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    register()
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        chosen = [one for one in arguments if one.startswith("experiment=")]
        whole = compose("train", chosen, return_hydra_config=True)
        given = [f"{key}={value}" for key, value in (whole.hydra.sweeper.params or {}).items()]
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        parsed = {
            one.get_key_element(): one for one in parser.parse_overrides([*given, *arguments])
        }
        varied = [key for key, one in parsed.items() if one.is_sweep_override()]
        (lines,) = BasicSweeper.split_arguments([*parsed.values()], max_batch_size=None)
        return [
            Job(
                tuple(one for one in line if one.partition("=")[0] in varied),
                OmegaConf.to_object(compose("train", list(line))),  # type: ignore[arg-type]
            )
            for line in lines
        ]


@contextmanager
def wrong_input_in_one_sentence() -> Iterator[None]:
    """End the process with one sentence and status 2 on an `InputError` in the body."""
    try:
        yield
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
