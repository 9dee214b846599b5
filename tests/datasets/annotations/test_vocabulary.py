from datasets.annotations import vocabulary
from datasets.annotations.vocabulary import GROUPS, OBJECTS, RELATIONS, without_separators


def test_classes_are_known_in_both_spellings():
    assert (len(OBJECTS), len(RELATIONS)) == (37, 26)
    for name, index in (("person", 1), ("closet/cabinet", 9), ("sofa/couch", 31), ("window", 36)):
        assert vocabulary.object_index(name) == index
        assert vocabulary.object_index(without_separators(name)) == index
    found = []
    for group, members in GROUPS.items():
        for name in RELATIONS[members]:
            found.append(vocabulary.relation_index(name, group))
            assert vocabulary.relation_index(without_separators(name), group) == found[-1]
    assert found == list(range(26))  # groups cover all relations once
