"""The lists of classes beside the annotations, against the vocabulary."""

from pathlib import Path

from datasets.annotations.problems import Problems, shown
from datasets.annotations.vocabulary import OBJECTS, RELATIONS, without_separators

OBJECT_CLASSES = "object_classes.txt"
RELATION_CLASSES = "relationship_classes.txt"
_KIND = "class lists that do not agree with the vocabulary"
_MOST_BYTES = 2**16


def check_class_lists(folder: Path, problems: Problems, remarks: Problems) -> None:
    """Compare both lists in `folder`, in either spelling; a list that is absent is a remark."""
    for file, names in ((OBJECT_CLASSES, OBJECTS[1:]), (RELATION_CLASSES, RELATIONS)):
        path = folder / file
        if not path.exists():
            remarks.add("class lists that are not there (not needed)", str(path))
            continue
        try:
            with path.open("rb") as stream:
                lines = stream.read(_MOST_BYTES).decode("utf-8-sig").split("\n")
        except (OSError, ValueError) as error:
            problems.add(_KIND, f"{path} cannot be read ({error})")
            continue
        found = [without_separators(line) for line in lines if line.strip()]
        wanted = [without_separators(name) for name in names]
        if found != wanted:
            problems.add(_KIND, f"{path} {_difference(found, wanted)}")


def _difference(found: list[str], wanted: list[str]) -> str:
    for line, (here, there) in enumerate(zip(found, wanted, strict=False), start=1):
        if here != there:
            return f"has {shown(here)} as class {line}, not {there!r}"
    return f"has {len(found)} classes, not {len(wanted)}"
