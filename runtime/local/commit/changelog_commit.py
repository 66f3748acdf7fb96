"""Commits to systems that records are sent to as they come: state has changelogs, and checkpoints are records too."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from threading import Lock

from msgspec import json
from msgspec.structs import replace

from ....dsl.errors import SystemProblem
from ....dsl.message import Record
from ....dsl.validation import explain
from ....planner.stream_names import checkpoints as checkpoints_of
from ...kernel.state_cache import Change
from ...state.contract import TaskStore
from ...systems.contract import RecordProducer, SendingSystem, StreamPartition
from ..background_work import Steps
from . import checkpoint as checkpoints
from .changelog import Log, Span, logged, present, replay
from .checkpoint import Checkpoint, Checkpoints
from .contract import CHECKPOINT, META, Committed, TaskCommit, TaskSetup

_ORIGIN, _USED = b"origin", b"used"
STALE_MS = 5 * 24 * 3600 * 1000
"""A store that was not used for so long is built anew. Deletions stay in changelogs for 7 days."""

Restoring = Callable[[int, int], None]
"""Called with (records restored, offsets of changelogs still to be read); first when there is none yet."""


def nobody(restored: int, left: int) -> None:
    """Nobody wants to know."""


class SentOutbox:
    """Sends what a task makes as it is made; waits as long as somebody else has the sender."""

    size = 0

    def __init__(self, sender: RecordProducer, lock: Lock) -> None:
        self._sender = sender
        self._lock = lock

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        with self._lock:
            self._sender.send(stream, partition, records)


class SentCommits:
    """Changelogs and checkpoints are one transaction of the container's transactional id, and the stores are written
    after it: a store may be behind its checkpoint, and catches up from the changelog (ADR 0018).

    A process that was replaced has lost its id: what it still sends to changelogs and checkpoints is refused.

    Under `exactly_once` outputs are part of that transaction. Under `at_least_once` they are sent before it, through
    `outputs`, and are safe before it commits: a crash in between repeats outputs, and loses nothing.
    """

    early = True

    def __init__(
        self,
        pipeline: str,
        system: SendingSystem,
        sender: RecordProducer,
        *,
        outputs: RecordProducer | None = None,
        restoring: Restoring = nobody,
        clock: Callable[[], float] = time.time,
        group_offsets: bool = True,
    ) -> None:
        """`sender` has the container's transactional id. Without `outputs` the guarantee is `exactly_once`."""
        self.together = outputs is None
        self._outputs = sender if outputs is None else outputs
        self._pipeline = pipeline
        self._stream = checkpoints_of(pipeline)
        self._system = system
        self._admin = system.admin()
        self._sender = sender
        self._lock = Lock()
        self._restoring = restoring
        self._passed: dict[StreamPartition, dict[str, int]] = {}
        self._clock = clock
        self._group_offsets = group_offsets
        if self.together:
            sender.begin()

    # Going on.

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        """Nothing to do: state is restored from the changelogs of its operators wherever they are."""

    def settle(self, setups: Sequence[TaskSetup], kept: Checkpoints) -> Checkpoints:  # noqa: ARG002
        # A checkpoint and its changelogs are one transaction.
        return kept

    def resume(self, setups: Sequence[TaskSetup], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        found = {setup.name: kept.get(setup.name, Checkpoint()) for setup in setups}
        stateful = [setup for setup in setups if setup.stateful]
        streams = {stream for setup in stateful for stream in setup.changelogs.values()}
        logs = {stream: Log(self._admin, stream) for stream in streams}
        behind: list[Span] = []
        beyond: list[Span] = []
        for setup in stateful:
            own = self._own(setup, _origin(setup, logs), found[setup.name])
            # What gives its state a meaning a store knows, too.
            found[setup.name] = replace(found[setup.name], states={**own.states, **found[setup.name].states})
            for operator, stream in setup.changelogs.items():
                span = _behind(setup, operator, logs[stream], own, found[setup.name])
                behind.append(span)
                if not found[setup.name].atomic:
                    beyond.append(Span(setup.store, operator, span.place, span.end, logs[stream].ends[setup.number]))
        self._restore(behind)
        for setup in stateful:
            data = checkpoints.encode(found[setup.name])
            setup.store.write([(META, CHECKPOINT, data), (META, _ORIGIN, _origin(setup, logs)), self._used()])
        if not self.together:
            found.update(self._repair(beyond, stateful, found))
        return found

    def _own(self, setup: TaskSetup, origin: bytes, kept: Checkpoint) -> Checkpoint:
        """The checkpoint in the store; blank for a store that is of no use, which is emptied."""
        data = setup.store.get(META, CHECKPOINT)
        good = (
            data is not None and setup.store.get(META, _ORIGIN) == origin and not kept.blank and self._is_fresh(setup)
        )
        own = checkpoints.decode(data, setup.name) if good and data is not None else Checkpoint()
        if checkpoints.is_ahead(own, kept):
            own = Checkpoint()  # of a commit that did not come to pass
        if own.blank:
            setup.store.clear()
        return own

    def _used(self) -> Change:
        """When the store was last brought up to its changelogs."""
        return META, _USED, b"%d" % self._now()

    def _is_fresh(self, setup: TaskSetup) -> bool:
        """Whether the changelogs still hold every deletion since the store was last used: they forget the oldest."""
        used = setup.store.get(META, _USED)
        return used is not None and self._now() - int(used) < STALE_MS

    def _restore(self, spans: Sequence[Span]) -> None:
        left = sum(span.end - span.start for span in spans)
        if not left:
            return
        restored = 0
        self._restoring(restored, left)

        def told(records: int, passed: int) -> None:
            nonlocal restored, left
            restored += records
            left -= passed
            self._restoring(restored, left)

        with closing(self._system.consumer(committed=True)) as consumer:
            replay(consumer, spans, told)

    def _repair(
        self, beyond: Sequence[Span], setups: Sequence[TaskSetup], found: Mapping[str, Checkpoint]
    ) -> dict[str, Checkpoint]:
        """Undo, in changelogs, changes whose commit did not come to pass; gives the checkpoints of the tasks.

        Only versions whose commits were no transactions have left such changes, and whoever reset the checkpoints.
        """
        spans = [span for span in beyond if span.start < span.end]
        if not spans:
            return {}
        self._sender.begin()
        with closing(self._system.consumer(committed=True)) as consumer:
            for (stream, partition), made in present(consumer, spans, self._now()):
                self._sender.send(stream, partition, made)
        self._sender.flush()
        ends = self._sender.ends([span.place for span in spans])
        repaired = {setup.name: replace(_with_ends(found[setup.name], setup, ends), atomic=True) for setup in setups}
        self._send_checkpoints({name: now for name, now in repaired.items() if not now.blank})
        self._sender.commit()
        return repaired

    # Committing.

    def outbox(self) -> SentOutbox:
        return SentOutbox(self._outputs, self._lock)

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        changes = {one.setup.name: list(one.changes) for one in commits if one.setup.stateful}
        if not self.together:
            yield self._flush_outputs
            self._sender.begin()
        places = [place for one in commits for place in self._log(one.setup, changes.get(one.setup.name, ()))]
        yield self._sender.flush
        ends = (yield lambda: self._sender.ends(places)) if places else {}
        done = {one.setup.name: replace(_with_ends(one.checkpoint, one.setup, ends), atomic=True) for one in commits}
        data = self._send_checkpoints(done)
        yield self._sender.commit
        setups = [one.setup for one in commits]
        self._keep([setup for setup in setups if setup.stateful], data, changes)
        if self.together:
            self._sender.begin()
        if self._group_offsets:
            self._note(setups, done)
        return [Committed(done[one.setup.name], one.outbox) for one in commits]

    def _flush_outputs(self) -> None:
        # In another thread perhaps: a firing may send meanwhile, and a sender is for one at a time.
        with self._lock:
            self._outputs.flush()

    def _note(self, setups: Sequence[TaskSetup], done: Mapping[str, Checkpoint]) -> None:
        """Tell how far inputs have been read; where several stages read one, the last of them counts."""
        for setup in setups:
            for stream in setup.inputs:
                offset = done[setup.name].offsets.get(stream, 0)
                self._passed.setdefault((stream, setup.number), {})[setup.name] = offset
        self._admin.report_offsets(
            self._pipeline, {place: min(found.values()) for place, found in self._passed.items()}
        )

    def _log(self, setup: TaskSetup, changes: Sequence[Change]) -> list[StreamPartition]:
        """Send a task's changes to its changelogs; says where to."""
        places = {operator: (stream, setup.number) for operator, stream in setup.changelogs.items()}
        sent = set()
        for operator, records in logged(changes, setup.store, self._now()):
            self._sender.send(*places[operator], records)
            sent.add(places[operator])
        return sorted(sent)

    def _keep(
        self, setups: Sequence[TaskSetup], data: Mapping[str, bytes], changes: Mapping[str, Sequence[Change]]
    ) -> None:
        for setup in setups:
            self._write(setup, data[setup.name], changes[setup.name])

    def _write(self, setup: TaskSetup, checkpoint: bytes, changes: Sequence[Change]) -> None:
        """Write changes of state to a task's store, and with them, at one stroke, the checkpoint that counts them."""
        setup.store.write(chain(changes, [(META, CHECKPOINT, checkpoint), self._used()]))

    def _send_checkpoints(self, tasks: Mapping[str, Checkpoint]) -> dict[str, bytes]:
        """Send the checkpoints of tasks, by name; gives their bytes."""
        data = {name: checkpoints.encode(now) for name, now in tasks.items()}
        self._sender.send(self._stream, 0, [(name.encode(), kept, self._now(), ()) for name, kept in data.items()])
        return data

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        self._sender.trim(starts)


def _with_ends(known: Checkpoint, of: TaskSetup, ends: Mapping[StreamPartition, int]) -> Checkpoint:
    """A checkpoint of a task that knows how far those of its changelogs go that have news."""
    found = {operator: ends.get((stream, of.number)) for operator, stream in of.changelogs.items()}
    news = {operator: end for operator, end in found.items() if end is not None}
    return replace(known, changelogs={**known.changelogs, **news}) if news else known


def _origin(setup: TaskSetup, logs: Mapping[str, Log]) -> bytes:
    """Which changelogs a store is a copy of: one that was deleted and made anew is another."""
    return json.encode({operator: logs[stream].identity for operator, stream in setup.changelogs.items()})


def _behind(setup: TaskSetup, operator: str, log: Log, own: Checkpoint, target: Checkpoint) -> Span:
    """What of a changelog a store lacks; raises SystemProblem where the changelog has not got it."""
    first, last = log.starts[setup.number], log.ends[setup.number]
    end = target.changelogs.get(operator, first)
    start = max(first, own.changelogs.get(operator, first))
    if start < end and last < end:
        wrong = (
            f"the changelog {log.stream!r} ends at offset {last} of partition {setup.number}, and the checkpoint of "
        )
        wrong += f"task {setup.name} needs it up to {end}"
        remedy = "bring the stream back, or let the operator begin anew: fluvial reset --state " + operator
        raise SystemProblem(explain(wrong, "the changelog that was written with the checkpoint", remedy))
    return Span(setup.store, operator, (log.stream, setup.number), start, max(start, end))
