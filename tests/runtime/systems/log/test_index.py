"""Offsets and places: how extents of files become one partition."""

from fluvial.runtime.systems.log.index import EXTENT_BYTES, Created, Extent, Extents, LogIndex, Published


def extent(file: str, start: int, stop: int, count: int = 1) -> Extent:
    return Extent("clicks", 0, file, start, stop, count)


def test_neighbours_in_a_file_are_one_extent() -> None:
    extents = Extents()
    for start in (0, 10, 20):
        extents.add(extent("a", start, start + 10))
    assert {extents.find(offset) for offset in range(3)} == {(0, "a", 0, 30)}


def test_extents_of_other_files_and_places_stay_apart() -> None:
    extents = Extents()
    for one in (extent("a", 0, 10), extent("b", 10, 20), extent("a", 20, 30), extent("a", 0, 20)):
        extents.add(one)
    assert [extents.find(offset)[1:] for offset in range(4)] == [
        ("a", 0, 10),
        ("b", 10, 20),
        ("a", 20, 30),
        ("a", 0, 20),
    ]


def test_extents_are_short_enough_to_be_walked() -> None:
    extents = Extents()
    for start in range(0, 10 * EXTENT_BYTES, EXTENT_BYTES // 4):
        extents.add(extent("a", start, start + EXTENT_BYTES // 4))
    places = {extents.find(offset) for offset in range(extents.end)}
    assert {place.stop - place.start for place in places} == {EXTENT_BYTES}


def test_a_snapshot_says_the_same_as_the_entries() -> None:
    index, copy = LogIndex(), LogIndex()
    index.apply(Created("clicks", 1))
    for number in (1, 2, 4):
        tokens = [("writer", number)]
        index.apply(Published([extent("a", number * 10, number * 10 + 10, 5)], tokens, {"g": {"t": b"%d" % number}}))
    copy.apply(index.snapshot(1))
    assert copy.snapshot(1) == index.snapshot(1)
    assert [copy.has_published("writer", number) for number in range(1, 6)] == [True, True, False, True, False]
    assert [copy.streams["clicks"][0].find(offset).start for offset in (0, 9, 10)] == [10, 10, 40]
