"""Runs that may be compared: alike in all but the keys that are compared, and the seed."""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from experiments.report.collect import Run

Key = TypeVar("Key", bound=Hashable)

ASIDE = {
    "run": None,
    "wandb": None,
    "experiment": None,
    "launch": None,
    "dataset": ("root",),
    "model": ("checkpoint",),
    "train": ("seed", "device", "workers", "checkpoint_every", "log_every"),
}
"""Config keys that do not change what a run shows, besides the seed."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """Finished runs of one setting, one a row and seed, and those of other settings left out."""

    runs: tuple[Run, ...]
    others: tuple[Run, ...]

    @property
    def note(self) -> str:
        if not self.others:
            return ""
        are = "run stands" if len(self.others) == 1 else "runs stand"
        return (
            f"{len(self.others)} {are} apart, in the list of runs: other settings than most here."
        )

    def alike(self, runs: Iterable[Run], *free: str) -> list[Run]:
        """Those of `runs` that are like these in all but the seed and the `free` keys."""
        settings = {_text(run, {*free}) for run in self.runs}
        return [run for run in runs if _text(run, {*free}) in settings]

    def by(self, key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
        """The runs grouped, each group in the order of seeds."""
        groups: dict[Key, list[Run]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: (run.seed, run.name)):
            groups[key(run)].append(run)
        return dict(groups)


def comparable(runs: Iterable[Run], *free: str) -> Comparable:
    """The largest set of runs alike in all but the seed and the `free` keys.

    A free key is a group (``loader``) or a key of one (``train.starts``). Of two runs alike in
    everything, which a seed makes only once, the first counts.
    """
    settings: dict[str, dict[str, Run]] = defaultdict(dict)
    rest = []
    for run in sorted(runs, key=lambda run: run.name):
        alike = settings[_text(run, {*free})]
        whole = _text(run, set()) + str(run.seed)
        if whole in alike:
            rest.append(run)
        else:
            alike[whole] = run
    if not settings:
        return Comparable((), ())
    chosen = max(settings.values(), key=len)
    rest += [run for alike in settings.values() if alike is not chosen for run in alike.values()]
    return Comparable(tuple(chosen.values()), tuple(rest))


def _text(run: Run, free: set[str]) -> str:
    kept: dict[str, Any] = {}
    for group, values in run.config.items():
        aside = ASIDE.get(group, ())
        if aside is None or group in free:
            continue
        if not isinstance(values, dict):
            kept[group] = values
            continue
        kept[group] = {
            key: value
            for key, value in values.items()
            if key not in aside and f"{group}.{key}" not in free
        }
    # Ranks and device decide what an epoch costs, and ranks the batch.
    place = [run.summary.get("ranks"), run.summary.get("device")]
    return json.dumps([kept, place], sort_keys=True, default=str)
