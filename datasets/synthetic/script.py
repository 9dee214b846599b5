"""Script of one synthetic video: all that happens in it, except its pixels.

A script can be written again at any time from (world, split, index), so the knowledge of observers
is computed without reading an image.

T labelled frames, F frames in the files (some are there to be dropped), M objects.
"""

from dataclasses import dataclass

import numpy as np

from datasets.annotations.targets import FrameTargets
from datasets.annotations.vocabulary import RELATIONS, SPATIAL
from datasets.synthetic import cues
from datasets.synthetic.cues import States
from datasets.synthetic.motion import appearances, object_paths, person_path
from datasets.synthetic.world import SPLITS, WORLD_SIDE, World

COUNTS, NO_OBJECT, NO_PERSON = 0, 1, 2
"""Kinds of a frame in the files: labelled, without an object, without a person."""

DEPTH_DWELL = 12
"""Mean number of frames that an object stays in front of the person, or behind."""
BESIDE = 0.75
"""From this offset on, boxes count as apart along an axis."""
WITHIN = 0.4
"""Below this offset along both axes, the object counts as in."""

_FIRST = SPATIAL.start
ABOVE, BENEATH, IN_FRONT, BEHIND, SIDE, IN = (
    RELATIONS.index(name) - _FIRST
    for name in ("above", "beneath", "in_front_of", "behind", "on_the_side_of", "in")
)


