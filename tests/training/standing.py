"""Jobs of two ranks, one of which stands still or dies; ranks import them from this module."""

import os
import time


def rank_1_stands(rank, progress):
    progress.plan(5)
    for _ in range(5 if rank == 0 else 1):
        time.sleep(0.4)
        progress.step()
    if rank == 1:
        time.sleep(600)
    return False


def rank_0_dies(rank, progress):
    progress.plan(1)
    if rank == 0:
        os._exit(3)
    raise ValueError("the other one is gone")


def say_and_stand(rank, progress):
    progress.plan(1)
    print("standing", flush=True)
    time.sleep(600)
    return False
