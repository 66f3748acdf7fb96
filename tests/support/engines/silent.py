"""Systems whose consumers leave out what a test must never see arrive; all else is as in the system they stand for."""

from collections.abc import Sequence

from fluvial.dsl.message import Record
from fluvial.runtime.kernel.time.border_watermarks import read_control
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.systems.contract import RecordBatch, StreamPartition
from fluvial.runtime.systems.log.consumer import LogConsumer
from fluvial.runtime.systems.memory import MemoryConsumer, MemoryProducer, MemoryTransaction

Wanted = frozenset[StreamPartition] | None


class SilentMemory(MemorySystem):
    """What is written here never arrives."""

    def consumer(self, *, max_records: int = 10_000) -> MemoryConsumer:
        return _SilentConsumer(self._memory, max_records)


class _SilentConsumer(MemoryConsumer):
    def poll(self, timeout: float = 0.0, wanted: Wanted = None) -> list[RecordBatch]:
        del timeout, wanted
        return []


class EndlessMemory(MemorySystem):
    """The ends of intermediate streams are lost as they are written."""

    def producer(self, name: str = "") -> MemoryProducer:
        del name
        return _EndlessProducer(self._memory)


class _EndlessProducer(MemoryProducer):
    def begin(self) -> MemoryTransaction:
        return _EndlessTransaction(self._memory)


class _EndlessTransaction(MemoryTransaction):
    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        super().append(stream, partition, [record for record in records if not _ends(record)])


def _ends(record: Record) -> bool:
    """Whether a record says that an intermediate stream ends."""
    headers = record[3]
    control = read_control(headers[-1][1]) if headers else None
    return control is not None and bool(control.ended)


class SilentLog(LogSystem):
    """What is written to the stream `in` never arrives; what containers tell each other does."""

    def consumer(self, *, max_records: int = 10_000) -> LogConsumer:
        return _SilentLogConsumer(self.directory, max_records=max_records)


class _SilentLogConsumer(LogConsumer):
    def poll(self, timeout: float = 0.0, wanted: Wanted = None) -> list[RecordBatch]:
        return [batch for batch in super().poll(timeout, wanted) if batch.stream != "in"]
