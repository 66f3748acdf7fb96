"""The producer of tools and tests: stages records in memory, and writes them in one transaction of Kafka."""

from collections.abc import Mapping, Sequence

from ....dsl.message import Record
from ....planner import stream_names as names
from ..contract import StreamPartition
from ..errors import ended
from .admin import KafkaAdmin
from .cluster import Cluster, KnownTopics
from .record_producer import KafkaRecordProducer


class KafkaTransactionalProducer:
    """Writes to topics in transactions that are held in memory until they are committed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = KnownTopics(cluster)
        self._admin = KafkaAdmin(cluster)
        self._producer_client: KafkaRecordProducer | None = None

    def begin(self) -> "KafkaTransaction":
        """A new transaction; several may be open at once."""
        return KafkaTransaction(self)

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Allow the brokers to remove the records before these offsets: nobody reads them any more."""
        self._cluster.offsets.trim(starts)

    def close(self) -> None:
        """Drop what was staged."""
        if self._producer_client is not None:
            self._producer_client.close()
            self._producer_client = None

    def check(self, stream: str, partition: int) -> None:
        """Raise SystemProblem where a topic or partition does not exist."""
        self._topics.check(stream, partition)

    def write(
        self, staged: Mapping[StreamPartition, list[Record]], group: str, checkpoints: Mapping[str, bytes]
    ) -> None:
        """Make records and checkpoints visible together."""
        staged = dict(staged)
        if checkpoints:
            stream = names.checkpoints(group)
            self._admin.create(stream, 1, "checkpoints")
            staged[stream, 0] = [(task.encode(), value or None, -1, ()) for task, value in checkpoints.items()]
        if not staged:
            return
        if self._producer_client is None:
            self._producer_client = KafkaRecordProducer(self._cluster, f"fluvial-{self._cluster.machine.new_id()}")
        try:
            self._producer_client.begin()
            for partition, records in staged.items():
                self._producer_client.send(*partition, records)
            self._producer_client.commit()
            self._producer_client.await_readers(staged)
        except BaseException:
            self.close()  # aborts the transaction
            raise


class KafkaTransaction:
    """Records that become visible together."""

    def __init__(self, producer: KafkaTransactionalProducer) -> None:
        self._producer = producer
        self._staged: dict[StreamPartition, list[Record]] | None = {}
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of keys and values staged so far."""
        return self._size

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Stage records in order; raises SystemProblem where the topic or partition does not exist."""
        if self._staged is None:
            raise ended()
        if (stream, partition) not in self._staged:
            self._producer.check(stream, partition)
        if records:
            self._staged.setdefault((stream, partition), []).extend(records)
            self._size += sum(len(key or b"") + len(value or b"") for key, value, _, _ in records)

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        """Make everything visible, and write the checkpoints by task name, at once or not at all."""
        staged, self._staged = self._staged, None
        if staged is None:
            raise ended()
        self._producer.write(staged, group, checkpoints or {})
