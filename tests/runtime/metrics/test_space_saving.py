"""The sketch of the most frequent keys: its bounds."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.metrics.space_saving import SpaceSaving

# Few keys that come often, among many that come seldom.
ADDED = st.lists(st.integers(0, 3) | st.integers(0, 40), min_size=1, max_size=300).map(
    lambda numbers: [b"%d" % number for number in numbers]
)
ENTRIES = st.integers(1, 20)
ROUNDING = 1e-9


def filled(added: list[bytes], entries: int, halved_at: int = 1000) -> SpaceSaving:
    sketch = SpaceSaving(entries, halved_at)
    for key in added:
        sketch.add(key)
    return sketch


@given(ADDED, ENTRIES)
def test_a_count_is_too_large_by_the_total_divided_by_the_entries_at_most(added: list[bytes], entries: int) -> None:
    true = Counter(added)
    for found in filled(added, entries).hottest(entries):
        part = true[found.key] / len(added)
        assert found.at_least <= part + ROUNDING
        assert part <= found.at_most + ROUNDING <= part + 1 / entries + 2 * ROUNDING


@given(ADDED, ENTRIES)
def test_a_key_with_more_than_the_total_divided_by_the_entries_is_found(added: list[bytes], entries: int) -> None:
    found = {one.key for one in filled(added, entries).hottest(entries)}
    assert found >= {key for key, count in Counter(added).items() if count > len(added) / entries}
    assert len(found) == min(entries, len({*added}))


@given(ADDED, ENTRIES, st.integers(1, 50))
def test_halved_counts_keep_the_bounds_of_what_is_halved(added: list[bytes], entries: int, halved_at: int) -> None:
    sketch, true, total = filled(added, entries, halved_at), dict.fromkeys(added, 0.0), 0.0
    for key in added:
        if total >= halved_at:
            true, total = {name: count / 2 for name, count in true.items()}, total / 2
        true[key] += 1
        total += 1
    assert sketch.total == total <= halved_at + 1
    for found in sketch.hottest(entries):
        part = true[found.key] / total
        assert found.at_least - ROUNDING <= part <= found.at_most + ROUNDING <= part + 1 / entries + 2 * ROUNDING


@given(ADDED)
def test_with_an_entry_for_each_key_it_is_exact_and_the_hottest_come_first(added: list[bytes]) -> None:
    hottest = filled(added, 50).hottest(3)
    counts = sorted(Counter(added).values(), reverse=True)
    assert [one.at_least * len(added) for one in hottest] == [one.at_most * len(added) for one in hottest]
    assert [round(one.at_least * len(added)) for one in hottest] == counts[:3]


def test_a_key_that_has_cooled_down_makes_room_for_one_that_is_hot_now() -> None:
    sketch = filled([b"then"] * 1000 + [b"now"] * 300, entries=4, halved_at=100)
    assert [one.key for one in sketch.hottest(1)] == [b"now"]
    assert sketch.hottest(1)[0].at_least > 0.9


def test_a_new_key_takes_the_entry_of_the_least_count_as_it_is_now() -> None:
    sketch = filled([b"a", b"b", b"c", b"a", b"b", b"d"], entries=3)
    assert [(one.key, round(6 * one.at_least), round(6 * one.at_most)) for one in sketch.hottest(3)] == [
        (b"b", 2, 2),
        (b"a", 2, 2),
        (b"d", 1, 2),
    ]
