"""Containers that trim the streams between stages, in any order, while others start, die, and come back elsewhere."""

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory
from uuid import uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fluvial.dsl.message import Record
from fluvial.planner.task_assignment import StageTasks, assign
from fluvial.runtime.local.coordination.assignments import Assignment, CoordinatorState, Presence, RunPhase
from fluvial.runtime.systems.log import LogProducer, LogReader, LogSystem
from generators.how_many import examples

TASKS = 4
CONTAINERS = st.sampled_from([2, 3, 1])
TURNS = st.lists(st.tuples(st.integers(0, TASKS - 1), st.booleans()), min_size=4, max_size=12)
ORDERS = st.lists(st.integers(0, 2), max_size=4)
FATES = st.sampled_from(["", "", "staged", "prepared", "promised"])
NAMES = [f"by/{number}" for number in range(TASKS)]


@dataclass
class Stored:
    """The store of a task: how far it has read, what it has promised to publish, and what that has in it."""

    passed: int = 0
    token: bytes = b""
    promised: list[list[Record]] = field(default_factory=list)


@dataclass
class Alive:
    """A container that is alive."""

    producer: LogProducer
    incarnation: str
    running: bool = False


class TrimmingContainers(RuleBasedStateMachine):
    """Tasks read one partition each of a stream, and write to all of them, as two stages do that feed each other."""

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        self.log = LogSystem(self.home.name, fsync=False, compact_bytes=600, segment_bytes=200)
        self.log.admin().create("between", TASKS)
        self.numbers = count()
        self.expected: list[list[Record]] = [[] for _ in NAMES]
        self.stores = [Stored() for _ in NAMES]
        self.alive: dict[int, Alive] = {}
        self.presences: dict[int, Presence] = {}
        self.assignment = Assignment(generation=0, containers=0, tasks={}, run="", until="end")

    def teardown(self) -> None:
        self.home.cleanup()

    @initialize(containers=CONTAINERS)
    def begin(self, containers: int) -> None:
        self.scale(containers)

    @precondition(lambda self: not self.alive)
    @rule(containers=CONTAINERS)
    def scale(self, containers: int) -> None:
        """Another generation begins once nobody is alive."""
        generation = self.assignment.generation + 1
        tasks = assign({"by": StageTasks(TASKS)}, containers, self.assignment.tasks)
        self.assignment = Assignment(generation=generation, containers=containers, tasks=tasks, run="r", until="end")

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        dead = sorted({*range(self.assignment.containers)} - self.alive.keys())
        if dead:
            container, incarnation = data.draw(st.sampled_from(dead)), uuid4().hex
            self.tell(container, incarnation, "starting")
            self.alive[container] = Alive(self.log.producer(incarnation), incarnation)

    @precondition(lambda self: any(not one.running for one in self.alive.values()))
    @rule(data=st.data())
    def come_to_run(self, data: st.DataObject) -> None:
        """A container publishes what its tasks have promised, and only then says that it runs; it may die between."""
        container = data.draw(st.sampled_from(sorted(number for number, one in self.alive.items() if not one.running)))
        for number in self.tasks_of(container):
            if data.draw(st.integers(0, 9)) == 9:
                del self.alive[container]
                return
            self.publish(container, number)
        self.alive[container].running = True
        self.tell(container, self.alive[container].incarnation, "running")

    @rule()
    def start_all(self) -> None:
        """All containers come to run, one after the other."""
        for container in range(self.assignment.containers):
            if container not in self.alive:
                incarnation = uuid4().hex
                self.tell(container, incarnation, "starting")
                self.alive[container] = Alive(self.log.producer(incarnation), incarnation)
        for container, one in self.alive.items():
            for number in self.tasks_of(container):
                self.publish(container, number)
            one.running = True
            self.tell(container, one.incarnation, "running")

    @precondition(lambda self: any(one.running for one in self.alive.values()))
    @rule(
        turns=st.lists(st.tuples(st.integers(0, TASKS - 1), st.booleans()), min_size=4, max_size=12),
        dies=FATES,
        order=ORDERS,
    )
    def work(self, turns: list[tuple[int, bool]], dies: str, order: list[int]) -> None:
        """Tasks read on, write and commit; the container of the last one may die in the middle; others trim then."""
        for turn, (number, reads_all) in enumerate(turns):
            container = self.assignment.tasks[NAMES[number]]
            if container in self.alive and self.alive[container].running:
                self.commit(container, number, dies if turn == len(turns) - 1 else "", reads_all=reads_all)
        self.trim_some(order)

    def commit(self, container: int, number: int, dies: str, *, reads_all: bool) -> None:
        store, end = self.stores[number], len(self.expected[number])
        passed = end if reads_all else (store.passed + end) // 2
        writing, promised = self.alive[container].producer.begin(), [list[Record]() for _ in NAMES]
        for partition in range(TASKS):
            records: list[Record] = [(b"key", b"%d" % next(self.numbers), 0, ()) for _ in range(3)]
            writing.append("between", partition, records)
            promised[partition] = records
        if dies != "staged":
            token = writing.prepare("group", {NAMES[number]: b"%d" % passed})
            if dies != "prepared":
                self.stores[number] = Stored(passed, token, promised)
                if dies != "promised":
                    self.publish(container, number)
        if dies:
            del self.alive[container]

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        del self.alive[data.draw(st.sampled_from(sorted(self.alive)))]

    @precondition(lambda self: any(one.running for one in self.alive.values()))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """A container comes to the end of its run: all that its tasks did is published."""
        container = data.draw(st.sampled_from(sorted(number for number, one in self.alive.items() if one.running)))
        self.tell(container, self.alive[container].incarnation, "done")
        self.trim(container)
        del self.alive[container]

    def trim_some(self, order: list[int]) -> None:
        for container in order:
            if container in self.alive and self.alive[container].running:
                self.trim(container)

    @precondition(lambda self: len([one for one in self.alive.values() if one.running]) == self.assignment.containers)
    @rule()
    def trim_all(self) -> None:
        """Where all containers run, no file is left that nobody needs."""
        for _ in range(2):
            for container in self.alive:
                self.trim(container)
        found = {path.name for path in self.log.directory.glob("streams/*/*/*.seg")}
        index = next(iter(self.alive.values())).producer._journal.refresh()
        needed = {name for extents in index.streams["between"] for name in extents.names}
        for one in self.alive.values():
            needed.update(one.producer._segments.unpublished())
        assert found <= needed

    @invariant()
    def what_is_still_to_be_read_is_there(self) -> None:
        for number, store in enumerate(self.stores):
            self.read(number, store.passed)

    def tasks_of(self, container: int) -> list[int]:
        return [number for number, name in enumerate(NAMES) if self.assignment.tasks[name] == container]

    def tell(self, container: int, incarnation: str, state: RunPhase) -> None:
        self.presences[container] = Presence(
            container=container,
            generation=self.assignment.generation,
            run="r",
            incarnation=incarnation,
            state=state,
        )

    def publish(self, container: int, number: int) -> None:
        store = self.stores[number]
        if store.token:
            self.alive[container].producer.publish(store.token)
            for partition, records in enumerate(store.promised):
                self.expected[partition] += records
            store.token, store.promised = b"", []

    def trim(self, container: int) -> None:
        passed = {("between", number): self.stores[number].passed for number in self.tasks_of(container)}
        everywhere = {("between", number): 0 for number in range(TASKS)}
        known = CoordinatorState(self.assignment, dict(self.presences))
        self.alive[container].producer.trim({**everywhere, **passed}, partial(known.other_publishers, container))

    def read(self, number: int, start: int) -> None:
        end = len(self.expected[number])
        assert self.log.admin().ends("between")[number] == end
        batches = LogReader(self.log.directory).read("between", number, start, end)
        assert [record for batch in batches for record in batch.records] == self.expected[number][start:]


TestTrimmingContainers = TrimmingContainers.TestCase
TestTrimmingContainers.settings = settings(max_examples=examples(200), stateful_step_count=40)
