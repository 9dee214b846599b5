"""The object and relation classes of Action Genome, and the two ways they are spelt.

Pickles write ``closet/cabinet`` and ``looking_at``; class files drop the separators
(``closetcabinet``, ``lookingat``). Classes are named as in the pickles, and looked up by either
spelling.
"""

from bload import InputError
from datasets.annotations.problems import short_repr

OBJECTS = (
    "__background__", "person", "bag", "bed", "blanket", "book", "box", "broom", "chair",
    "closet/cabinet", "clothes", "cup/glass/bottle", "dish", "door", "doorknob", "doorway",
    "floor", "food", "groceries", "laptop", "light", "medicine", "mirror", "paper/notebook",
    "phone/camera", "picture", "pillow", "refrigerator", "sandwich", "shelf", "shoe",
    "sofa/couch", "table", "television", "towel", "vacuum", "window",
)  # fmt: skip
"""Index = class: 0 is the background, 1 the person, 2 to 36 what a person relates to."""

RELATIONS = (
    "looking_at", "not_looking_at", "unsure",
    "above", "beneath", "in_front_of", "behind", "on_the_side_of", "in",
    "carrying", "covered_by", "drinking_from", "eating", "have_it_on_the_back", "holding",
    "leaning_on", "lying_on", "not_contacting", "other_relationship", "sitting_on",
    "standing_on", "touching", "twisting", "wearing", "wiping", "writing_on",
)  # fmt: skip
"""Index = class: three groups, one after another."""

OBJECT_CLASSES = len(OBJECTS) - 1  # without the background
PERSON = 1
ATTENTION = slice(0, 3)
SPATIAL = slice(3, 9)
CONTACTING = slice(9, 26)
GROUPS = {
    "attention_relationship": ATTENTION,
    "spatial_relationship": SPATIAL,
    "contacting_relationship": CONTACTING,
}
"""Key of an annotation entry -> the relations allowed under it."""


def without_separators(name: str) -> str:
    """Return a name as the class files spell it: ``sofa/couch`` -> ``sofacouch``."""
    return "".join(character for character in name if character.isalnum())


def _lookup(names: tuple[str, ...]) -> dict[str, int]:
    spellings = {name: index for index, name in enumerate(names)}
    return spellings | {without_separators(name): index for name, index in spellings.items()}


_OBJECT_INDEX = _lookup(OBJECTS)
_RELATION_INDEX = _lookup(RELATIONS)


def object_index(name: str) -> int:
    """Return the index, 1 to 36, of an object class in either spelling.

    Raises `InputError` for another name.
    """
    if not _OBJECT_INDEX.get(name):
        raise InputError(f"object class {short_repr(name)} is not one of the 36 of Action Genome")
    return _OBJECT_INDEX[name]


def relation_index(name: str, group: str) -> int:
    """Return the index of a relation in either spelling.

    Raises `InputError` if `group`, a key of `GROUPS`, has none of that name. Example:
    ``relation_index("lookingat", "attention_relationship") == 0``.
    """
    members = range(*GROUPS[group].indices(len(RELATIONS)))
    index = _RELATION_INDEX.get(name, -1)
    if index not in members:
        allowed = ", ".join(RELATIONS[member] for member in members)
        raise InputError(f"relation {short_repr(name)} is not a {group}, which are: {allowed}")
    return index
