"""What was found in a root: a text for readers, a dictionary for machines."""

import shlex
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from datasets.annotations.problems import Problems
from datasets.annotations.rules import FilterCounts
from datasets.verify.frame_files import (
    ALTERED,
    MISSING,
    NOT_AS_SAID,
    OTHER_SIZE,
    OTHER_VIDEO,
    UNFINISHED,
    UNREADABLE,
    WRITING,
    FrameCounts,
)
from datasets.verify.published import Comparison

MadeBy = Literal["prepare", "synthetic"]
"""What can make frames again: `datasets.prepare` from videos, or drawing a synthetic root."""

SMALL_BOXES_SAID = {
    "keep": "small boxes stay",
    "file": "small boxes out as in the published file",
    "computed": "small boxes out as computed",
}


@dataclass(slots=True)
class Report:
    """The findings; `problems` are what is needed and missing or wrong, `remarks` the rest."""

    root: str
    small_boxes: str
    frame_format: str = ""
    made_by: MadeBy | None = None
    counts: dict[str, FilterCounts] = field(default_factory=dict)
    published: dict[str, Comparison] = field(default_factory=dict)
    frames: FrameCounts | None = None
    problems: Problems = field(default_factory=Problems)
    remarks: Problems = field(default_factory=Problems)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for json."""
        return {
            "root": self.root,
            "small_boxes": self.small_boxes,
            "ok": not self.problems,
            "splits": {
                split: {
                    "steps": [asdict(step) for step in counts.steps],
                    "as_published": self.published[split].same,
                    "published": asdict(self.published[split]),
                }
                for split, counts in self.counts.items()
            },
            "frame_format": self.frame_format,
            "frames": asdict(self.frames) if self.frames else None,
            "problems": _notes(self.problems),
            "remarks": _notes(self.remarks),
        }

    def __str__(self) -> str:
        lines = [f"{self.root}: {SMALL_BOXES_SAID[self.small_boxes]}"]
        for split, counts in self.counts.items():
            lines += ["", *_table(split, counts), f"  {self.published[split]}"]
        if self.frames:
            lines += ["", *_frames(self.frames, self.frame_format)]
        for title, notes in (("remarks", self.remarks), ("problems", self.problems)):
            if notes:
                lines += ["", f"{title}:", *(f"  {line}" for line in notes.sentences())]
        lines += ["", _verdict(self)]
        return "\n".join(lines)


def _table(split: str, counts: FilterCounts) -> list[str]:
    lines = [f"{split:38}{'frames':>10}{'videos':>9}{'objects':>10}   taken away"]
    before = None
    for step in counts.steps:
        line = f"  {step.rule:36}{step.frames:10,}{step.videos:9,}{step.objects:10,}"
        if before:
            frames, videos = before.frames - step.frames, before.videos - step.videos
            line += f"   {frames:,} frames, {videos:,} videos"
        lines.append(line)
        before = step
    return lines


def _frames(frames: FrameCounts, frame_format: str) -> list[str]:
    how = "decoded" if frames.decoded else "header, size and checksums; --decode makes pixels too"
    return [
        f"frames: {frame_format}",
        f"  that count:    {frames.there:,} of {frames.needed:,} are there",
        f"  annotated:     {frames.annotated_there:,} of {frames.annotated:,} are there",
        f"  checked:       {frames.checked:,} ({how})",
        f"  not asked for: {frames.orphans:,}",
    ]


def _verdict(report: Report) -> str:
    count, kinds = len(report.problems), report.problems.counts().keys()
    if not count:
        return "everything that is needed is there"
    remedies = _remedies(report, kinds)
    return "; ".join([f"{count:,} problem{'' if count == 1 else 's'}", *remedies])


def _remedies(report: Report, kinds: Collection[str]) -> list[str]:
    """What to do about frames that are missing or wrong; the other problems say it themselves."""
    root, spoilt = Path(report.root), not {ALTERED, UNREADABLE, OTHER_SIZE}.isdisjoint(kinds)
    if WRITING in kinds:
        return ["wait until datasets.prepare is done and verify again"]
    if report.made_by == "synthetic":
        again = "this root is synthetic: have it drawn anew at another --root"
        return [again] if spoilt or MISSING in kinds else []
    if report.made_by is None:
        again = "make the frames that are named again, as the others were made"
        return [again] if spoilt or MISSING in kinds else []
    remedies = []
    prepare = f"python -m datasets.prepare --root {shlex.quote(str(root))}"
    if spoilt:
        remedies.append(
            f"{prepare} --check reads every frame and extracts again the videos of those that are "
            "not as written"
        )
    elif not {MISSING, UNFINISHED, NOT_AS_SAID}.isdisjoint(kinds):
        remedies.append(f"{prepare} writes missing frames from videos")
    if not {OTHER_VIDEO, OTHER_SIZE}.isdisjoint(kinds):
        remedies.append(
            "frames of another size may be those of another edition of the videos: have Charades' "
            f'"scaled to 480p" in {root / "videos"}, remove the folders of these frames and run '
            f"{prepare}"
        )
    return remedies


def _notes(notes: Problems) -> list[dict[str, Any]]:
    counts, examples = notes.counts(), notes.examples()
    return [{"kind": kind, "count": counts[kind], "first": examples[kind]} for kind in counts]
