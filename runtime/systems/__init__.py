"""The systems that store streams, behind one contract: Kafka, the embedded log, and memory.

Comes in: records, by stream and partition. Goes out: batches of records from an offset on, and checkpoints. Engines
use the protocols of `contract` alone. Read `contract` first, then `memory`, the smallest system."""

from functools import partial

from ...dsl.errors import UsageError
from ...dsl.validation import explain, require
from ...dsl.verb_calls import explained_call
from .contract import System
from .kafka import KafkaSystem
from .log import LogSystem
from .memory import MemorySystem

DEFAULT_SYSTEM = "log:.fluvial"

__all__ = ["DEFAULT_SYSTEM", "KafkaSystem", "LogSystem", "MemorySystem", "System", "open_system"]


@partial(explained_call, error=UsageError)
def open_system(target: str | System) -> System:
    """The system of a URL, `log:DIR`, `memory:` or `kafka://HOST:PORT`; a system is returned as it is.

    `memory:` is a new, empty one each time. A cluster that wants TLS or SASL is a `KafkaSystem`, with settings. Raises
    UsageError for other forms.

    >>> open_system("log:.fluvial").url
    'log:.fluvial'
    """
    if not isinstance(target, str):
        good = callable(getattr(target, "admin", None))
        require(
            good,
            UsageError,
            f"{target!r} is no system",
            "log:DIR, memory:, kafka://HOST:PORT, or a System",
            "write log:.fluvial",
        )
        return target
    scheme, _, rest = target.partition(":")
    if scheme == "kafka":
        return KafkaSystem.named(target)
    if scheme == "log" and rest:
        return LogSystem(rest)
    if target == "memory:":
        return MemorySystem()
    expected = "log:DIR (a folder, made at first use), kafka://HOST:PORT, or memory: (gone at the end)"
    raise UsageError(explain(f"{target!r} names no system", expected, "write for example log:.fluvial"))
