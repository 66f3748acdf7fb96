"""Where streams live: the embedded log and the memory, behind one contract."""

from ...dsl.errors import UnsupportedError, UsageError
from .contract import System
from .log import LogSystem
from .memory import MemorySystem

__all__ = ["LogSystem", "MemorySystem", "System", "open_system"]


def open_system(target: str | System) -> System:
    """The system of a URL, `log:DIR` or `memory:`; a system is returned as it is.

    `memory:` is a new, empty one each time. Raises UsageError for other forms, and UnsupportedError for Kafka.

    >>> open_system("log:.fluvial").url
    'log:.fluvial'
    """
    if not isinstance(target, str):
        return target
    scheme, _, rest = target.partition(":")
    if scheme == "kafka":
        raise UnsupportedError(
            f"{target!r} names a Kafka broker, which this version cannot reach yet. "
            "Expected log:DIR or memory:. Use log:DIR until a version with Kafka is out."
        )
    if scheme == "log" and rest:
        return LogSystem(rest)
    if target == "memory:":
        return MemorySystem()
    raise UsageError(
        f"{target!r} names no system. Expected log:DIR (a directory, made at first use), or memory: (gone at the end). "
        "Write for example log:.fluvial."
    )
