"""The coordinator stream of a pipeline: each container reads all of it at its start, and follows it during the run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta

from ....dsl.errors import SystemProblem, TakenOver
from ....dsl.message import Record
from ....dsl.validation import explain
from ....planner.stream_names import coordinator
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, StreamPartition, System
from .assignments import (
    Assignment,
    CoordinatorRecord,
    CoordinatorState,
    DrainRequest,
    Gone,
    LivenessQuery,
    Presence,
    Readiness,
    SizingRecord,
    read_record,
    record_of,
)
from .presence_book import PresenceBook

Decide = Callable[[CoordinatorState], Assignment]

PATIENCE_SECONDS = 30.0
"""How long a process waits until it may write an assignment."""
GRACE_SECONDS = 5.0
"""How long a new generation waits for containers of the last one to end."""
# Containers that start together wait for one another a few times, and so does the first message.
_PAUSE_SECONDS = 0.05


@contextmanager
def claimed(
    system: System, pipeline: str, name: str, patience: float, machine: Machine = THIS_MACHINE
) -> Iterator[None]:
    """Hold a claim while the context is open. Waits up to `patience` seconds for it, then raises SystemProblem."""
    until = machine.clock() + patience
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(system.claim(pipeline, name))
                break
            except SystemProblem:
                if machine.clock() > until:
                    raise
            machine.sleep(_PAUSE_SECONDS)
        yield


class Coordinator:
    """Reads and writes the coordinator stream of a pipeline, and creates it if it does not exist. Not thread-safe."""

    def __init__(self, system: System, pipeline: str, machine: Machine = THIS_MACHINE) -> None:
        self._system = system
        self._pipeline = pipeline
        self._machine = machine
        self._stream_partition: StreamPartition = (coordinator(pipeline), 0)
        self._admin = system.admin()
        self._admin.create(self._stream_partition[0], 1, "checkpoints")

    def read(self) -> tuple[CoordinatorState, int]:
        """Read the whole stream. Returns its state, and the offset up to which it was read."""
        while True:
            start = self._admin.starts(self._stream_partition[0])[0]
            try:
                return self._read(start)
            except SystemProblem:
                # Another container has written an assignment in between, and trimmed the records before it.
                if self._admin.starts(self._stream_partition[0])[0] == start:
                    raise

    def _read(self, start: int) -> tuple[CoordinatorState, int]:
        assignment: Assignment | None = None
        book, readiness = PresenceBook(), dict[int, Readiness]()
        sizing: SizingRecord | None = None
        drain: DrainRequest | None = None
        end = self._admin.ends(self._stream_partition[0])[0]
        with closing(self._system.consumer()) as consumer:
            consumer.assign({self._stream_partition: start})
            while start < end:
                for batch in consumer.poll(_PAUSE_SECONDS):
                    start = batch.next_offset
                    for record in map(_decoded, batch.records):
                        if isinstance(record, Assignment):
                            assignment = record
                        elif isinstance(record, Presence):
                            book.add(record)
                        elif isinstance(record, Gone):
                            book.part_with(record)
                        elif isinstance(record, Readiness):
                            readiness[record.container] = record
                        elif isinstance(record, SizingRecord):
                            sizing = record
                        elif isinstance(record, DrainRequest):
                            drain = record
        return CoordinatorState(assignment, book.presences, readiness, book.gone, sizing, drain), start

    def write(self, record: Presence | LivenessQuery | Readiness | Gone | SizingRecord | DrainRequest) -> None:
        """Append a record other than an assignment: the presence or readiness of a container, that one is gone, a
        liveness query, a decision of an autosizer, or a request to drain."""
        self._append([record])

    def write_assignment(self, assignment: Assignment) -> None:
        """Write an assignment on a system with claims, of which the caller holds those of all containers, and the one
        to decide."""
        self._append([assignment], alone=True)

    def ask(self, process: str, seconds: float) -> Presence | None:
        """Ask whether any container is alive. Returns the first answer, None if none comes within `seconds`."""
        return next(self.answers(process, seconds), None)

    def answers(self, process: str, seconds: float) -> Iterator[Presence]:
        """Ask which containers are alive. Yields their answers as they come, for so many seconds."""
        _, read_to = self.read()
        self._append([LivenessQuery(process=process)])
        until = self._machine.clock() + seconds
        with closing(self._system.consumer()) as consumer:
            consumer.assign({self._stream_partition: read_to})
            while self._machine.clock() < until:
                for batch in consumer.poll(_PAUSE_SECONDS):
                    yield from (one for one in map(_decoded, batch.records) if isinstance(one, Presence))

    @contextmanager
    def decided(self, decide: Decide) -> "Iterator[tuple[Assignment, CoordinatorState, int]]":
        """Write the assignment that `decide` returns, unless it is the last one already. Yields the assignment, the
        state of the stream before it, and the offset up to which that state was read.

        On systems with claims the context holds the claim to decide. On systems with fencing the latest producer
        fences the earlier ones; a container that was fenced reads the stream again and decides again.

        Raises SystemProblem if containers of the last assignment are still alive and cannot be fenced.
        """
        if isinstance(self._system, ProducingSystem):
            yield self._decide_by_fencing(self._system, decide)
            return
        with claimed(self._system, self._pipeline, "coordinator", PATIENCE_SECONDS, self._machine):
            state, read_to = self.read()
            assignment = decide(state)
            if assignment != state.assignment:
                self._await_ended_containers(state, assignment)
                self._append([assignment], alone=True)
            yield assignment, state, read_to

    def _decide_by_fencing(self, system: ProducingSystem, decide: Decide) -> tuple[Assignment, CoordinatorState, int]:
        until = self._machine.clock() + PATIENCE_SECONDS
        while True:
            state, read_to = self.read()
            if decide(state) == state.assignment:
                return decide(state), state, read_to
            try:
                with closing(system.record_producer(self._stream_partition[0])) as producer:
                    # Read again: the open transactions of earlier producers are committed or aborted now.
                    state, read_to = self.read()
                    assignment = decide(state)
                    if assignment != state.assignment:
                        producer.begin()
                        producer.send(*self._stream_partition, [self._record(assignment)])
                        producer.commit()
                    return assignment, state, read_to
            except TakenOver:
                if self._machine.clock() > until:
                    raise
            # At random: processes that have fenced each other would otherwise try again at the same time.
            self._machine.sleep(4 * _PAUSE_SECONDS * self._machine.random())

    def _await_ended_containers(self, state: CoordinatorState, assignment: Assignment) -> None:
        """Wait until the containers of the last assignment have ended. Raises SystemProblem if one is still alive."""
        before = 1 if state.assignment is None else state.assignment.containers
        for container in range(max(before, assignment.containers)):
            with claimed(self._system, self._pipeline, str(container), GRACE_SECONDS, self._machine):
                pass

    def _append(self, written: Sequence[CoordinatorRecord], *, alone: bool = False) -> None:
        records = [self._record(one) for one in written]
        if isinstance(self._system, ProducingSystem):
            # A producer without `once` is ready sooner. It may write a record twice, which the incarnation shows.
            with closing(self._system.record_producer(once=False)) as producer:
                producer.send(*self._stream_partition, records)
                producer.flush()
            return
        end = self._admin.ends(self._stream_partition[0])[0]
        with closing(self._system.producer()) as producer:
            transaction = producer.begin()
            transaction.append(*self._stream_partition, records)
            transaction.commit()
            if alone:  # no other process writes, and this record replaces all earlier ones
                producer.trim({self._stream_partition: end})

    def _record(self, written: CoordinatorRecord) -> Record:
        return (*record_of(written), self._machine.wall(), ())

    def monitor(
        self,
        read_to: int,
        assignment: Assignment,
        presence: Presence,
        state: CoordinatorState,
        silence: timedelta | None = None,
    ) -> "MembershipMonitor":
        """Follow the stream from an offset on. `state` is the state of the stream up to there. After a `silence` of so
        long the container is taken for dead."""
        return MembershipMonitor(
            self._system, self._pipeline, (self._stream_partition, read_to), assignment, presence, state, silence
        )


class MembershipMonitor:
    """Follows the coordinator stream and notices when another process replaces this container. `check` is cheap while
    no records are written."""

    def __init__(
        self,
        system: System,
        pipeline: str,
        position: tuple[StreamPartition, int],
        assignment: Assignment,
        presence: Presence,
        state: CoordinatorState,
        silence: timedelta | None = None,
    ) -> None:
        self._system_url = system.url
        self._pipeline = pipeline
        self.assignment = assignment
        """The last assignment of this run: another one than before once the pipeline is scaled."""
        self._presence, self._silence = presence, silence
        self._announced = False
        self.sizing = state.sizing if state.sizing is not None and state.sizing.run == assignment.run else None
        """What an autosizer has decided last in this run."""
        self.drain = state.drain if state.drain is not None and state.drain.run == presence.run else None
        """The offsets at which this run is to end, since it drains."""
        self.liveness_queried = False
        """Whether a process asks if this container is alive."""
        self._others = {other.incarnation for other in state.presences.values()}
        self._book = PresenceBook(state.presences, state.gone)
        self._readiness = dict(state.readiness)
        self._admin = system.admin()
        self._stream_partition, self._read_to = position
        self._consumer = system.consumer()
        self._consumer.assign({self._stream_partition: self._read_to})

    @property
    def absent(self) -> tuple[int, ...]:
        """The containers that have not started in this run, as of the last `check`."""
        run, containers = self.assignment.run, range(self.assignment.containers)
        started = {number for number, presence in self._book.presences.items() if presence.run == run}
        return tuple(number for number in containers if number not in {*started, self._presence.container})

    @property
    def unfinished(self) -> tuple[Presence, ...]:
        """The other containers that have started in this run and are not done, as of the last `check`."""
        return tuple(
            presence
            for number, presence in sorted(self._book.presences.items())
            if presence.run == self.assignment.run and presence.state != "done" and number != self._presence.container
        )

    @property
    def sending(self) -> Mapping[int, str]:
        """The other containers of this run that send heartbeats and are not done, with the incarnations of their
        processes, as of the last `check`. Any thread may ask."""
        others = CoordinatorState(presences=self._book.presences.copy()).sending(self.assignment.run)
        return {number: one for number, one in others.items() if number != self._presence.container}

    @property
    def readiness(self) -> dict[int, Readiness]:
        """The tasks that each container could take over, as of the last `check`."""
        processes = {number: presence.incarnation for number, presence in self._book.presences.items()}
        return {number: one for number, one in self._readiness.items() if processes.get(number) == one.incarnation}

    @property
    def all_follow(self) -> bool:
        """Whether each of the other containers acts by the last assignment, as of the last `check`."""
        last = self.assignment.generation
        return all(one.state == "running" and one.generation >= last for one in self.unfinished)

    def check(self, *, wait: bool = False) -> None:
        """Raise TakenOver once another process has replaced this container. With `wait` the stream is read to its end;
        without, only the records that have arrived already."""
        end = self._admin.ends(self._stream_partition[0])[0] if wait else 0
        self._poll(0.0)
        while self._read_to < end:
            self._poll(_PAUSE_SECONDS)

    def _poll(self, timeout: float) -> None:
        for batch in self._consumer.poll(timeout):
            self._read_to = batch.next_offset
            for record in map(_decoded, batch.records):
                if isinstance(record, Assignment):
                    self._on_assignment(record)
                elif isinstance(record, LivenessQuery):
                    self.liveness_queried = True
                elif isinstance(record, Readiness):
                    self._readiness[record.container] = record
                elif isinstance(record, SizingRecord):
                    self.sizing = record if record.run == self.assignment.run else None
                elif isinstance(record, DrainRequest):
                    # A request to drain another run is dropped, and so is a second one to drain this run.
                    self.drain = self.drain or (record if record.run == self._presence.run else None)
                elif isinstance(record, Gone):
                    self._book.part_with(record)
                    if record.incarnation == self._presence.incarnation:
                        raise self.taken_for_dead()
                elif record is not None:
                    self._book.add(record)
                    if record.container == self._presence.container:
                        self._on_presence(record)

    def _on_assignment(self, assignment: Assignment) -> None:
        if assignment.continues(self.assignment):
            self.assignment = assignment
        elif assignment.generation != self.assignment.generation:
            containers = "1 container" if assignment.containers == 1 else f"{assignment.containers} containers"
            raise self._lost(f"generation {assignment.generation}, with {containers}, has begun")
        else:
            raise self._lost("another run has begun")

    def _on_presence(self, presence: Presence) -> None:
        if presence.incarnation == self._presence.incarnation:
            self._announced = True
        elif presence.incarnation not in self._others:  # else a known process repeats an unacknowledged write
            self._others.add(presence.incarnation)
            if self._announced and presence.state == "starting":
                raise self._lost(f"{presence.process} has taken it")

    def _lost(self, why: str) -> TakenOver:
        container = f"container {self._presence.container} of pipeline {self._pipeline!r} on {self._system_url}"
        remedy = "nothing if that was started on purpose, else stop one of the two"
        wrong = f"{container} has lost its place: {why}"
        return TakenOver(explain(wrong, "one process for each container", remedy, "the coordinator stream"))

    def taken_for_dead(self) -> SystemProblem:
        """The error of a container that others have taken for dead."""
        silent = "it did not answer"
        if self._silence is not None:
            silent = f"no heartbeat of it came for the heartbeat_timeout of {self._silence.total_seconds():g} s"
        wrong = f"container {self._presence.container} of pipeline {self._pipeline!r} on {self._system_url} was taken "
        wrong += f"for dead, since {silent}, and others have its tasks; what it had not committed is dropped"
        expected = "a process that does not stand still for so long"
        remedy = "nothing but to start it again, and it gets its share of the tasks in a while; "
        remedy += "if that comes back, a longer --heartbeat-timeout"
        return SystemProblem(explain(wrong, expected, remedy, "the coordinator stream"))

    def close(self) -> None:
        """Stop reading the stream."""
        self._consumer.close()


def _decoded(record: Record) -> CoordinatorRecord | None:
    return read_record(record[0], record[1])
