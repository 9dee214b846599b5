"""Time and disk that the rest will take, told from the videos done so far."""

from collections.abc import Iterable
from dataclasses import dataclass

from bload.errors import InputError
from datasets.annotations.frame_names import frame_number
from datasets.frames.sizes import gib
from datasets.prepare.extraction import Extracted


@dataclass(slots=True)
class Estimate:
    """Running sums over the videos done: time goes with frames decoded, disk with frames kept."""

    decoded: int = 0
    kept: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def add(self, frames: list[str], extracted: Extracted) -> None:
        """Count a video that is done, given with its annotated frames."""
        self.decoded += frames_to_decode([frames])
        self.kept += len(frames)
        self.seconds += extracted.seconds
        self.bytes += sum(size for size, _ in extracted.checksums.values())

    def bytes_of(self, videos: Iterable[list[str]]) -> int:
        """Disk that these videos will take."""
        return round(self.bytes / max(1, self.kept) * sum(map(len, videos)))

    def seconds_of(self, videos: Iterable[list[str]], workers: int) -> float:
        """Time that these videos will take on so many processes, as busy as those so far."""
        return self.seconds / max(1, self.decoded) * frames_to_decode(videos) / workers


def frames_to_decode(videos: Iterable[list[str]]) -> int:
    """Frames up to the last annotated one of each video."""
    return sum(frame_number(frames[-1]) for frames in videos)


def pilot(videos: list[list[str]], count: int) -> tuple[list[list[str]], list[list[str]]]:
    """`count` videos evenly spread over all of them, to measure first; and the others."""
    count = min(count, len(videos))
    chosen = {index * len(videos) // count for index in range(count)}
    first = [frames for index, frames in enumerate(videos) if index in chosen]
    return first, [frames for index, frames in enumerate(videos) if index not in chosen]


def check_disk(needed: int, free: int, folder: object) -> None:
    """Refuse what clearly does not fit: four fifths of the estimate are more than is free."""
    if 0.8 * needed > free:
        raise InputError(
            f"{folder} needs about {gib(needed)} more and the disk has {gib(free)} free; make room "
            "and run the same command again, or remove the folder and store less with --format "
            "jpeg or --short-side"
        )


def duration(seconds: float) -> str:
    """Format seconds for people."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
