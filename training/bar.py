"""The bar of a job on a terminal: how far it is, how fast it goes, and when it ends."""

from tqdm import tqdm


def open_bar(what: str, steps: int, shown: bool, done: int = 0) -> tqdm:
    """A bar of `steps` steps, of which some are done; never `shown` where there is no terminal.

    What is set as its postfix follows the count; it is gone when it is closed.
    """
    return tqdm(
        total=steps,
        initial=done,
        desc=what,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}",
        leave=False,
        disable=None if shown else True,  # None: only on a terminal
    )


def pace(frames: int, seconds: float, done: int, ahead: int) -> str:
    """Frames a second and the time left when `done` steps took `seconds` and `ahead` are to go."""
    left = tqdm.format_interval(round(seconds / done * ahead))
    return f"{frames / seconds:,.0f} frames/s, {left} left"
