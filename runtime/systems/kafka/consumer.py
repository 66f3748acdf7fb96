"""The consumer: reads partitions of topics from given offsets on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..contract import RecordBatch, StreamPartition
from ..errors import offset_outside
from .clients import ConnectionMonitor, consumer_client
from .cluster import Cluster
from .errors import GONE, TRANSIENT, out_of_reach, refused, starved
from .prefetch import MAX_PREFETCHED_BYTES, PrefetchBuffer
from .settings import KafkaSettings

MAX_MESSAGES_AT_ONCE = 1000
"""Messages taken from the client in one call. Larger calls cost more for each message."""

_LOOK_AFTER = 30.0
"""Seconds between two checks that the topics still exist: the client reports no error for a removed topic."""

_SLICE = 0.2
"""The longest wait in the client, in seconds. Signals and the connection are checked between two waits."""

_IGNORED = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._MAX_POLL_EXCEEDED})
"""Errors of the consumer group. The client requires a group, but this consumer does not use it."""


class KafkaConsumer:
    """Reads partitions of topics from given offsets on. For one thread at a time.

    Messages of a partition that is not wanted are buffered up to a bound; then the partition is paused.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        max_records: int,
        max_prefetched_bytes: int = MAX_PREFETCHED_BYTES,
        make: Callable[[KafkaSettings, ConnectionMonitor], Consumer] = consumer_client,
    ) -> None:
        self._make = make
        self._settings = cluster.settings
        self._count = min(max_records, MAX_MESSAGES_AT_ONCE)
        self._max_prefetched_bytes = max_prefetched_bytes
        self._cluster = cluster
        self._clock = cluster.machine.clock
        self._monitor = ConnectionMonitor(cluster.machine.clock)
        self._client: Consumer | None = None
        self._stream: str | None = None
        self._next_look = 0.0
        self._buffers: dict[StreamPartition, PrefetchBuffer] = {}
        self._ready: dict[StreamPartition, PrefetchBuffer] = {}
        self._starved: dict[tuple[StreamPartition, int], float] = {}

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        """Read these partitions from these offsets on, in place of those assigned before. One that goes on where its
        last batch has ended keeps what the client has fetched, so that its reader does not wait.

        Raises SystemProblem for a topic or partition that does not exist, and for an offset outside of it.
        """
        staying = {
            partition: buffer for partition, buffer in self._buffers.items() if positions.get(partition) == buffer.taken
        }
        added = {partition: offset for partition, offset in positions.items() if partition not in staying}
        self._check(added)
        removed = {partition: buffer for partition, buffer in self._buffers.items() if partition not in staying}
        self._buffers = staying | {partition: PrefetchBuffer(partition, offset) for partition, offset in added.items()}
        self._ready = {partition: buffer for partition, buffer in self._ready.items() if partition in staying}
        streams = {stream for stream, _ in positions}
        self._stream = streams.pop() if len(streams) == 1 else None
        if not staying:  # what comes besides was looked for just now
            self._next_look = self._clock() + _LOOK_AFTER
        self._change(added, removed, anew=not staying)

    def _check(self, positions: Mapping[StreamPartition, int]) -> None:
        self._cluster.check(positions)
        starts, ends = self._cluster.offsets.starts(positions), self._cluster.offsets.log_ends(positions)
        for partition, offset in positions.items():
            if not starts[partition] <= offset <= ends[partition]:
                raise offset_outside(*partition, offset, starts[partition], ends[partition], self._settings.url)

    def _change(
        self, added: Mapping[StreamPartition, int], removed: Mapping[StreamPartition, PrefetchBuffer], *, anew: bool
    ) -> None:
        """Let the client read these partitions besides, and those no longer; `anew`, no others."""
        if self._client is None:
            self._client = self._make(self._settings, self._monitor)
        if paused := [buffer.topic_partition for buffer in removed.values() if buffer.paused]:
            self._client.resume(paused)  # else they would be paused still when they are assigned again
        partitions = [TopicPartition(*partition, offset) for partition, offset in added.items()]
        if anew:
            self._client.assign(partitions)
            return
        if removed:
            self._client.incremental_unassign([TopicPartition(*partition) for partition in removed])
        if added:
            self._client.incremental_assign(partitions)

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        """Return the next batches, at most one a partition. Wait up to `timeout` seconds if there are none."""
        if self._client is None:
            return []
        batches = self._take(wanted)
        deadline: float | None = None
        while not batches:
            messages = self._client.consume(self._count, 0)
            if not messages:
                now = self._clock()
                self._check_cluster(now)
                deadline = now + timeout if deadline is None else deadline
                if now >= deadline:
                    return []
                # `consume` would wait for `_count` messages or the whole time; `poll` returns with the first message.
                message = self._client.poll(min(deadline - now, _SLICE))
                messages = [] if message is None else [message]
            if messages:
                self._sort(messages, wanted)
                batches = self._take(wanted)
        return batches

    @property
    def paused(self) -> frozenset[StreamPartition]:
        """The partitions that are not fetched, because their buffers are full."""
        return frozenset(partition for partition, buffer in self._buffers.items() if buffer.paused)

    def close(self) -> None:
        """Stop reading."""
        client, self._client = self._client, None
        self._buffers, self._ready = {}, {}
        if client is not None:
            client.close()

    def _take(self, wanted: frozenset[StreamPartition] | None) -> list[RecordBatch]:
        """The next batch of each wanted partition that has one."""
        batches: list[RecordBatch] = []
        resumed: list[TopicPartition] = []
        for partition, buffer in list(self._ready.items()):
            if wanted is None or partition in wanted:
                batches.append(buffer.take())
                if not buffer:
                    del self._ready[partition]
                    if buffer.paused:
                        buffer.paused = False
                        resumed.append(buffer.topic_partition)
        if resumed and self._client is not None:
            self._client.resume(resumed)
        return batches

    def _sort(self, messages: list[Message], wanted: frozenset[StreamPartition] | None) -> None:
        """Put messages into the buffers of their partitions, and handle the errors among them."""
        self._monitor.answered()
        if not any(map(Message.error, messages)):
            self._put(messages, wanted)
            return
        start = 0
        for index, message in enumerate(messages):
            error = message.error()
            if error is not None:
                self._put(messages[start:index], wanted)
                self._handle_error(error, message)
                start = index + 1
        self._put(messages[start:], wanted)

    def _put(self, messages: Sequence[Message], wanted: frozenset[StreamPartition] | None) -> None:
        for partition, run in _runs(messages, self._stream):
            buffer = self._buffers.get(partition)
            if buffer is not None:
                buffer.put(run, weigh=bool(buffer) or not (wanted is None or partition in wanted))
                self._ready[partition] = buffer
                if buffer.bytes > self._max_prefetched_bytes and not buffer.paused and self._client is not None:
                    buffer.paused = True
                    self._client.pause([buffer.topic_partition])

    def _handle_error(self, error: KafkaError, message: Message) -> None:
        """Handle an error that came in place of a message; one of them marks the end of a partition."""
        partition = (message.topic() or "", message.partition() or 0)
        code = error.code()
        buffer = self._buffers.get(partition)
        if code not in TRANSIENT and self._is_left(partition):
            return  # the client had it in its queue as the partition was assigned no longer
        if code == KafkaError._PARTITION_EOF:
            if buffer is not None:
                buffer.passed(message.offset() or 0)
                if buffer:
                    self._ready[partition] = buffer
        elif code == KafkaError._AUTO_OFFSET_RESET and buffer is not None:
            start, end = (
                self._cluster.offsets.starts([partition])[partition],
                self._cluster.offsets.log_ends([partition])[partition],
            )
            raise offset_outside(*partition, buffer.position, start, end, self._settings.url)
        elif code in GONE:
            self._cluster.check([partition])  # which raises, unless it has come back meanwhile
        elif code in TRANSIENT:
            self._monitor(error)
        elif code not in _IGNORED:
            raise refused(self._settings, f"give messages of {partition[0]!r}, partition {partition[1]}", error)

    def _is_left(self, partition: StreamPartition) -> bool:
        """Whether an error is of a partition that is not read any more. Some are of all partitions of a topic."""
        stream, number = partition
        of_topic = number < 0 and stream in {one for one, _ in self._buffers}
        return stream != "" and partition not in self._buffers and not of_topic

    def _check_cluster(self, now: float) -> None:
        """Raise SystemProblem where no broker was connected for too long, or a topic was removed."""
        patience = self._settings.give_up_after
        away = self._monitor.seconds_down > patience
        if self._client is None or not (away or now > self._next_look):
            return
        self._next_look = now + _LOOK_AFTER
        try:
            # Brokers close idle connections, too; so send a request before giving up.
            known = self._client.list_topics(timeout=5.0 if away else 1.0).topics
        except KafkaException as caught:
            if away:
                raise out_of_reach(self._settings, patience, self._monitor.last or caught.args[0].str()) from None
        else:
            self._monitor.answered()
            for stream in {stream for stream, _ in self._buffers} - {*known}:
                self._cluster.topic(stream)  # which raises, unless it has come back meanwhile
        self._check_starved(now)

    def _check_starved(self, now: float) -> None:
        """Raise SystemProblem where a partition has messages, and none has come for too long since the client ran out
        of file descriptors. Other connections may answer, and the client reports the same error but once in 30 s."""
        why = self._monitor.exhausted
        if not why:
            self._starved.clear()
            return
        empty = {partition: buffer.position for partition, buffer in self._buffers.items() if not buffer}
        ends = self._cluster.offsets.ends(empty)
        waiting = [(partition, position) for partition, position in empty.items() if ends[partition] > position]
        self._starved = {key: self._starved.get(key, now) for key in waiting}
        for (partition, _), since in self._starved.items():
            if now - since > self._settings.give_up_after:
                raise starved(self._settings, partition, self._settings.give_up_after, why)


def _runs(messages: Sequence[Message], stream: str | None) -> Iterator[tuple[StreamPartition, Sequence[Message]]]:
    """Split messages where the partition changes, in order. `stream` is given if all messages are of one topic."""
    for partition, group in groupby(messages, Message.partition):
        run = list(group)
        if stream is not None:
            yield (stream, partition or 0), run
        else:
            for topic, part in groupby(run, Message.topic):
                yield (topic or "", partition or 0), list(part)
