"""Jobs of two ranks that stand still or die; a module of their own, for ranks import it."""

import os
import time


def rank_1_stands(rank, progress):
    progress.plan(2)
    progress.step()
    if rank == 1:
        time.sleep(600)
    return False


def rank_0_dies(rank, progress):
    progress.plan(1)
    if rank == 0:
        os._exit(3)
    raise ValueError("the other one is gone")


def tell_and_stand(rank, progress):
    progress.plan(1)
    print(os.getpid(), flush=True)
    time.sleep(600)
    return False
