"""What was found in a root: a text for readers, a dictionary for machines."""

from dataclasses import asdict, dataclass, field
from typing import Any

from datasets.problems import Problems
from datasets.rules import FilterCounts
from datasets.verify.frame_files import MISSING, FrameCounts
from datasets.verify.published import Comparison

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
        lines += ["", _verdict(self.problems)]
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


def _verdict(problems: Problems) -> str:
    if not problems:
        return "everything that is needed is there"
    remedy = ""
    if MISSING in problems.counts():
        remedy = (
            "; python -m datasets.prepare --root ROOT writes missing frames from videos, and "
            "removing a synthetic root has it drawn again"
        )
    return f"{len(problems):,} problems{remedy}"


def _notes(notes: Problems) -> list[dict[str, Any]]:
    counts, examples = notes.counts(), notes.examples()
    return [{"kind": kind, "count": counts[kind], "first": examples[kind]} for kind in counts]
