"""The memory that this process takes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MEMORY = "process_resident_memory_bytes"


class ProcessMemory:
    """Reads how much memory this process takes."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        """With a `registry`, the figures of the process are served with it."""
        from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415 - takes long to load

        self._process = ProcessCollector(registry=registry or CollectorRegistry())

    def resident(self) -> int | None:
        """Resident memory in bytes; None where the operating system does not report it."""
        families = self._process.collect()
        values = (sample.value for family in families for sample in family.samples if sample.name == MEMORY)
        resident = next(values, None)
        return None if resident is None else int(resident)
