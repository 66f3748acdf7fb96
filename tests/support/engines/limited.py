"""A system in memory whose streams limit their records, as those of a broker do, and which takes no larger ones."""

from collections.abc import Collection, Mapping, Sequence

from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.size_limit import SizeLimit, record_bytes
from fluvial.runtime.systems.memory import MemoryAdmin, MemoryProducer, MemorySystem, MemoryTransaction


def limits_of(largest: Mapping[str, int], streams: Collection[str]) -> dict[str, SizeLimit]:
    """The limits of those of these streams that have one."""
    return {name: SizeLimit(largest[name], "raise it") for name in streams if name in largest}


def refuse_larger(largest: Mapping[str, int], stream: str, records: Sequence[Record]) -> None:
    """Raise SystemProblem for a record that is larger than its stream takes."""
    for key, value, _, headers in records:
        size = record_bytes(key, value, headers)
        if size > largest.get(stream, size):
            raise SystemProblem(f"a record of {size} bytes for {stream}, which takes {largest[stream]}")


class LimitedMemory(MemorySystem):
    """Its streams take records of so many bytes, by stream."""

    def __init__(self, largest: Mapping[str, int]) -> None:
        super().__init__()
        self._largest = largest

    def admin(self) -> MemoryAdmin:
        return _LimitedAdmin(self._memory, self._largest)

    def producer(self, name: str = "") -> MemoryProducer:
        del name
        return _LimitedProducer(self._memory, self._largest)


class _LimitedAdmin(MemoryAdmin):
    def __init__(self, memory: object, largest: Mapping[str, int]) -> None:
        super().__init__(memory)  # type: ignore[arg-type]
        self._largest = largest

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        return limits_of(self._largest, streams)


class _LimitedProducer(MemoryProducer):
    def __init__(self, memory: object, largest: Mapping[str, int]) -> None:
        super().__init__(memory)  # type: ignore[arg-type]
        self._largest = largest

    def begin(self) -> MemoryTransaction:
        return _LimitedTransaction(self._memory, self._largest)


class _LimitedTransaction(MemoryTransaction):
    def __init__(self, memory: object, largest: Mapping[str, int]) -> None:
        super().__init__(memory)  # type: ignore[arg-type]
        self._largest = largest

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        refuse_larger(self._largest, stream, records)
        super().append(stream, partition, records)
