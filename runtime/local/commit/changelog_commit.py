"""Changelog commit, for systems that take records at once, as Kafka does: changes of state and checkpoints are records
too."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from itertools import chain

from msgspec.structs import replace

from ....dsl.message import Record
from ....planner.plan import Plan
from ....planner.settings import Settings
from ....planner.stream_names import checkpoints as checkpoints_of
from ....planner.task_assignment import TaskId
from ...kernel.state_backend import Change
from ...process.machine import THIS_MACHINE, Machine
from ...state.contract import TaskStore
from ...systems.contract import ProducingSystem, RecordProducer, StreamPartition
from ..background_work import Steps
from ..checkpoints.checkpoint import Checkpoint, Checkpoints, checkpoints_in, encode
from ..checkpoints.rescaled import rescaled
from ..journals.writers import ProducedJournal
from ..stores.store_keys import CHECKPOINT, META
from ..task_setup import TaskSetup
from .changelog import ChangelogRange, change_records, undo_records
from .contract import Committed, TaskCommit
from .restore import OnRestore, StoreRestorer, ignore_restore

# Each look is a request to brokers. What is waited for is the end of a transaction of a container that was fenced.
PAUSE_SECONDS = 0.1


def await_checkpoints(
    system: ProducingSystem,
    pipeline: str,
    producer: RecordProducer,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until readers see all checkpoints that are committed now.

    The transaction of a container that stands still in its commit hides those behind it from all others, and a task
    that resumed from an earlier one would do its work twice. It ends once that container goes on, is
    replaced, or has been silent for `transaction.timeout.ms`."""
    partition = checkpoints_of(pipeline), 0
    end = producer.ends([partition])[partition]
    while system.admin().ends(partition[0])[0] < end:
        sleep(PAUSE_SECONDS)


def longest_transaction(plan: Plan, settings: Settings) -> timedelta:
    """How long a transaction of a container may be open: a commit waits for the asynchronous calls in flight, of which
    half wait for the other half to end, and for those of each input that have waited for other calls of their keys."""
    parking = max((len(stage.inputs) for stage in plan.stages), default=0)
    calls = plan.pipeline.calls
    longest = sum(call.longest_ms * (2 + (parking if call.order == "key" else 0)) for call in calls)
    return settings.interval(seen_early=False) + timedelta(milliseconds=longest)


