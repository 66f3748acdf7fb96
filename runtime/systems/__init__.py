"""Where streams live: the embedded log and the memory, behind one contract."""

from ...dsl.checks import explain, require
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
        good = callable(getattr(target, "admin", None))
        require(good, UsageError, f"{target!r} is no system", "log:DIR, memory:, or a System", "write log:.fluvial")
        return target
    scheme, _, rest = target.partition(":")
    if scheme == "kafka":
        wrong = f"{target!r} names a Kafka broker, which this version cannot reach yet"
        raise UnsupportedError(explain(wrong, "log:DIR or memory:", "use log:DIR until a version with Kafka is out"))
    if scheme == "log" and rest:
        return LogSystem(rest)
    if target == "memory:":
        return MemorySystem()
    expected = "log:DIR (a folder, made at first use), or memory: (gone at the end)"
    raise UsageError(explain(f"{target!r} names no system", expected, "write for example log:.fluvial"))
