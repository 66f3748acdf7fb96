"""The coordinator stream of a pipeline: read whole at a start, written by one at a time, watched during a run."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager

from ....dsl.errors import SystemProblem, TakenOver
from ....dsl.message import Record
from ....dsl.validation import explain
from ....planner.stream_names import coordinator
from ...systems.contract import SendingSystem, StreamPartition, System
from .assignments import Assignment, Inquiry, Known, Presence, Written, read_record, record_of

Decide = Callable[[Known], Assignment]

PATIENCE_SECONDS = 30.0
"""How long a process waits for its turn to decide."""
GRACE_SECONDS = 5.0
"""How long containers that are being stopped may take to be gone."""
_PAUSE_SECONDS = 0.05


@contextmanager
def claimed(system: System, pipeline: str, name: str, patience: float) -> Iterator[None]:
    """Hold a claim, and wait up to `patience` seconds for it; raises SystemProblem where another keeps it."""
    until = time.monotonic() + patience
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(system.claim(pipeline, name))
                break
            except SystemProblem:
                if time.monotonic() > until:
                    raise
            time.sleep(_PAUSE_SECONDS)
        yield


class Coordinator:
    """The stream, made if need be. `close` it; for one thread at a time."""

    def __init__(self, system: System, pipeline: str) -> None:
        self._system = system
        self._pipeline = pipeline
        self._place: StreamPartition = (coordinator(pipeline), 0)
        self._admin = system.admin()
        self._admin.create(self._place[0], 1, "checkpoints")

    def read(self) -> tuple[Known, int]:
        """What the stream says now, and the offset up to which it was read."""
        while True:
            start = self._admin.starts(self._place[0])[0]
            try:
                return self._read(start)
            except SystemProblem:
                # Whoever decided meanwhile has removed what was before.
                if self._admin.starts(self._place[0])[0] == start:
                    raise

    def _read(self, start: int) -> tuple[Known, int]:
        assignment: Assignment | None = None
        presences: dict[int, Presence] = {}
        end = self._admin.ends(self._place[0])[0]
        with closing(self._system.consumer()) as consumer:
            consumer.assign({self._place: start})
            while start < end:
                for batch in consumer.poll(_PAUSE_SECONDS):
                    start = batch.next_offset
                    for record in map(_decoded, batch.records):
                        if isinstance(record, Assignment):
                            assignment = record
                        elif isinstance(record, Presence):
                            presences[record.container] = record
        return Known(assignment, presences), start

    def write(self, record: Presence | Inquiry) -> None:
        """Say that a container is there, or ask whether any is."""
        self._append([record])

    def ask(self, process: str, seconds: float) -> Presence | None:
        """Ask whether any container is alive, and wait so long for the first answer."""
        _, read_to = self.read()
        self._append([Inquiry(process=process)])
        until = time.monotonic() + seconds
        with closing(self._system.consumer()) as consumer:
            consumer.assign({self._place: read_to})
            while time.monotonic() < until:
                for batch in consumer.poll(_PAUSE_SECONDS):
                    answer = next(
                        (record for record in map(_decoded, batch.records) if isinstance(record, Presence)), None
                    )
                    if answer is not None:
                        return answer
        return None

    @contextmanager
    def settled(self, decide: Decide) -> "Iterator[tuple[Assignment, Known, int]]":
        """The assignment that is decided on, with what was known before, and up to which offset.

        Where containers are claimed, nobody else decides as long as the context lasts. Where they are fenced, whoever
        decides takes the right to write from those before; who loses it, decides anew.

        Raises SystemProblem where containers of the assignment before are still there and cannot be shut out.
        """
        if isinstance(self._system, SendingSystem):
            yield self._settle_by_fencing(self._system, decide)
            return
        with claimed(self._system, self._pipeline, "coordinator", PATIENCE_SECONDS):
            known, read_to = self.read()
            assignment = decide(known)
            if assignment != known.assignment:
                self._await_the_end(known, assignment)
                self._append([assignment], alone=True)
            yield assignment, known, read_to

    def _settle_by_fencing(self, system: SendingSystem, decide: Decide) -> tuple[Assignment, Known, int]:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            known, read_to = self.read()
            if decide(known) == known.assignment:
                return decide(known), known, read_to
            try:
                with closing(system.record_producer(self._place[0])) as sender:
                    known, read_to = self.read()  # what others before had under way is now there, or dropped
                    assignment = decide(known)
                    if assignment != known.assignment:
                        sender.begin()
                        sender.send(*self._place, [_record(assignment)])
                        sender.commit()
                    return assignment, known, read_to
            except TakenOver:
                if time.monotonic() > until:
                    raise
            time.sleep(random.uniform(0, 4 * _PAUSE_SECONDS))

    def _await_the_end(self, known: Known, assignment: Assignment) -> None:
        """Wait for containers that are being stopped; refuse to go on beside others."""
        before = 1 if known.assignment is None else known.assignment.containers
        for container in range(max(before, assignment.containers)):
            with claimed(self._system, self._pipeline, str(container), GRACE_SECONDS):
                pass

    def _append(self, written: Sequence[Written], *, alone: bool = False) -> None:
        records = [_record(one) for one in written]
        if isinstance(self._system, SendingSystem):
            with closing(self._system.record_producer(once=False)) as sender:
                sender.send(*self._place, records)
                sender.flush()
            return
        end = self._admin.ends(self._place[0])[0]
        with closing(self._system.producer()) as producer:
            writing = producer.begin()
            writing.append(*self._place, records)
            writing.commit()
            if alone:  # no other process writes, and what this one wrote takes the place of all before
                producer.trim({self._place: end})

    def watch(self, read_to: int, assignment: Assignment, presence: Presence, known: Known) -> "Watch":
        """Notice from now on if another process takes the place of this one; `known` is what was known before."""
        return Watch(self._system, self._pipeline, (self._place, read_to), assignment, presence, known.presences)


class Watch:
    """Looks whether this container still has its place. `check` costs little while nothing is written."""

    def __init__(
        self,
        system: System,
        pipeline: str,
        position: tuple[StreamPartition, int],
        assignment: Assignment,
        presence: Presence,
        before: Mapping[int, Presence],
    ) -> None:
        self._where = system.url
        self._pipeline = pipeline
        self._assignment = assignment
        self._presence = presence
        self._seated = False
        self.asked = False
        """Whether somebody wants to know if this container is alive."""
        self._others = {other.incarnation for other in before.values()}
        self._presences = dict(before)
        self._admin = system.admin()
        self._place, self._read_to = position
        self._consumer = system.consumer()
        self._consumer.assign({self._place: self._read_to})

    @property
    def absent(self) -> tuple[int, ...]:
        """The containers that have not started in this run, as far as was read."""
        run, containers = self._assignment.run, range(self._assignment.containers)
        started = {number for number, presence in self._presences.items() if presence.run == run}
        return tuple(number for number in containers if number not in {*started, self._presence.container})

    @property
    def unfinished(self) -> tuple[Presence, ...]:
        """The other containers that have started in this run and are not done, as far as was read."""
        return tuple(
            presence
            for number, presence in sorted(self._presences.items())
            if presence.run == self._assignment.run and presence.state != "done" and number != self._presence.container
        )

    def check(self, *, wait: bool = False) -> None:
        """Raise TakenOver once another process has the place of this container; `wait` for all that there is to read,
        instead of looking at what has come."""
        end = self._admin.ends(self._place[0])[0] if wait else 0
        self._look(0.0)
        while self._read_to < end:
            self._look(_PAUSE_SECONDS)

    def _look(self, timeout: float) -> None:
        for batch in self._consumer.poll(timeout):
            self._read_to = batch.next_offset
            for record in map(_decoded, batch.records):
                if isinstance(record, Assignment):
                    self._see_assignment(record)
                elif isinstance(record, Inquiry):
                    self.asked = True
                elif record is not None:
                    self._presences[record.container] = record
                    if record.container == self._presence.container:
                        self._see_presence(record)

    def _see_assignment(self, assignment: Assignment) -> None:
        if assignment.generation != self._assignment.generation:
            containers = "1 container" if assignment.containers == 1 else f"{assignment.containers} containers"
            raise self._lost(f"generation {assignment.generation}, with {containers}, has begun")
        if assignment.run != self._assignment.run:
            raise self._lost("another run has begun")

    def _see_presence(self, presence: Presence) -> None:
        if presence.incarnation == self._presence.incarnation:
            self._seated = True
        elif presence.incarnation not in self._others:  # else it says again what nobody told it had arrived
            self._others.add(presence.incarnation)
            if self._seated and presence.state == "starting":
                raise self._lost(f"{presence.process} has taken it")

    def _lost(self, why: str) -> TakenOver:
        container = f"container {self._presence.container} of pipeline {self._pipeline!r} on {self._where}"
        remedy = "nothing if that was started on purpose, else stop one of the two"
        return TakenOver(explain(f"{container} has lost its place: {why}", "one process for each container", remedy))

    def close(self) -> None:
        self._consumer.close()


def _record(written: Written) -> Record:
    return (*record_of(written), time.time_ns() // 1_000_000, ())


def _decoded(record: Record) -> Written | None:
    return read_record(record[0], record[1])
