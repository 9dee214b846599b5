"""Hidden states revealed by occasional cues, and the labels they imply.

Each object has one attention and one contacting state. A state lasts a random time. It shows its
cue when it begins; each later frame repeats the cue with probability `cue_rate`. The label is the
last cue shown so far in the video, and the null state before the first. So an observer that
remembers everything is always right, an observer of single frames is right only where they show
the cue, and an observer that remembers the previous video is wrong.

T labelled frames.
"""

from dataclasses import dataclass

import numpy as np

from datasets.annotations.vocabulary import ATTENTION, RELATIONS, relation_index
from datasets.synthetic.world import World

NO_CUE = -1
"""As a code: the frame shows no cue. As an age: no cue was ever shown."""

ATTENTION_CODES: tuple[tuple[int, ...], ...] = tuple((r,) for r in range(3)[ATTENTION])
"""Code -> its one relation."""

_NAMES = """
holding, not_contacting, touching, sitting_on, holding touching, leaning_on, carrying, wearing,
standing_on, sitting_on leaning_on, eating, drinking_from, lying_on, holding eating, covered_by,
holding drinking_from, wiping, lying_on covered_by, writing_on, carrying have_it_on_the_back,
other_relationship, have_it_on_the_back, twisting, touching wiping, holding twisting
"""
CONTACTING_CODES: tuple[tuple[int, ...], ...] = tuple(
    tuple(relation_index(name, "contacting_relationship") for name in names.split())
    for names in _NAMES.split(",")
)
"""Code -> one or two relations; 25 codes, common ones first."""

ATTENTION_CHANCES = np.array([0.45, 0.4, 0.15])
CONTACTING_CHANCES = 1 / np.arange(1.0, 1.0 + len(CONTACTING_CODES))
CONTACTING_CHANCES /= CONTACTING_CHANCES.sum()

ATTENTION_NULL = ATTENTION_CODES.index((RELATIONS.index("unsure"),))
CONTACTING_NULL = CONTACTING_CODES.index((RELATIONS.index("not_contacting"),))

MEAN_DELAY = 4.0
"""Mean number of frames from an object's appearance to its first cue, if that is delayed."""


@dataclass(frozen=True, slots=True)
class States:
    """One kind of state, attention or contacting, of all objects over the frames of a video."""

    cue_TM: np.ndarray
    """int64: the code the frame shows, or `NO_CUE`."""
    code_TM: np.ndarray
    """int64: the current code, the last one shown or the null code."""
    age_TM: np.ndarray
    """int64: frames since that cue (0: this frame shows it), or `NO_CUE` before the first."""


def draw_states(
    visible_TM: np.ndarray, chances: np.ndarray, null: int, world: World, rng: np.random.Generator
) -> States:
    """Draw hidden states and cues for objects visible on `visible_TM`, bool ``(T, M)``.

    `chances` are the probabilities of the codes, `null` is the code before the first cue.
    """
    cue_TM = np.stack([_cues(visible_T, chances, world, rng) for visible_T in visible_TM.T], axis=1)
    t_T1 = np.arange(len(cue_TM))[:, None]
    last_TM = np.maximum.accumulate(np.where(cue_TM == NO_CUE, -1, t_T1), axis=0)
    is_shown_TM = last_TM >= 0
    return States(
        cue_TM=cue_TM,
        code_TM=np.where(is_shown_TM, np.take_along_axis(cue_TM, last_TM, axis=0), null),
        age_TM=np.where(is_shown_TM, t_T1 - last_TM, NO_CUE),
    )


def _cues(
    visible_T: np.ndarray, chances: np.ndarray, world: World, rng: np.random.Generator
) -> np.ndarray:
    """Draw the cues of one object; a cue due while it is out of sight is shown on its return."""
    frames = len(visible_T)
    switches_T = rng.random(frames) < 1 / world.dwell
    draws_T = rng.choice(len(chances), size=frames, p=chances)
    repeats_T = rng.random(frames) < world.cue_rate
    delay = int(rng.geometric(1 / MEAN_DELAY)) if rng.random() < world.delay_rate else 0
    first = int(np.argmax(visible_T)) + delay

    cue_T = np.full(frames, NO_CUE, dtype=np.int64)
    hidden, is_due = int(draws_T[0]), True
    for t in range(frames):
        if switches_T[t]:
            hidden, is_due = int(draws_T[t]), True
        if visible_T[t] and t >= first and (is_due or repeats_T[t]):
            cue_T[t], is_due = hidden, False
    return cue_T