class ProducedOutputs:
    """Produces the outputs of a task at once, also while another thread flushes the producer."""

    size = 0

    def __init__(self, producer: RecordProducer) -> None:
        self._producer = producer

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Send records to a partition. They may be visible before the commit."""
        self._producer.send(stream, partition, records)


class ChangelogCommit:
    """Changelogs and checkpoints are one transaction of the container's transactional id. The stores are written after
    it: a store may be behind its checkpoint, and then catches up from the changelog (ADR 0018).

    The transactional id fences a process that was replaced: what it still sends to changelogs and checkpoints is
    refused.

    Under `exactly_once` outputs are part of that transaction. Under `at_least_once` outputs are sent through `outputs`
    and flushed before the transaction commits: a crash in between repeats outputs, and loses none.
    """

    early = True

    def __init__(
        self,
        pipeline: str,
        system: ProducingSystem,
        producer: RecordProducer,
        *,
        outputs: RecordProducer | None = None,
        on_restore: OnRestore = ignore_restore,
        machine: Machine = THIS_MACHINE,
        group_offsets: bool = True,
        journal: ProducedJournal | None = None,
    ) -> None:
        """`producer` has the container's transactional id. Without `outputs` the guarantee is `exactly_once`. `journal`
        writes what is in no transaction."""
        self.journal = journal
        self.together = outputs is None
        self._outputs = producer if outputs is None else outputs
        self._pipeline = pipeline
        self._stream = checkpoints_of(pipeline)
        self._system = system
        self._stream_offsets = system.admin().offsets
        self._producer = producer
        self._restorer = StoreRestorer(system, on_restore, machine)
        self._read_offsets: dict[StreamPartition, dict[str, int]] = {}
        self._group_offsets = group_offsets
        if self.together:
            producer.begin()

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        """Nothing to do: each task restores the state of its operators from their changelogs."""

    def align(self, setups: Sequence[TaskSetup], checkpoints: Checkpoints) -> Checkpoints:  # noqa: ARG002
        """Return the checkpoints unchanged: each is in one transaction with its changelogs."""
        # A checkpoint and its changelogs are one transaction.
        return checkpoints

    def resume(self, setups: Sequence[TaskSetup], checkpoints: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        """Restore from the changelogs each store that is behind its checkpoint; return the checkpoint of each task."""
        resumed, beyond = self._restorer.restore(setups, checkpoints)
        if not self.together:
            stateful = [setup for setup in setups if setup.stateful]
            resumed.update(self._repair(beyond, stateful, resumed))
        return resumed

    def _repair(
        self, beyond: Sequence[ChangelogRange], setups: Sequence[TaskSetup], resumed: Mapping[str, Checkpoint]
    ) -> dict[str, Checkpoint]:
        """Undo the changes in changelogs that no checkpoint counts; returns the checkpoints of the tasks.

        Such changes come from versions whose commits were no transactions, and from a reset of checkpoints.
        """
        ranges = [span for span in beyond if span.start < span.end]
        if not ranges:
            return {}
        self._producer.begin()
        with closing(self._system.consumer(committed=True)) as consumer:
            for (stream, partition), records in undo_records(consumer, ranges, self._restorer.now()):
                self._producer.send(stream, partition, records)
        self._producer.flush()
        ends = self._producer.ends([span.partition for span in ranges])
        repaired = {setup.name: replace(_with_ends(resumed[setup.name], setup, ends), atomic=True) for setup in setups}
        self._send_checkpoints({name: now for name, now in repaired.items() if not now.blank})
        self._producer.commit()
        return repaired

    def staged_outputs(self) -> ProducedOutputs:
        """The outputs of one task: they are produced as they come."""
        return ProducedOutputs(self._outputs)

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        """Commit changelogs and checkpoints in one transaction, and then write the stores."""
        changes = {one.setup.name: list(one.changes) for one in commits if one.setup.stateful}
        if self.journal is not None:
            yield self.journal.flush
        # Outputs before the checkpoint that counts their inputs: a crash in between repeats them, and loses none.
        if not self.together:
            yield self._outputs.flush  # in a thread, perhaps, while a firing produces outputs
            self._producer.begin()
        partitions = [
            partition
            for one in commits
            for partition in self._produce_changes(one.setup, changes.get(one.setup.name, ()))
        ]
        yield self._producer.flush
        # Asked after the flush: brokers know the end of a changelog once they have its records.
        ends = (yield lambda: self._producer.ends(partitions)) if partitions else {}
        done = {one.setup.name: replace(_with_ends(one.checkpoint, one.setup, ends), atomic=True) for one in commits}
        data = self._send_checkpoints(done)
        self._send_successors(commits, done)
        yield self._producer.commit
        setups = [one.setup for one in commits]
        # After the transaction: a store that is behind catches up, one that is ahead would be rebuilt from nothing.
        self._write_stores([setup for setup in setups if setup.stateful], data, changes)
        # At once, since outputs of the next commit are sent as they come, within its transaction.
        if self.together:
            self._producer.begin()
        if self._group_offsets:
            self._report_offsets(commits, done)
        return [Committed(done[one.setup.name], one.staged_outputs) for one in commits]

    def _report_offsets(self, commits: Sequence[TaskCommit], done: Mapping[str, Checkpoint]) -> None:
        """Report the offsets of inputs to the consumer group: of each partition the least offset of the stages that
        read it. Those of tasks that leave are reported by their next container."""
        for setup in (one.setup for one in commits):
            for name, partition in setup.partitions.items():
                self._read_offsets.setdefault(partition, {})[setup.name] = done[setup.name].offsets.get(name, 0)
        own = {partition: offsets for partition, offsets in self._read_offsets.items() if offsets}
        least = {partition: min(offsets.values()) for partition, offsets in own.items()}
        self._stream_offsets.report(self._pipeline, least)
        for setup in (one.setup for one in commits if one.successors):
            for partition in setup.partitions.values():
                del self._read_offsets[partition][setup.name]

    def _produce_changes(self, setup: TaskSetup, changes: Sequence[Change]) -> list[StreamPartition]:
        """Produce the changes of a task to its changelogs. Returns the partitions that got records."""
        partitions = {operator: (stream, setup.number) for operator, stream in setup.changelogs.items()}
        sent = set()
        for operator, records in change_records(changes, setup.store, self._restorer.now()):
            self._producer.send(*partitions[operator], records)
            sent.add(partitions[operator])
        return sorted(sent)

    def _write_stores(
        self, setups: Sequence[TaskSetup], data: Mapping[str, bytes], changes: Mapping[str, Sequence[Change]]
    ) -> None:
        for setup in setups:
            self._write(setup, data[setup.name], changes[setup.name])

    def _write(self, setup: TaskSetup, checkpoint: bytes, changes: Sequence[Change]) -> None:
        """Write changes of state to a task's store, and the checkpoint that counts them, in one write."""
        setup.store.write(chain(changes, [(META, CHECKPOINT, checkpoint), self._restorer.last_use()]))

    def _send_checkpoints(self, tasks: Mapping[str, Checkpoint]) -> dict[str, bytes]:
        """Send the checkpoints of tasks, by name; returns their bytes."""
        data = {name: encode(now) for name, now in tasks.items()}
        self._producer.send(
            self._stream, 0, [(name.encode(), value, self._restorer.now(), ()) for name, value in data.items()]
        )
        return data

    def _send_successors(self, commits: Sequence[TaskCommit], done: Mapping[str, Checkpoint]) -> None:
        """Send the checkpoints of the tasks that take the place of others, and remove those of the others. Last, so
        that whoever reads them one by one does not miss a task."""
        owners = {task: owner for one in commits if one.replaced for task, owner in one.successors.items()}
        if not owners:
            return
        replaced = [one.setup.name for one in commits if one.replaced]
        checkpoints = rescaled([*map(TaskId.parse, replaced)], [*map(TaskId.parse, owners)], done)
        self._send_checkpoints({task.name: replace(one, owner=owners[task.name]) for task, one in checkpoints.items()})
        self._producer.send(self._stream, 0, [(task.encode(), None, self._restorer.now(), ()) for task in replaced])

    def checkpoints(self) -> Checkpoints:
        """The last checkpoints in the stream of checkpoints."""
        return checkpoints_in(self._system, self._pipeline)

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Let the brokers remove the records before these offsets."""
        self._producer.trim(starts)


def _with_ends(checkpoint: Checkpoint, setup: TaskSetup, ends: Mapping[StreamPartition, int]) -> Checkpoint:
    """A checkpoint with the `ends` of those changelogs of its task that got records."""
    partitions = {operator: (stream, setup.number) for operator, stream in setup.changelogs.items()}
    news = {operator: ends[partition] for operator, partition in partitions.items() if partition in ends}
    return replace(checkpoint, changelogs={**checkpoint.changelogs, **news}) if news else checkpoint
