"""Keys of calls: a name for what a call is to do that is the same when it is made again, also after a crash."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any

from ....dsl.errors import UsageError
from ....dsl.validation import explain
from .call import Call
from .in_flight import InFlightMessage
from .message_origin import origin_of

KeysOfCall = Callable[[], Sequence[str]]
"""Returns the keys of a call, one for each of its messages."""

_CALL: ContextVar[Callable[[], KeysOfCall]] = ContextVar("fluvial_call")
"""Returns what gives the keys of the call that this code runs in."""


def call_key() -> str:
    """A key for the call of an `async_flat_map` in whose function this is called, of a function of a remote table, or
    of an `AsyncStreamTask`: 32 hexadecimal digits, for services that do once what they are asked twice under one key
    (an `Idempotency-Key`).

    Attempts of one call have the same key, and so has the call when it is made again after a crash, on either engine
    and at any elasticity. No two calls have the same. It comes from the names of the pipeline and the operator, and the
    partition and offset of the message; behind a window, from the key and the window of the pane.

    Raises UsageError outside of such a function; in one with `batch=`, which has a key for each message: see
    `call_keys`; and for messages that nothing names the same after a crash: see `remote-calls` in the guide.

    >>> async def charge(order: str) -> list[str]:
    ...     return [call_key()]
    >>> pipeline = Pipeline("shop")
    >>> pipeline.stream("orders", value=str).async_flat_map(charge, id="charge").send_to("keys", value=str)
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("orders", "tea")
    ...     len(driver.read("keys")[0].value)
    32
    """
    keys = call_keys()
    if len(keys) != 1:
        wrong = "call_key() in the function of a batch"
        raise UsageError(explain(wrong, "a key for each message", "call call_keys(), which returns a list"))
    return keys[0]


def call_keys() -> list[str]:
    """The keys of the messages of a call with `batch=`, in the order of its values, or of the rows of a remote table:
    see `call_key`. Without `batch=` it is a list with one key.

    >>> async def charge(orders: list[str]) -> list[list[str]]:
    ...     return [[key] for key in call_keys()]
    >>> pipeline = Pipeline("shop")
    >>> orders = pipeline.stream("orders", value=str)
    >>> orders.async_flat_map(charge, id="charge", batch=Batch(size=10)).send_to("keys", value=str)
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("orders", "tea")
    ...     driver.end().written
    {'keys': 1}
    """
    return [*present_keys()()]


def offer_call(at_hand: Callable[[], KeysOfCall]) -> None:
    """Let `call_keys` return the keys of the call that is at hand when it is called, in the present context and in
    those that are copied from it."""
    _CALL.set(at_hand)


def offer_keys(keys: KeysOfCall) -> None:
    """Let `call_keys` return these in the present context, and in those that are copied from it."""
    _CALL.set(lambda: keys)


def present_keys() -> KeysOfCall:
    """The keys of the call that this code runs in, for tasks that it starts: these ask for them later, if at all."""
    at_hand = _CALL.get(None)
    return _no_keys if at_hand is None else at_hand()


def _no_keys() -> Sequence[str]:
    raise _outside()


def keys_of(call: Call | None, origin: Callable[[InFlightMessage], str]) -> list[str]:
    """The keys of a call, or of the calls of a batch; raises UsageError if there is none."""
    if call is None or call.item is None:  # of an executor, which names no messages
        raise _outside()
    calls: list[Call] = call.item if isinstance(call.item, list) else [call]
    return [digest(origin(one.item[2]), one.path) for one in calls]


def _outside() -> UsageError:
    wrong = "call_key() outside of the call of an async_flat_map, and of a function of a remote table"
    remedy = "call it in that function itself, before it starts tasks or threads, and pass the key on"
    return UsageError(explain(wrong, "code that runs in a call", remedy))


def digest(*parts: Any) -> str:
    """32 hexadecimal digits that name these parts."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def origins(
    operator: tuple[str, str], sources: Collection[str], windows: Collection[str], run: str | None
) -> Callable[[InFlightMessage], str]:
    """A function that names a message in front of an operator: the same after a crash, and as no other message.

    `operator` has the names of its pipeline and its own. `sources` are the inputs whose partitions and offsets stay,
    `windows` the operators that emit panes; `run` is as in `origin_of`. The function raises UsageError for other
    messages."""

    def origin(message: InFlightMessage) -> str:
        parts = origin_of(message, sources, windows, run)
        if parts is not None:
            return repr((operator, *parts))
        wrong = f"call_key() for a message of {message.queue.start}"
        expected = "one of a source that is read by the same stage, or an on-time pane of a window there"
        raise UsageError(explain(wrong, expected, "give the messages an id of your own before, and use that"))

    return origin


def unnamed(_: InFlightMessage) -> str:
    """The origin of the messages of a pool that names none: raises UsageError."""
    raise _outside()
