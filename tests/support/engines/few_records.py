"""A system that gives few records at a time, so that the inputs of a task mix."""

from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.memory import MemoryConsumer

MOST = 3


class FewRecords(MemorySystem):
    """Gives so many records of a partition at a time."""

    def consumer(self, *, max_records: int = MOST) -> MemoryConsumer:
        return super().consumer(max_records=min(max_records, MOST))
