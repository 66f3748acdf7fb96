"""The systems that store streams, behind one contract: Kafka, the embedded log, and memory.

Comes in: records, by stream and partition. Goes out: batches of records from an offset on, and checkpoints. Engines
use the protocols of `contract` alone. Read `contract` first, then `memory`, the smallest system."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .contract import System
    from .kafka import KafkaSystem
    from .log import LogSystem
    from .memory import MemorySystem
    from .system_url import DEFAULT_SYSTEM, open_system

__all__ = ["DEFAULT_SYSTEM", "KafkaSystem", "LogSystem", "MemorySystem", "System", "open_system"]

# Imported when they are used: most processes, such as the workers of Spark, need one system or none.
_HOMES = {
    "DEFAULT_SYSTEM": ".system_url",
    "KafkaSystem": ".kafka",
    "LogSystem": ".log",
    "MemorySystem": ".memory",
    "System": ".contract",
    "open_system": ".system_url",
}

if not TYPE_CHECKING:  # with `__getattr__` type checkers would accept any name
    __getattr__ = lazy_names(__name__, _HOMES)