@dataclass(frozen=True, slots=True)
class Script:
    """One video. Boxes are integer xyxy pixels; arrays over T are of the labelled frames."""

    name: str
    split: str
    image_size: int
    classes_M: np.ndarray
    person_boxes_T4: np.ndarray
    object_boxes_TM4: np.ndarray
    visible_TM: np.ndarray
    in_front_TM: np.ndarray
    """True where the object is drawn over the person."""
    spatial_TM6: np.ndarray
    attention: States
    """Cues, labels, and the age of the evidence."""
    contacting: States
    source_F: np.ndarray
    """Frame in 0..T-1 that a frame in the files shows, or repeats in order to be dropped."""
    kind_F: np.ndarray
    """`COUNTS`, `NO_OBJECT` or `NO_PERSON`."""
    background_3: np.ndarray

    @property
    def frames(self) -> int:
        """Number of labelled frames."""
        return len(self.person_boxes_T4)

    def file_name(self, position: int) -> str:
        """Return the name of frame `position` of the files, ``train00001.mp4/000001.png``."""
        return f"{self.name}/{position + 1:06d}.png"

    def relations(self, t: int, m: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return attention, spatial and contacting relations of object m on frame t."""
        spatial = np.flatnonzero(self.spatial_TM6[t, m]) + SPATIAL.start
        return (
            cues.ATTENTION_CODES[self.attention.code_TM[t, m]],
            tuple(spatial.tolist()),
            cues.CONTACTING_CODES[self.contacting.code_TM[t, m]],
        )

    def targets(self) -> tuple[FrameTargets, ...]:
        """Return the targets that a reader of the annotations has to find, frame by frame."""
        targets = []
        for t, position in enumerate(np.flatnonzero(self.kind_F == COUNTS).tolist()):
            visible = np.flatnonzero(self.visible_TM[t])
            relations = [
                (row, relation)
                for row, m in enumerate(visible.tolist())
                for group in self.relations(t, m)
                for relation in group
            ]
            target = FrameTargets(
                name=self.file_name(position),
                size_hw=(self.image_size, self.image_size),
                person_box_4=self.person_boxes_T4[t].astype(np.float32),
                object_boxes_M4=self.object_boxes_TM4[t, visible].astype(np.float32),
                object_classes_M=self.classes_M[visible],
                relations_G2=np.array(relations, dtype=np.int64),
            )
            targets.append(target)
        return tuple(targets)


def write_script(world: World, split: str, index: int, length: int) -> Script:
    """Write the script of video `index` of `split`, with `length` labelled frames."""
    rng = np.random.default_rng([world.seed, 1, SPLITS.index(split), index])
    objects = int(rng.integers(1, world.max_objects + 1))
    classes_M = rng.permutation(world.classes_K())[:objects]
    object_sides_M2 = rng.uniform(18, 21, size=(objects, 2))
    person_side_2 = rng.uniform((12, 22), (13, 25))
    person_T2 = person_path(person_side_2, length, rng)
    objects_TM2 = object_paths(object_sides_M2, length, rng)
    visible_TM = appearances(objects, length, rng)
    in_front_TM = _depths(objects, length, rng)
    pixels = world.image_size / WORLD_SIDE
    person_boxes_T4 = _pixel_boxes(person_T2, person_side_2, pixels)
    object_boxes_TM4 = _pixel_boxes(objects_TM2, object_sides_M2, pixels)
    attention, contacting = (
        cues.draw_states(visible_TM, chances, null, world, rng)
        for chances, null in (
            (cues.ATTENTION_CHANCES, cues.ATTENTION_NULL),
            (cues.CONTACTING_CHANCES, cues.CONTACTING_NULL),
        )
    )
    source_F, kind_F = _with_dropped(length, world.drop_rate, rng)
    return Script(
        name=f"{split}{index:05d}.mp4",
        split=split,
        image_size=world.image_size,
        classes_M=classes_M,
        person_boxes_T4=person_boxes_T4,
        object_boxes_TM4=object_boxes_TM4,
        visible_TM=visible_TM,
        in_front_TM=in_front_TM,
        spatial_TM6=spatial_relations(person_boxes_T4[:, None], object_boxes_TM4, in_front_TM),
        attention=attention,
        contacting=contacting,
        source_F=source_F,
        kind_F=kind_F,
        background_3=rng.integers(10, 60, size=3),
    )


def write_scripts(world: World, split: str) -> list[Script]:
    """Write the scripts of all videos of `split`, in order of their names."""
    lengths = world.lengths(split)
    return [write_script(world, split, index, int(n)) for index, n in enumerate(lengths)]


def _depths(objects: int, frames: int, rng: np.random.Generator) -> np.ndarray:
    """Draw which objects are in front, bool ``(T, M)``, constant for a random while."""
    flips_TM = rng.random((frames, objects)) < 1 / DEPTH_DWELL
    return (np.cumsum(flips_TM, axis=0) + rng.integers(2, size=objects)) % 2 == 1


def _pixel_boxes(centres: np.ndarray, sides: np.ndarray, pixels: float) -> np.ndarray:
    """Return integer xyxy boxes ``(..., 4)`` of constant size around centres ``(..., 2)``."""
    sides = np.floor(sides * pixels).astype(np.int64)
    corner = np.rint(centres * pixels - sides / 2).astype(np.int64)
    return np.concatenate([corner, corner + sides], axis=-1)


def _with_dropped(
    frames: int, drop_rate: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw source and kind of every frame in the files: labelled ones, and some to be dropped."""
    extra_T = rng.random(frames) < drop_rate
    kind_T = rng.integers(NO_OBJECT, NO_PERSON + 1, size=frames)
    source_F = np.repeat(np.arange(frames), 1 + extra_T)
    kind_F = np.full(len(source_F), COUNTS)
    # The t-th labelled frame comes after the extra ones up to it, its own included.
    position_T = np.arange(frames) + np.cumsum(extra_T)
    kind_F[position_T[extra_T] - 1] = kind_T[extra_T]
    return source_F, kind_F


def spatial_relations(
    person_4: np.ndarray, object_4: np.ndarray, in_front: np.ndarray
) -> np.ndarray:
    """Return which of the six spatial relations hold, one or two, bool ``(..., 6)``.

    Boxes are xyxy ``(..., 4)`` in any unit; `in_front`, bool ``(...)``, is True where the object is
    drawn over the person. Apart along x: on_the_side_of. Apart along y: above or beneath. Apart
    along neither: in_front_of or behind, and with nearly the same centre also in.
    """
    sums = (object_4[..., 2:] - object_4[..., :2]) + (person_4[..., 2:] - person_4[..., :2])
    # Twice the distance of the centres, over the sum of the sides; y grows downwards.
    offsets = (object_4[..., :2] + object_4[..., 2:] - person_4[..., :2] - person_4[..., 2:]) / sums
    x, y = offsets[..., 0], offsets[..., 1]
    apart_x, apart_y = np.abs(x) >= BESIDE, np.abs(y) >= BESIDE
    is_close = ~apart_x & ~apart_y
    has_relation = np.zeros((*np.shape(x), 6), dtype=bool)
    has_relation[..., SIDE] = apart_x
    has_relation[..., ABOVE] = apart_y & (y < 0)
    has_relation[..., BENEATH] = apart_y & (y > 0)
    has_relation[..., IN_FRONT] = is_close & in_front
    has_relation[..., BEHIND] = is_close & ~in_front
    has_relation[..., IN] = (np.abs(x) < WITHIN) & (np.abs(y) < WITHIN)
    return has_relation
