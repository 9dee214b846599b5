"""A bound on the memory that a piece of work may take, where the system can set one (Linux)."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")
_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def memory_limited(growth: int) -> Iterator[None]:
    """Let the address space of the process grow by `growth` bytes at most while inside.

    What asks for more gets a `MemoryError`. A lower limit that stands already stays. Where the
    system does not tell how much is in use, nothing is limited.
    """
    with _ONE_AT_A_TIME:  # so that each restores what it found
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = _in_use() + growth if _STATM.exists() else resource.RLIM_INFINITY
        if resource.RLIM_INFINITY in (limit, soft):
            limit = limit if soft == resource.RLIM_INFINITY else soft
        else:
            limit = min(limit, soft)
        if limit != resource.RLIM_INFINITY and hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _in_use() -> int:
    pages = int(_STATM.read_text().split()[0])
    return pages * resource.getpagesize()
