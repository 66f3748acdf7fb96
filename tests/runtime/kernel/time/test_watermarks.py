"""Time at each place of a stage: as far as the slowest before it, never backward, and past no window that has not
fired."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.time.operator_watermarks import reached, reached_by
from fluvial.runtime.kernel.time.watermark_node import WatermarkNode
from fluvial.runtime.kernel.time.watermarks import WatermarkGraph

STREAMS = ("a", "b", "c")
SOURCES = [WatermarkNode("stream", (), name) for name in STREAMS]
STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 20) | st.just(END)), max_size=20)


def nothing_in_flight(_: str) -> None:
    return None


def reported(watermarks: WatermarkGraph) -> list[int]:
    return [watermarks.of_nodes.reported(node) for node in range(len(watermarks.nodes))]


class Window:
    """Is due at each multiple of ten; records the watermarks of all nodes at each call of `advance`."""

    def __init__(self, watermarks: WatermarkGraph, node: int) -> None:
        self.watermarks, self.node = watermarks, node
        self.seen: list[tuple[int, list[int]]] = []
        self.fired: list[tuple[int, int]] = []
        self.next = 0

    def advance(self, watermark: int) -> bool:
        self.seen.append((watermark, [*self.watermarks.now]))
        while self.next <= min(watermark, 50):
            self.watermarks.of_nodes.firing(self.node, self.next)
            self.fired.append((self.next, self.watermarks.now[self.node]))
            self.next += 10
        return True

    def next_due(self) -> int:
        return self.next


@given(STEPS)
def test_the_watermark_of_a_merge_is_the_least_of_its_nodes_in_any_order(steps: list[tuple[str, int]]) -> None:
    watermarks = WatermarkGraph(
        [*SOURCES, WatermarkNode("merge", (0, 1), "ab"), WatermarkNode("merge", (2, 3), "abc")], nothing_in_flight
    )
    model: dict[str, int] = dict.fromkeys(STREAMS, START)
    held: dict[str, int] = dict.fromkeys(STREAMS, START)

    def joint(streams: str) -> int:
        ended = all(model[one] == END for one in streams)
        return END if ended else min(held[one] for one in streams)

    for stream, watermark in steps:
        watermarks.set_stream(stream, watermark)
        model[stream] = max(model[stream], watermark)
        if model[stream] < END:
            held[stream] = max(held[stream], watermark)
        assert watermarks.now == [*model.values(), joint("ab"), joint("abc")]


def test_what_has_ended_holds_time_until_all_has() -> None:
    """A later run may bring more of it."""
    watermarks = WatermarkGraph([*SOURCES[:2], WatermarkNode("merge", (0, 1), "m")], nothing_in_flight)
    for stream, watermark, expected in (("a", 5, START), ("b", 33, 5), ("a", END, 5), ("b", 44, 5), ("b", END, END)):
        watermarks.set_stream(stream, watermark)
        assert watermarks.now[2] == expected


def test_nothing_waits_for_a_stream_of_which_nothing_ever_comes() -> None:
    nodes = [*SOURCES[:2], WatermarkNode("merge", (0,), "behind"), WatermarkNode("merge", (1, 2), "m")]
    watermarks = WatermarkGraph(nodes, nothing_in_flight)
    watermarks.leave_out("a")
    watermarks.set_stream("b", 7)
    assert watermarks.now[3] == 7


@given(STEPS)
def test_what_was_told_leaves_out_the_ends(steps: list[tuple[str, int]]) -> None:
    watermarks = WatermarkGraph([*SOURCES, WatermarkNode("merge", (0, 1, 2), "all")], nothing_in_flight)
    model: dict[str, int] = dict.fromkeys(STREAMS, START)
    for stream, watermark in steps:
        if watermarks.of_nodes.stream(stream) != END:
            model[stream] = max(model[stream], watermark if watermark != END else START)
        watermarks.set_stream(stream, watermark)
        assert reported(watermarks)[:3] == [*model.values()]
        assert END not in reported(watermarks)


@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20)), max_size=20))
def test_time_is_held_by_the_oldest_message_in_flight(steps: list[tuple[int, int | None]]) -> None:
    floor: int | None = None
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("in-flight", (0,), "a")], lambda _: floor)
    high = held = START
    for watermark, floor in steps:
        watermarks.set_stream("a", watermark)
        watermarks.follow()
        high = max(high, watermark)
        held = max(held, high if floor is None else min(high, floor))
        assert watermarks.now == [high, held]


def test_time_behind_what_may_emit_old_rows_stays_as_far_behind() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "join", behind=5)], nothing_in_flight)
    watermarks.attach("join", Window(watermarks, 1))
    assert watermarks.now == [START, START]
    watermarks.set_stream("a", 7)
    assert watermarks.now == [7, 2]
    watermarks.set_stream("a", END)
    assert watermarks.now == [END, END]
    again = WatermarkGraph(watermarks.nodes, nothing_in_flight)
    again.restore({"a": 7})
    assert again.now == [7, 2]


def test_a_window_fires_before_time_behind_it_moves() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    window = Window(watermarks, 1)
    watermarks.attach("w", window)
    watermarks.set_stream("a", 25)
    assert window.seen == [(25, [25, START])]
    assert window.fired == [(0, -1), (10, 9), (20, 19)]
    assert watermarks.now == [25, 25]


def test_at_the_end_of_input_time_stands_still_behind_a_window_until_it_has_fired() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    window = Window(watermarks, 1)
    watermarks.attach("w", window)
    watermarks.set_stream("a", 5)
    watermarks.set_stream("a", END)
    assert {now for time, now in window.fired if time > 5} == {5}
    assert (watermarks.now, reported(watermarks)) == ([END, END], [5, 5])


def test_what_a_firing_moves_is_followed_once_the_firing_is_over() -> None:
    watermarks = WatermarkGraph(
        [*SOURCES[:2], WatermarkNode("stateful", (0,), "w"), WatermarkNode("merge", (1, 2), "m")], nothing_in_flight
    )
    window = Window(watermarks, 2)
    before: list[int] = []
    watermarks.attach("w", window)

    def advance(watermark: int) -> bool:
        watermarks.set_stream("b", 3)
        before.append(watermarks.now[3])
        return Window.advance(window, watermark)

    window.advance = advance  # type: ignore[method-assign]
    watermarks.set_stream("a", 1)
    assert (before, watermarks.now) == ([START], [1, 3, 1, 1])


def test_the_graph_is_due_when_the_first_window_is() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    assert watermarks.next_fire == [END]
    watermarks.attach("w", Window(watermarks, 1))
    assert watermarks.next_fire == [0]
    watermarks.set_stream("a", 12)
    assert watermarks.next_fire == [20]
    watermarks.schedule(15)
    assert watermarks.next_fire == [15]


def test_of_several_windows_the_one_with_work_first_wakes_the_timeline() -> None:
    nodes = [SOURCES[0], WatermarkNode("stateful", (0,), "early"), WatermarkNode("stateful", (0,), "late")]
    watermarks = WatermarkGraph(nodes, nothing_in_flight)
    early, late = Window(watermarks, 1), Window(watermarks, 2)
    early.next, late.next = 10, 40
    watermarks.attach("early", early)
    watermarks.attach("late", late)
    watermarks.set_stream("a", 12)
    assert watermarks.next_fire == [20]


@given(st.dictionaries(st.sampled_from([*STREAMS, "gone"]), st.integers(0, 20)))
def test_restored_time_is_the_same_at_every_place_for_all_due_by_it_has_fired(kept: dict[str, int]) -> None:
    nodes = [
        *SOURCES,
        WatermarkNode("merge", (0, 1), "ab"),
        WatermarkNode("stateful", (3,), "w"),
        WatermarkNode("merge", (2, 4), "abc"),
    ]
    watermarks = WatermarkGraph(nodes, nothing_in_flight)
    watermarks.restore(kept)
    a, b, c = (kept.get(stream, START) for stream in STREAMS)
    assert watermarks.now == [a, b, c, min(a, b), min(a, b), min(a, b, c)]


@given(STEPS, st.sets(st.integers(0, 20)))
def test_windows_fire_at_the_same_times_whether_or_not_each_step_is_followed(
    steps: list[tuple[str, int]], looks: set[int]
) -> None:
    nodes = [*SOURCES, *(WatermarkNode("stateful", (number,), name) for number, name in enumerate(STREAMS))]
    exact, loose = (WatermarkGraph(nodes, nothing_in_flight, exact=exactly) for exactly in (True, False))
    windows = [[Window(watermarks, 3 + number) for number in range(3)] for watermarks in (exact, loose)]
    for watermarks, own in zip((exact, loose), windows, strict=True):
        for name, window in zip(STREAMS, own, strict=True):
            watermarks.attach(name, window)
    for number, (stream, watermark) in enumerate(steps):
        for watermarks in (exact, loose):
            watermarks.set_stream(stream, watermark)
        if number in looks:
            loose.catch_up()
            assert (loose.now, reported(loose), loose.next_fire) == (exact.now, reported(exact), exact.next_fire)
    loose.catch_up()
    assert (loose.now, reported(loose), loose.next_fire) == (exact.now, reported(exact), exact.next_fire)
    assert [window.fired for window in windows[0]] == [window.fired for window in windows[1]]


def test_a_window_without_work_is_not_told_of_each_step() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight, exact=False)
    window = Window(watermarks, 1)
    watermarks.attach("w", window)
    for watermark in (5, 6, 7, 10, 11):
        watermarks.set_stream("a", watermark)
    assert [reported for reported, _ in window.seen] == [5, 10]


@pytest.mark.parametrize(("kept", "fired"), [({}, [(20, 19)]), ({"w": 8}, [(10, 9), (20, 19)]), ({"w": 25}, [])])
def test_an_operator_goes_on_with_its_own_watermark(kept: dict[str, int], fired: list[tuple[int, int]]) -> None:
    """One of which none is kept, by an older version, begins with the one in front of it."""
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    watermarks.restore({"a": 12}, reached=kept)
    window = Window(watermarks, 1)
    window.next = 10 * (reached_by(watermarks, "w") // 10 + 1)
    watermarks.attach("w", window)
    watermarks.resume()
    watermarks.set_stream("a", 22)
    assert window.fired == fired
    assert reached(watermarks) == {"w": max(22, kept.get("w", 0))}


def test_an_operator_at_its_end_goes_on_with_what_messages_have_told() -> None:
    """One input has ended before the other."""
    nodes = [*SOURCES[:2], WatermarkNode("merge", (0, 1), "w"), WatermarkNode("stateful", (2,), "w")]
    watermarks = WatermarkGraph(nodes, nothing_in_flight)
    watermarks.attach("w", Window(watermarks, 3))
    for stream, watermark in (("a", 5), ("b", 33), ("a", END)):
        watermarks.set_stream(stream, watermark)
    assert reached(watermarks) == {"w": 5}
    watermarks.set_stream("b", END)
    assert reached(watermarks) == {"w": 5}


def test_of_an_older_version_only_the_watermarks_of_merges_in_front_of_state_count() -> None:
    """Other operators are numbered: the next pipeline calls another one `merge-7`."""
    nodes = [
        *SOURCES,
        WatermarkNode("merge", (0, 1), "merge-7"),
        WatermarkNode("merge", (2, 3), "w"),
        WatermarkNode("stateful", (4,), "w"),
    ]
    watermarks = WatermarkGraph(nodes, nothing_in_flight)
    watermarks.restore(dict.fromkeys(STREAMS, 3), met={"merge-7": 50, "w": 9})
    assert watermarks.now == [3, 3, 3, 3, 9, 9]
    watermarks.restore(dict.fromkeys(STREAMS, 3), met={"w": 9}, reached={"w": 7})
    assert watermarks.now == [3, 3, 3, 3, 7, 7]


def test_it_tells_while_time_makes_an_operator_fire() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    told: list[bool] = []

    class Telling:
        def advance(self, watermark: int) -> bool:
            del watermark
            told.append(watermarks.by_time[0])
            return True

        def next_due(self) -> int:
            return END

    def by_clock(now: int) -> bool:
        watermarks.set_stream("a", now)  # what has fired lets another operator fire
        told.append(watermarks.by_time[0])
        return True

    watermarks.attach("w", Telling())
    watermarks.clock_users.attach("timers", lambda: 0, by_clock)
    watermarks.set_stream("a", 1)
    assert (told, watermarks.by_time) == ([True], [False])
    watermarks.set_clock(7)
    assert (told, watermarks.by_time) == ([True, True, True], [False])


@pytest.mark.parametrize("admitting", [False, True])
def test_a_pause_excludes_messages_unless_the_operator_admits_them(admitting: bool) -> None:
    excludes = [False]
    nodes = [SOURCES[0], WatermarkNode("stateful", (0,), "w")]
    watermarks = WatermarkGraph(nodes, nothing_in_flight, excludes=excludes)
    over = False

    class Pausing:
        def advance(self, watermark: int) -> bool:
            return watermark < 10 or over

        def next_due(self) -> int:
            return 10

    watermarks.attach("w", Pausing())
    if admitting:
        watermarks.admitting.add("w")
    watermarks.set_stream("a", 10)
    assert (watermarks.paused, excludes) == ([True], [not admitting])
    watermarks.set_stream("a", 12)  # time goes on in front of it alone
    assert watermarks.now == [12, START]
    over = True
    watermarks.go_on()
    assert (watermarks.paused, excludes, watermarks.now) == ([False], [False], [12, 12])


def test_a_firing_that_time_has_made_is_none_of_an_end_that_comes_in_its_pause() -> None:
    watermarks = WatermarkGraph([SOURCES[0], WatermarkNode("stateful", (0,), "w")], nothing_in_flight)
    watermarks.admitting.add("w")
    told: list[tuple[int, bool]] = []

    class Pausing:
        def advance(self, watermark: int) -> bool:
            told.append((watermark, watermarks.at_end[0]))
            return len(told) > 1

        def next_due(self) -> int:
            return 10

    watermarks.attach("w", Pausing())
    watermarks.set_stream("a", 10)
    watermarks.set_stream("a", END)
    assert watermarks.now == [END, START]
    watermarks.go_on()
    assert (told, watermarks.at_end) == ([(10, False), (10, False), (END, True)], [False])


FLOORS = st.none() | st.integers(0, 60)
MOVES = st.lists(
    st.tuples(st.just("stream"), st.sampled_from("ab"), st.integers(0, 60) | st.just(END), st.booleans())
    | st.tuples(st.just("land"), st.sampled_from(["a", "b", "window"]), FLOORS, st.just(False))
    | st.tuples(st.just("clock"), st.just(""), st.integers(0, 60), st.just(False)),
    max_size=30,
)


@given(MOVES, st.booleans())
def test_what_has_landed_advances_as_much_as_if_all_were_advanced(
    moves: list[tuple[str, str, int | None, bool]], exact: bool
) -> None:
    """`landed` advances the nodes behind those that land, and a twin advances all each time."""
    floors: dict[str, int | None] = {}
    nodes = [
        *SOURCES[:2],
        WatermarkNode("in-flight", (0,), "a"),
        WatermarkNode("in-flight", (1,), "b"),
        WatermarkNode("merge", (2, 3), "both"),
        WatermarkNode("stateful", (4,), "window", behind=3),
        WatermarkNode("in-flight", (5,), "window"),
        WatermarkNode("clock", (6,), "timers"),
        WatermarkNode("merge", (3, 6), "all"),
        WatermarkNode("stateful", (8,), "last"),
    ]
    partly, fully = (WatermarkGraph(nodes, floors.get, exact=exact) for _ in range(2))
    fired = []
    for graph in (partly, fully):
        windows = {id: Window(graph, index) for id, index in graph.of_nodes.operators.items()}
        fired.append([window.fired for window in windows.values()])
        for id, window in windows.items():
            graph.attach(id, window)
    for move, owner, time, idle in moves:
        for graph in (partly, fully):
            if move == "stream":
                graph.set_stream(owner, time or 0, idle=idle)
            elif move == "clock":
                graph.set_clock(time or 0)
            else:
                floors[owner] = time
                if graph is partly:
                    graph.landed(owner)
                else:
                    graph.follow()
        assert (partly.now, partly.idle, fired[0]) == (fully.now, fully.idle, fired[1])
        assert partly.next_fire == fully.next_fire


def test_the_front_of_a_graph_is_what_follows_streams_alone() -> None:
    nodes = [
        *SOURCES[:2],
        WatermarkNode("in-flight", (0,), "a"),
        WatermarkNode("merge", (1, 2), "m"),
        WatermarkNode("stateful", (3,), "w"),
        WatermarkNode("in-flight", (4,), "w"),
        WatermarkNode("merge", (3, 5), "n"),
        WatermarkNode("clock", (0,), "c"),
    ]
    assert WatermarkGraph(nodes, nothing_in_flight).front == {0, 1, 2, 3}
