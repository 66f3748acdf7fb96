"""Timers on_timer in their order, each once, also after what is kept of them was read back."""

from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engines.eviction import mark_committed
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.time.timers import Timers
from fluvial.runtime.state import MemoryStore

SLOT = 4
TIMES = st.integers(-20, 40)
KEYS = st.sampled_from([b"a", b"b", b"c"])


class AgainstAModel(RuleBasedStateMachine):
    """The model is the earliest time of each key in each slot."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.scheduled: list[int] = []
        self.timers = Timers("w", self.store, SLOT, True, self.scheduled.append, START)
        self.model: dict[tuple[int, bytes], int] = {}
        self.watermark = START

    @rule(time=TIMES, key=KEYS)
    def set(self, time: int, key: bytes) -> None:
        assume(time > self.watermark)
        place = time - time % SLOT, key
        self.model[place] = min(time, self.model.get(place, END))
        self.timers.set(time, key)
        assert time != self.model[place] or min(self.scheduled) <= time

    @rule(watermark=st.one_of(TIMES, st.just(END)))
    def fire(self, watermark: int) -> None:
        fired = list(self.timers.fire(watermark))
        due = {place: time for place, time in self.model.items() if time <= watermark}
        assert fired == sorted((time, key) for (_, key), time in due.items())
        self.model = {place: time for place, time in self.model.items() if place not in due}
        self.watermark = max(self.watermark, *due.values(), watermark if watermark < END else START)

    @rule(room=st.sampled_from([0, 2, 100]))
    def commit(self, room: int) -> None:
        self.store.write(self.timers.changes())
        mark_committed(self.timers, room)

    @rule()
    def restart(self) -> None:
        self.store.write(self.timers.changes())
        self.timers = Timers("w", self.store, SLOT, False, self.scheduled.append, self.watermark)

    @invariant()
    def wakes_in_time(self) -> None:
        assert self.timers.next_due() <= min(self.model.values(), default=END)


def test_timers_that_are_set_while_others_ring_are_not_left_out() -> None:
    timers = Timers("w", MemoryStore(), SLOT, True, lambda _: None, START)
    timers.set(1, b"a")
    fired = []
    for time, key in timers.fire(30):
        fired.append((time, key))
        if time < 40:
            timers.set(time + 7, b"a")
    assert fired == [(1, b"a"), (8, b"a"), (15, b"a"), (22, b"a"), (29, b"a")]
    assert timers.next_due() <= 36


TestTimers = AgainstAModel.TestCase


@given(timers=st.lists(st.tuples(TIMES, KEYS)), commits=st.booleans())
def test_nothing_is_left_in_the_store_once_all_have_fired(*, timers: list[tuple[int, bytes]], commits: bool) -> None:
    store = MemoryStore()
    tested = Timers("w", store, SLOT, True, lambda _: None, START)
    for time, key in timers:
        tested.set(time, key)
    if commits:
        store.write(tested.changes())
        mark_committed(tested, 100)
    assert [*tested.fire(END)] or not timers
    changes = list(tested.changes())
    assert commits or not changes  # what rang before a commit was never written
    store.write(changes)
    assert list(store.scan(b"w")) == []
    assert tested.next_due() == END


def test_what_has_fired_is_not_kept_while_others_are_ahead() -> None:
    timers = Timers("w", MemoryStore(), SLOT, True, lambda _: None, START)
    for time in range(1_000):
        timers.set(time + 2, b"%d" % time)
        assert len([*timers.fire(time)]) == (time >= 2)
    assert len(timers._due) < 4 * SLOT
