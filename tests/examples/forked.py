"""``forked.py RANKS PROGRAM ...``: torchrun, but ranks are forked, as imports take longest."""

import gc
import os
import re
import runpy
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

HEADS = r"^(?:(?:from|import) |torch\._utils\.).*"  # this sets what an import asks for


def import_heads(program):
    """Import what a program does, up to what is not there yet."""

    with suppress(ModuleNotFoundError):
        exec("\n".join(re.findall(HEADS, Path(program).read_text(), re.M)), {})


def fork_ranks(count, folder, function, *arguments):
    """Call a function on ranks, in a folder, with the variables of torchrun; return exit codes."""
    folder.mkdir(exist_ok=True)
    gc.freeze()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0"}
    common |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "forked"}
    ranks = []
    for rank in map(str, range(count)):
        if not (process := os.fork()):
            os.environ |= common | {"RANK": rank, "LOCAL_RANK": rank}
            os.chdir(folder)
            try:
                function(*arguments)
                sys.stdout.flush()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        ranks.append(process)
    return [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]


if __name__ == "__main__":
    count, (program, *_) = int(sys.argv[1]), sys.argv[2:]
    sys.argv, sys.path[0] = sys.argv[2:], str(Path(program).parent)
    import_heads(program)
    sys.exit(any(fork_ranks(count, Path.cwd(), runpy.run_path, program, None, "__main__")))
