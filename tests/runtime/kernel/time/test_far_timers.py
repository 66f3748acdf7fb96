"""Timers in slots of three sizes: when they fire, in which order, and what of them is kept."""

from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.time.far_timers import SIZES, SLOTS, FarTimers
from fluvial.runtime.state import MemoryStore

SECOND, MINUTE, HOUR = SIZES
NEAR, MIDDLE, FAR = (SLOTS * size for size in SIZES)


def timers(backend: MemoryStore | None = None, fired: int = START) -> FarTimers:
    return FarTimers("t", backend or MemoryStore(), backend is None, lambda _: None, fired)


def test_timers_fire_in_the_order_of_their_times_whatever_slots_they_are_in() -> None:
    made = timers()
    for time in (FAR + 7, 3, MIDDLE + 5, NEAR):
        made.set(time, 0, b"%d" % time)
    due = list(made.fire(FAR + 7))
    assert due == [(time, [b"%d" % time]) for time in (3, NEAR, MIDDLE + 5, FAR + 7)]
    assert list(made.fire(END - 1)) == []


def test_keys_of_one_time_fire_together_and_once() -> None:
    made = timers()
    made.set(FAR, 0, b"b")  # in a slot of an hour
    made.set(FAR, FAR - 1, b"b")  # in one of a second
    made.set(FAR, FAR - 1, b"a")
    assert list(made.fire(FAR)) == [(FAR, [b"a", b"b"])]


def test_nothing_fires_before_its_time_though_its_slot_has_begun() -> None:
    made = timers()
    made.set(FAR + 10, 0, b"a")
    assert list(made.fire(FAR + 9)) == []
    assert list(made.fire(FAR + 10)) == [(FAR + 10, [b"a"])]


def test_a_timer_that_is_set_while_others_fire_fires_too() -> None:
    made = timers()
    made.set(10, 0, b"a")
    seen = []
    for time, keys in made.fire(30):
        seen.append((time, keys))
        if time == 10:
            made.set(20, 10, b"b")
    assert seen == [(10, [b"a"]), (20, [b"b"])]


def test_a_timer_is_in_the_largest_slot_that_is_small_beside_its_time() -> None:
    prefixes = []
    for time in (NEAR, MIDDLE, FAR):
        made = timers()
        made.set(time, 0, b"a")
        (change,) = made.changes()
        prefixes.append(change[0])
    assert len(set(prefixes)) == 3


def test_timers_go_on_from_what_was_committed() -> None:
    backend, made = MemoryStore(), timers()
    made.set(FAR, 0, b"a")
    made.set(10, 0, b"b")
    backend.write(made.changes())
    made.mark_committed()
    assert (made.changed, list(made.changes())) == (0, [])
    again = timers(backend, fired=5)
    assert list(again.fire(END - 1)) == [(10, [b"b"]), (FAR, [b"a"])]


def test_at_the_end_all_have_fired_and_nothing_is_left() -> None:
    backend = MemoryStore()
    made = timers(backend)
    for time in (3, NEAR, FAR + 7):
        made.set(time, 0, b"a")
    assert [time for time, _ in made.fire(END)] == [3, NEAR, FAR + 7]
    assert made.next_due() == END


def test_timers_that_wait_are_given_hour_by_hour_with_those_that_are_set_meanwhile_in_later_ones() -> None:
    made = timers()
    for time, now, key in ((FAR + 7, 0, b"far"), (3, 0, b"near"), (HOUR + 5, 0, b"next"), (FAR + 9, FAR, b"close")):
        made.set(time, now, key)
    given: list[tuple[int, set[bytes]]] = []
    for over, keys in made.waiting():
        given.append((over // HOUR, {*keys}))
        if over == HOUR:
            made.set(FAR + 8, HOUR - 1, b"late")
    assert given == [(1, {b"near"}), (2, {b"next"}), (SLOTS + 1, {b"far", b"close", b"late"})]
    assert [time for time, _ in made.fire(FAR + 9)] == [3, HOUR + 5, FAR + 7, FAR + 8, FAR + 9]
