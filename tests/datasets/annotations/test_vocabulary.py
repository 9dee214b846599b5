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


def test_classes_are_known_in_both_spellings():
    for name, index in (("person", 1), ("closet/cabinet", 9), ("sofa/couch", 31), ("window", 36)):
        assert object_index(name) == object_index(without_separators(name)) == index
    for group, members in GROUPS.items():
        for index in range(*members.indices(26)):
            assert relation_index(RELATIONS[index], group) == index
            assert relation_index(without_separators(RELATIONS[index]), group) == index


def test_an_unknown_object_and_a_relation_in_another_group_are_refused_by_name():
    with pytest.raises(InputError, match="'unicorn'"):
        object_index("unicorn")
    with pytest.raises(InputError, match=r"'above' .* attention_relationship"):
        relation_index("above", "attention_relationship")
