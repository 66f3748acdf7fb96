"""Topics that get more partitions while a pipeline reads them: messages of a key keep their order, all of them count,
and windows are those of a topic that has not grown."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.container_acts import COMMIT, NEW_RUN, ONE_CONTAINER, SCALE, SPLIT, Act, act, perform
from engines.live_containers import LiveContainers, in_one_thread
from engines.sending import ProducingSystem, stores_of
from engines.targets import PATIENT, contents
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    MapState,
    Message,
    Pipeline,
    Timer,
    count,
    session,
    tumbling,
)
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from fluvial.runtime.systems.partitioner import partition_for
from generators.counters import Counter as CountOfKey
from generators.how_many import examples

MANY = settings(max_examples=examples(100), deadline=None, suppress_health_check=PATIENT)
PRODUCERS = 2
BEGAN, MOST = 2, 8
"""The partitions that the topic has at first, and in the end at most."""


def key_of(partition: int) -> str:
    """A key that is in a partition of those that there are at most."""
    return next(key for key in map(str, range(200)) if partition_for(key.encode(), MOST) == partition)


KEYS = [key_of(partition) for partition in range(MOST)]
AGE, STEP, WINDOW, SESSION = 10_000, 1_000, 7_000, 5_000
"""How long producers may not have heard of new partitions, what is between two messages, the length of a window, and
the gap that ends a session, in ms."""


CALM = [
    *[act("send", st.integers(0, MOST - 1))] * 4,
    *[act("turn", st.integers(0, 1))] * 3,
    *[act("hear", st.integers(0, PRODUCERS - 1))] * 2,
    act("wait", st.sampled_from([AGE // 4, AGE])),
]
WILD = [ONE_CONTAINER, COMMIT, SCALE, SPLIT, NEW_RUN]
"""Beside what happens to containers: a message is sent, the topic grows, a producer hears of it, or time passes."""
GROWN = st.sampled_from([2, 4]).map(lambda factor: [Act("wait", AGE), Act("grow", factor)])
SOME, MORE = st.lists(st.one_of(*CALM, *WILD), max_size=12), st.lists(st.one_of(*CALM), min_size=4, max_size=24)
ACTS = st.builds(lambda *parts: [act for part in parts for act in part], SOME, GROWN, MORE, SOME, GROWN, MORE, SOME)
"""The topic grows, and grows again unless it has the most partitions already."""


def several(kind: str, number: int, times: int = 1) -> list[Act]:
    return [Act(kind, number)] * times


BEHIND = [
    *[*several("turn", 0), *several("turn", 1), *several("wait", AGE), *several("grow", 2)],
    *[*several("send", 0, 3), *several("send", 2, 4), *several("hear", 0), *several("send", 2, 2)],
    *[*several("turn", 0, 2), *several("send", 0, 12), *several("turn", 0, 6)],
]
"""A partition has messages that are not processed as later ones of the same key come to a new one, and goes on while
these are held."""
APART = [
    *[*several("wait", AGE), *several("grow", 4), *several("wait", AGE), *several("send", 6), Act("stop", 4, 4)],
    *[*several("send", 0), *several("turn", 0, 2), Act("crash", 3, 2)],
]
"""A new partition has a message that none of the tasks has read which are brought equally far, to be merged."""


def joined(number: str, name: str | None) -> str:
    return f"{number} {name}"


def last(number: str) -> str:
    return number[-1]


async def called(number: str) -> list[str]:
    await asyncio.sleep(0)
    return [number]


class Reminding(KeyedProcessor[str, str, str]):
    """Says the number of each message once the time of the next one is there."""

    waiting = MapState(int, str)

    def on_message(self, message: Message[str], context: Context[str]) -> None:
        self.waiting[message.timestamp + STEP] = message.value
        context.timers.set(message.value, message.timestamp + STEP)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterator[str]:  # noqa: ARG002
        yield self.waiting.pop(timer.time)


def pipeline_of() -> Pipeline:
    """Copies and numbers the messages of each key, joins them with a table and a stream, calls with them, reminds of
    them, counts them by key and behind a border, in windows and sessions, and tells all tasks of them."""
    pipeline, length = Pipeline("p"), timedelta(milliseconds=WINDOW)
    names = pipeline.table("names", key=str, value=str)
    sent = pipeline.stream("in", key=str, value=str)
    sent.send_to("copies")
    sent.process(CountOfKey(), id="of-key").send_to("numbers")
    sent.join(names, joined, id="named").send_to("named")
    sent.async_flat_map(called, id="calls").send_to("called")
    sent.process(Reminding(), id="reminders").send_to("reminders")
    replies = pipeline.stream("replies", key=str, value=str)
    sent.join(replies, joined, id="pairs", within=timedelta(milliseconds=STEP // 2)).send_to("pairs")
    together = sent.window(session(timedelta(milliseconds=SESSION)), count(), id="s")
    together.map(lambda pane: [pane.key, pane.window.start, pane.value]).send_to("sessions")
    sent.broadcast(id="all", value=str).send_to("told", value=str)
    counted = sent.window(tumbling(length), count(), id="n")
    counted.map(lambda pane: [pane.key, pane.window.start, pane.value]).send_to("counts")
    by_last = sent.partition_by(last, id="by", key_type=str).window(tumbling(length), count(), id="m")
    by_last.map(lambda pane: [pane.key, pane.window.start, pane.value]).send_to("sums")
    return pipeline


class World:
    """A topic that grows, its producers, and the containers that read it."""

    def __init__(self, guarantee: Guarantee, elasticity: int) -> None:
        self.system = ProducingSystem()
        self.system.metadata_ms, self.system.batch = AGE, 2
        self.system.admin().create("in", BEGAN)
        self.system.admin().create("names", BEGAN)
        self.system.admin().create("replies", BEGAN)  # which never grows
        writing = self.system.producer().begin()
        for key in KEYS:
            writing.append("names", partition_for(key.encode(), BEGAN), [(key.encode(), key.upper().encode(), 0, ())])
        writing.commit()
        self.settings = Settings(guarantee=guarantee, cached_entries=2, elasticity=elasticity)
        self.containers = LiveContainers(self.system, pipeline_of(), 2, self.settings)
        self.now = 1_000_000
        self.containers.wall = lambda: self.now
        self.partitions = BEGAN
        self.grown_at = self.now
        self.heard = [BEGAN] * PRODUCERS
        self.sent: list[tuple[str, int]] = []

    def act(self, what: Act) -> None:
        kind, number, _ = what
        if kind == "send":
            self.send(KEYS[number])
        elif kind == "grow":
            self.grow(number)
        elif kind == "hear":
            self.heard[number] = self.partitions
        elif kind == "wait":
            self.wait(number)
        else:
            perform(self.containers, what)

    def send(self, key: str) -> None:
        """Send a message by the producer of its key, to the partition where that takes it to belong."""
        producer = KEYS.index(key) * PRODUCERS // MOST
        number = len(self.sent)
        self.sent.append((key, number))
        writing = self.system.producer().begin()
        partition = partition_for(key.encode(), self.heard[producer])
        record = (key.encode(), b"%d" % number, number * STEP, ())
        writing.append("in", partition, [record])
        writing.append("replies", partition_for(key.encode(), BEGAN), [record])
        writing.commit()

    def grow(self, factor: int) -> None:
        """Give the topic more partitions; containers that are alive see it before it is written there."""
        if self.partitions * factor <= MOST and self.now >= self.grown_at + AGE:
            self.partitions *= factor
            self.grown_at = self.now
            self.containers.grow("in", self.partitions)

    def wait(self, ms: int) -> None:
        """Let time pass; producers hear in time of what has grown."""
        self.now += ms
        if self.now >= self.grown_at + AGE:
            self.heard = [self.partitions] * PRODUCERS

    def finish(self) -> None:
        """Let all be processed, and end. What comes last to each partition lets tasks that are to be merged have one
        time: growths without messages may be idle for some of them alone."""
        self.wait(AGE)
        for key in KEYS:
            self.send(key)
        self.containers.finish()
        self.wait(AGE)
        with stores_of(self.system):
            after = msgspec.structs.replace(self.settings, elasticity=self.containers.elasticity)
            run(self.containers.pipeline, system=self.system, until="end", settings=after)

    def by_key(self, stream: str) -> dict[str, list[str]]:
        """What was written for each key, in order."""
        written = defaultdict(list)
        for key, value, _, _ in contents(self.system, stream):
            written[(key or b"").decode()].append((value or b"").decode())
        return written

    def panes(self, stream: str) -> Counter[tuple[str, int, int]]:
        return Counter(tuple(msgspec.json.decode(value or b"")) for _, value, _, _ in contents(self.system, stream))


def windows(messages: Sequence[tuple[str, int]]) -> Counter[tuple[str, int, int]]:
    """The panes of messages: of keys, and numbers which tell their times."""
    counts = Counter((key, number * STEP // WINDOW * WINDOW) for key, number in messages)
    return Counter((key, start, number) for (key, start), number in counts.items())


def sessions(messages: Sequence[tuple[str, int]]) -> Counter[tuple[str, int, int]]:
    """The sessions of messages of each key, in order."""
    found: list[tuple[str, int, int]] = []
    for key in KEYS:
        last = None
        for time in (number * STEP for name, number in messages if name == key):
            if last is None or time - last > SESSION:
                found.append((key, time, 0))
            found[-1] = (*found[-1][:2], found[-1][2] + 1)
            last = time
    return Counter(found)


def world_of(acts: Sequence[Act], guarantee: Guarantee, elasticity: int) -> World:
    """What there is after these acts, and a run to the end."""
    world = World(guarantee, elasticity)
    with in_one_thread(world.system), closing(world.containers):
        for number in range(2):
            world.containers.start(number)
        for one in acts:
            world.act(one)
        world.finish()
    return world


@pytest.mark.slow
def test_under_exactly_once_a_topic_that_grows_is_read_as_one_that_does_not() -> None:
    @MANY
    @example(BEHIND, 1)
    @given(ACTS, st.sampled_from([1, 2]))
    def check(acts: list[Act], elasticity: int) -> None:
        world = world_of(acts, "exactly_once", elasticity)
        sent: dict[str, list[str]] = defaultdict(list)
        for key, number in world.sent:
            sent[key].append(str(number))
        assert world.by_key("copies") == sent
        assert world.by_key("numbers") == {key: [str(n + 1) for n in range(len(all))] for key, all in sent.items()}
        assert world.by_key("named") == {key: [f"{n} {key.upper()}" for n in all] for key, all in sent.items()}
        assert world.by_key("called") == sent
        assert world.by_key("reminders") == sent
        assert world.by_key("pairs") == {key: [f"{n} {n}" for n in all] for key, all in sent.items()}
        assert world.by_key("told") == {key: [*all] for key, all in sent.items()}
        assert world.panes("sessions") == sessions(world.sent)
        assert world.panes("counts") == windows(world.sent)
        assert world.panes("sums") == windows([(str(number)[-1], number) for _, number in world.sent])

    check()


@pytest.mark.slow
def test_under_at_least_once_nothing_is_lost_and_each_key_keeps_its_order() -> None:
    @MANY
    @example(APART, 1)
    @given(ACTS, st.sampled_from([1, 2]))
    def check(acts: list[Act], elasticity: int) -> None:
        world = world_of(acts, "at_least_once", elasticity)
        copies = world.by_key("copies")
        for key in KEYS:
            sent = [str(number) for name, number in world.sent if name == key]
            assert [*dict.fromkeys(copies[key])] == sent  # what is repeated was there before, in this order
        assert {*world.panes("counts")} == {*windows(world.sent)}
        assert {*world.panes("sessions")} == {*sessions(world.sent)}
        for stream in ("called", "reminders", "pairs", "told"):
            assert {value.split()[0] for all in world.by_key(stream).values() for value in all} == {
                str(number) for _, number in world.sent
            }

    check()
