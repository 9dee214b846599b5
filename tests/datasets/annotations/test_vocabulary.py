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
    spatial = "above beneath in_front_of behind on_the_side_of in"
    assert " ".join(RELATIONS[GROUPS["spatial_relationship"]]) == spatial
    for names in (OBJECTS[2:], RELATIONS[:3], RELATIONS[9:]):
        assert list(names) == sorted(names)
