"""Systems by their URLs."""

from functools import partial

from ...dsl.errors import UsageError
from ...dsl.validation import explain, require
from ...dsl.verb_calls import explained_call
from .contract import System

DEFAULT_SYSTEM = "log:.fluvial"


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
    # Each when it is asked for: the client of Kafka takes longer to load than all the rest.
    if scheme == "kafka":
        from .kafka import KafkaSystem  # noqa: PLC0415

        return KafkaSystem.named(target)
    if scheme == "log" and rest:
        from .log import LogSystem  # noqa: PLC0415

        return LogSystem(rest)
    if target == "memory:":
        from .memory import MemorySystem  # noqa: PLC0415

        return MemorySystem()
    expected = "log:DIR (a folder, made at first use), kafka://HOST:PORT, or memory: (gone at the end)"
    raise UsageError(explain(f"{target!r} names no system", expected, "write for example log:.fluvial"))
