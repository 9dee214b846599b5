"""The copy of a run in wandb: its id, its axis, its rows, pictures and end.

Importing this imports wandb, which takes seconds.
"""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import wandb

from bload import Plan
from bload.draw import draw_plans
from training.config import WandbConfig

INIT_TIMEOUT = 4.0
"""Seconds that wandb waits for its server; with its own start and end, training waits for 10."""
PROJECT = "bload"
OFFLINE = ("offline", "dryrun")
"""Modes of wandb in which nothing is sent."""


def mode_of(options: WandbConfig) -> str:
    """The mode of a config; if it has none, that of WANDB_MODE or wandb's settings, or offline."""
    settings = wandb.setup().settings
    said = settings.mode if "mode" in settings.model_fields_set else "offline"
    return options.mode or said


class WandbRun:
    """A run in wandb: where the run of this folder goes on, if it has begun there before.

    wandb takes nothing back, so what is trained once more after a stop is not sent once more.
    Its files lie where wandb puts those of any program, in ``wandb/`` of the working directory
    or of WANDB_DIR.

    Args:
        state: in the folder of the run; id of its run in wandb, rows that this has, and the last
            global step of each kind.
        config: of the run, as wandb shows it.
        options: what they leave open, wandb's environment and settings say.
        mode: as `mode_of` says.
    """

    def __init__(
        self, state: Path, config: dict[str, Any], options: WandbConfig, mode: str
    ) -> None:
        held: dict[str, Any] = {"id": None}
        if state.exists():
            held = json.loads(state.read_text())
        self.state = state
        self.run: Any = _init(state.parent.name, config, options, mode, held["id"])
        self.offline = mode in OFFLINE
        if held["id"] != self.run.id:
            held = {"id": self.run.id, "rows": 0, "sent": {}}
        self.id, self.sent = self.run.id, held["sent"]
        self.rows = max(held["rows"], self.run.step)
        self._keep()
        self.run.define_metric("global_step")
        for name in ("epoch", "*"):
            self.run.define_metric(name, step_metric="global_step")

    @property
    def later(self) -> str:
        """The command that sends what wandb has on the disk, of every time that this run ran."""
        place = Path(self.run.dir).parents[1]
        with suppress(ValueError):
            place = place.relative_to(Path.cwd())
        which = "" if self.offline else "--include-online "
        kind = "offline-run" if self.offline else "run"
        return f"`wandb sync {which}{shlex.quote(str(place))}/{kind}-*-{self.id}`"

    def log(self, kind: str, epoch: int, step: int, values: Mapping[str, Any]) -> None:
        """Send a row, unless its kind has been sent up to this step before.

        Args:
            epoch: from 1.
            step: global, of all epochs.
            values: by the names under which wandb shows them.
        """
        if step <= self.sent.get(kind, -1):
            return
        row = {"global_step": step, "epoch": epoch, **values}
        self.run.log(row, step=self.rows, commit=True)
        self.rows += 1
        self.sent[kind] = step
        self._keep()

    def table(self, epoch: int, step: int, figures: Mapping[str, float]) -> None:
        """Send the final figures, as a table of names and numbers."""
        rows = [[name, value] for name, value in figures.items()]
        self.log("summary", epoch, step, {"figures": wandb.Table(["figure", "value"], rows)})

    def draw(self, epoch: int, step: int, plans: dict[str, Plan]) -> None:
        """Send a picture of the first blocks of plans by loader; only once in a run."""
        if "blocks" in self.sent:
            return
        with TemporaryDirectory() as folder:
            drawn = draw_plans(plans, Path(folder) / "blocks.png")
            self.show("blocks", epoch, step, [drawn])

    def show(self, kind: str, epoch: int, step: int, files: Iterable[Path]) -> None:
        """Send those of the files that are pictures, by their names."""
        pictures = [file for file in files if file.suffix == ".png"]
        images = {f"pictures/{file.stem}": wandb.Image(str(file)) for file in pictures}
        self.log(kind, epoch, step, images)

    def finish(self, patience: float) -> None:
        """End the run. Raises `TimeoutError` if wandb needs longer than `patience` seconds."""
        try:
            ThreadPoolExecutor(1).submit(self.run.finish).result(patience)
        except TimeoutError:
            _end_service()
            raise TimeoutError(f"still busy after {patience:.0f} s") from None

    def _keep(self) -> None:
        """Note how far wandb is; not as sure of a power cut as a checkpoint, but fast."""
        part = self.state.with_suffix(".part")
        part.write_text(json.dumps({"id": self.id, "rows": self.rows, "sent": self.sent}))
        part.replace(self.state)


def _init(
    name: str, config: dict[str, Any], options: WandbConfig, mode: Any, known: str | None
) -> Any:
    settings = wandb.setup().settings  # an id there is that of a sweep's agent, or was asked for
    try:
        with _nobody_asked():
            return wandb.init(
                mode=mode,
                project=options.project or settings.project or PROJECT,
                entity=options.entity,
                tags=options.tags,
                notes=options.notes,
                job_type=options.job_type,
                group=options.group,
                name=settings.run_name or name,
                id=settings.run_id or known,
                resume="allow" if known else None,
                config=config,
                settings=wandb.Settings(silent=True, console="off", init_timeout=INIT_TIMEOUT),
            )
    except Exception:
        wandb.teardown()  # its service would call the id of this run in use
        raise


def _end_service() -> None:
    """Kill wandb's process (on Linux): wandb would wait for it without limit when ours ends."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            if b"wandb-core" in Path("/proc", pid, "cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
    with suppress(Exception):  # what it says of a connection that is gone
        wandb.teardown()


@contextmanager
def _nobody_asked() -> Iterator[None]:
    """Take the terminal away: without a key wandb would ask there for one, and wait for ever."""
    terminal = sys.stdin
    with Path(os.devnull).open() as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = terminal
