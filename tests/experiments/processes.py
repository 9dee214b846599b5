"""Whether processes are still there."""

import time
from pathlib import Path


def running(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet has ended too."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_end(pids: list[int], within: float) -> bool:
    """Whether none of the processes runs any more after at most `within` seconds."""
    deadline = time.monotonic() + within
    while any(running(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
