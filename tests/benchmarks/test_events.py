"""The input of the benchmarks: the same everywhere, and as its description says."""

from itertools import pairwise

import msgspec

from benchmarks.constants import GAP, MINUTE, OUT_OF_ORDER
from benchmarks.events import EVENTS, NOBODY, events, markers
from benchmarks.sources import BASE, JITTER, PARTITIONS, SPAN


def test_events_are_the_same_every_time() -> None:
    assert list(events(500)) == list(events(500))
    assert next(events(1_000_000, seed=1)) != next(events(1_000_000, seed=2))


def test_the_input_of_a_benchmark_does_not_change_unnoticed() -> None:
    first = msgspec.json.encode(next(events(1_000)))
    assert first == (
        b'{"seq":0,"user":"u060135","session":"794a98b7-0000","page":"/shop/p0128",'
        b'"at":1700000045930,"cents":1333,"agent":"Mozilla/5.0 (X11; Linux x86_64)","referrer":"https://example.com/q?c=0"}'
    )


def test_events_are_behind_by_less_than_windows_wait() -> None:
    times = [event.at for event in events(20_000)]
    assert max(before - after for before, after in pairwise(times)) < JITTER < OUT_OF_ORDER
    assert BASE % MINUTE == 0
    assert min(times) >= BASE
    assert max(times) < BASE + SPAN + JITTER


def test_markers_stand_behind_the_events_of_each_partition() -> None:
    made = list(EVENTS.with_markers(100))
    events_in_it = [event for event, partition in made if partition is None]
    assert events_in_it == list(events(100))
    for number in range(PARTITIONS):
        assert [event for event, partition in made if partition == number] == markers()
    assert {event.user for event, partition in made if partition is not None} == {NOBODY}


def test_markers_are_late_enough_to_close_all_windows() -> None:
    assert min(marker.at for marker in markers()) > BASE + SPAN + JITTER + GAP + MINUTE + OUT_OF_ORDER
