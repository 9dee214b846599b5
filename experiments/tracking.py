"""Figures go to ``metrics.jsonl``, the truth, and to wandb, a copy."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

from datasets.write_whole import full_disk_named
from experiments.config import WandbConfig
from experiments.run_folder import RunFolder

INIT_TIMEOUT = 4.0
"""Seconds that wandb waits for its server; with its own start and end, training waits for 10."""
PATIENCE = 60.0
"""Seconds that a finished run waits for wandb."""
STOP_PATIENCE = 5.0
"""Seconds that a stopped or failed run waits for wandb."""


class Tracker:
    """Writes the figures of a run; on ranks other than the first it does nothing.

    As a context it is closed at the end of the body, after an exception with less patience.

    Args:
        config: of the run, as wandb shows it.
        wandb: mode (``offline`` needs no account and no network), project and group.
    """

    def __init__(
        self, folder: RunFolder, config: dict[str, Any], wandb: WandbConfig, active: bool
    ) -> None:
        self.file = folder.metrics.open("a") if active else None
        self.path = folder.path
        self.wandb: Any = None
        if active and wandb.mode == "online":
            with self._in_the_way("offline"):
                self.wandb = _wandb_run(folder.path, config, wandb, "online")
        if active and wandb.mode != "disabled" and self.wandb is None:
            with self._in_the_way():
                self.wandb = _wandb_run(folder.path, config, wandb, "offline")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(PATIENCE if kind is None else STOP_PATIENCE)

    def log(self, kind: str, epoch: int, step: int, **figures: Any) -> None:
        """Write a line: `kind` (step, epoch, eval, summary), place in training, and the figures."""
        if self.file is None:
            return
        line = {"kind": kind, "epoch": epoch, "step": step, **figures}
        with full_disk_named(Path(self.file.name)):
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()
        with self._in_the_way():
            self._log_to_wandb(kind, epoch, figures)

    def _log_to_wandb(self, kind: str, epoch: int, figures: dict[str, Any]) -> None:
        if self.wandb is None:
            return
        numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
        values: dict[str, Any] = {f"{kind}/{key}": value for key, value in numbers.items()}
        if kind == "summary":
            import wandb

            rows = [[name, str(value)] for name, value in figures.items()]
            values["figures"] = wandb.Table(columns=["figure", "value"], data=rows)
        self.wandb.log({"epoch": epoch if kind == "summary" else epoch + 1, **values})

    def close(self, patience: float = PATIENCE) -> None:
        """Finish the files; wandb has `patience` seconds for its own."""
        if self.file is not None:
            self.file.close()
        if self.wandb is not None:
            with self._in_the_way():
                self._finish(patience)

    def _finish(self, patience: float) -> None:
        try:
            ThreadPoolExecutor(1).submit(self.wandb.finish).result(patience)
        except TimeoutError:
            _end_service()
            raise TimeoutError(f"still busy after {patience:.0f} s") from None

    @contextmanager
    def _in_the_way(self, how: str = "without it") -> Iterator[None]:
        """Go on without wandb if it fails: the figures are in ``metrics.jsonl``."""
        try:
            yield
        except Exception as error:  # of wandb's many kinds, and of its service's
            self.wandb = None
            print(f"wandb: {' '.join(str(error).split())}; going on {how}, {self._later()}")

    def _later(self) -> str:
        return f"`wandb sync {self.path / 'wandb' / 'latest-run'}` sends what it has"


def _wandb_run(
    path: Path, config: dict[str, Any], options: WandbConfig, mode: Literal["online", "offline"]
) -> Any:
    import wandb  # slow to import, and wanted by one rank only

    # In a sweep of wandb its agent has chosen the id; elsewhere the same run goes on.
    ours: Any = {"id": f"{path.parent.name}-{path.name}", "resume": "allow"}
    try:
        with _nobody_asked():
            run = wandb.init(
                mode=mode,
                project=options.project,
                group=options.group,
                name=path.name,
                dir=str(path),
                config=config,
                settings=wandb.Settings(silent=True, console="off", init_timeout=INIT_TIMEOUT),
                **({} if "WANDB_SWEEP_ID" in os.environ else ours),
            )
    except Exception:
        wandb.teardown()  # its service would call the id of this run in use
        raise
    for kind in ("epoch", "eval"):
        run.define_metric(f"{kind}/*", step_metric="epoch")
    return run


def _end_service() -> None:
    """Kill wandb's process (on Linux): wandb would wait for it without limit when ours ends."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            if b"wandb-core" in Path("/proc", pid, "cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
    import wandb

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
