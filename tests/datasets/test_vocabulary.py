import pytest

from bload.errors import InputError
from datasets.annotations.vocabulary import (
    ATTENTION,
    CONTACTING,
    GROUPS,
    OBJECTS,
    RELATIONS,
    SPATIAL,
    object_index,
    relation_index,
    without_separators,
)


def test_groups_cover_all_relations_once():
    members = [*RELATIONS[ATTENTION], *RELATIONS[SPATIAL], *RELATIONS[CONTACTING]]
    assert members == list(RELATIONS)
    assert (len(OBJECTS), len(RELATIONS)) == (37, 26)


@pytest.mark.parametrize(
    ("name", "index"),
    [("person", 1), ("closet/cabinet", 9), ("closetcabinet", 9), ("sofacouch", 31), ("window", 36)],
)
def test_objects_are_known_in_both_spellings(name, index):
    assert object_index(name) == index


def test_relations_are_known_in_both_spellings():
    for group, members in GROUPS.items():
        for index in range(*members.indices(26)):
            assert relation_index(RELATIONS[index], group) == index
            assert relation_index(without_separators(RELATIONS[index]), group) == index


def test_a_relation_in_another_group_is_refused():
    with pytest.raises(InputError, match="'above' is not a attention_relationship"):
        relation_index("above", "attention_relationship")


def test_an_unknown_object_is_named():
    with pytest.raises(InputError, match="'unicorn'"):
        object_index("unicorn")
