"""The journal of an operator's calls: results are kept until their messages are committed, so that no call that was
made, and paid, before a crash is made again (ADR 0066)."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

import msgspec

from ....dsl.errors import SystemProblem
from ....dsl.serde import Serde
from ....dsl.text import error_text, visible
from ....dsl.validation import explain
from .call import Call
from .in_flight import InFlightMessage
from .message_origin import RecordOrigin, origin_of
from .ordered_queues import OrderedQueues

_log = logging.getLogger(__name__)
# Deterministic: the name of a call has to come out the same in the process that makes the call again.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_unsorted = msgspec.msgpack.Encoder().encode
_decode_results = msgspec.msgpack.Decoder(list[bytes | None]).decode


class KeptResults(Protocol):
    """Where the results of an operator's calls are kept, by the names of calls."""

    def take(self, name: bytes) -> bytes | None:
        """The results that were kept under a name, once; None if there are none."""
        ...

    def keep(self, name: bytes, results: bytes) -> None:
        """Keep the results of a call that has ended. Returns at once; an error shows at the next commit."""
        ...


class MessageName(NamedTuple):
    """What tells a call from all others of its operator: the record that its message came from, the number of the call
    among those of the message, and a digest of what was passed to the function: in front of the call may stand a
    function that gives other values after a crash, or the same in another order."""

    stream: str
    partition: int
    offset: int
    argument: bytes
    path: Any


class PaneName(NamedTuple):
    """What tells a call for a pane from others: the window, a digest of its key, its times, the `run` whose end of
    input has fired it, if one has, and a digest of what was passed to the function: a window that fires again after a
    crash may have other messages in it."""

    window: str
    key: bytes
    start: int
    end: int
    run: str
    argument: bytes
    path: Any


def call_names(
    inputs: Collection[str], windows: Collection[str], run: str | None
) -> Callable[[InFlightMessage, Call], bytes | None]:
    """A function that names the calls for messages of these inputs, and for on-time panes of these windows, in bytes
    that are the same after a crash; None for other messages. `run` is as in `origin_of`. The function raises what the
    encoder does where the argument of a call, or the key of its pane, cannot be encoded."""

    def name(message: InFlightMessage, call: Call) -> bytes | None:
        origin = origin_of(message, inputs, windows, run)
        if origin is None:
            return None
        argument = _digest(call.value)
        if isinstance(origin, RecordOrigin):
            return _encode(MessageName(*origin, argument, call.path))
        return _encode(PaneName(*origin._replace(key=_digest(origin.key)), argument, call.path))

    return name


_decode_message = msgspec.msgpack.Decoder(MessageName).decode
_decode_pane = msgspec.msgpack.Decoder(PaneName).decode
# The two kinds of names have different lengths, by which they are told apart.
_PANE = bytes([0x90 + len(PaneName._fields)])  # how an array of so many begins


def named(name: bytes) -> MessageName | PaneName:
    """Decode the name of a call. Raises DecodeError or UnicodeDecodeError for bytes that are no such name."""
    return _decode_pane(name) if name[:1] == _PANE else _decode_message(name)


def _digest(value: Any) -> bytes:
    """16 bytes that name a value by its content and the name of its type. Raises TypeError for a value that msgpack
    cannot encode. Its `repr` would not do: it may contain an address, or leave a part out."""
    try:
        data = _encode(value)
    except TypeError:  # keys of a dictionary that are no strings cannot be put in an order
        data = _encode_unsorted(value)
    return hashlib.blake2b(type(value).__qualname__.encode() + b"\0" + data, digest_size=16).digest()


class CallJournal:
    """The journal of one operator in one task: it names calls, encodes their results, and decodes those that were
    kept. `label` is the operator in errors, and `origin` its line."""

    def __init__(
        self,
        label: str,
        origin: object,
        serde: Serde[Any],
        name: Callable[[InFlightMessage, Call], bytes | None],
        results: KeptResults,
    ) -> None:
        self._label, self._origin = label, origin
        self._serde = serde
        self._name = name
        self._results = results
        self._warned: set[str] = set()

    def answered(self, call: Call) -> bool:
        """Name a call, and look up results that were kept under its name. Returns whether there are any: the call has
        them then. A call whose argument cannot be encoded gets no name, and its results are not kept."""
        try:
            call.name = self._name(call.item[2], call)
        except Exception as error:  # whatever a user's value raises
            self._warn("%s: results are not kept where what the function is given cannot be encoded: %s", error)
        data = None if call.name is None else self._results.take(call.name)
        if data is None:
            return False
        try:
            call.results = [None if one is None else self._serde.decode(one) for one in _decode_results(data)]
        except SystemProblem:
            raise
        # Of a Serde, whatever it raises: the results may be of an earlier version of the function.
        except Exception as error:
            text = f"%s: kept results are not of {self._serde.name} any more, and their calls are made again: %s"
            self._warn(text, error)
            return False
        return True

    def keep(self, call: Call) -> None:
        """Keep the results of a call that was made. The call fails if they cannot be encoded: after a crash it would be
        made, and paid, again."""
        if call.name is None:
            return
        try:
            data = _encode_unsorted([None if one is None else self._serde.encode(one) for one in call.results])
        except Exception as error:
            wrong = f"{self._label}: a result cannot be kept in the journal: {error_text(error)}"
            expected, remedy = f"results of {self._serde.name}", "return these, or pass result= with their type"
            call.results, call.error = [], ValueError(explain(wrong, expected, remedy, self._origin))
            return
        self._results.keep(call.name, data)

    def _warn(self, text: str, error: Exception) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning(text, self._label, visible(error_text(error)))


class JournalledQueues(OrderedQueues):
    """Queues of calls with a journal. A call whose results were kept is not made, and ends in its turn.
    The results of other calls are kept as soon as these end, before their turn to be delivered."""

    __slots__ = ("_closed", "_journal", "_make")

    def __init__(
        self,
        order: str,
        share: int,
        begin: Callable[[Call], None],
        deliver: Callable[[Call], None],
        journal: CallJournal,
    ) -> None:
        super().__init__(order, share, self._begin_or_answer, deliver)
        self._make, self._journal, self._closed = begin, journal, False

    def end(self, call: Call) -> None:
        """A call has ended: keep its results, and deliver it once it is the first of its queue."""
        if call.error is None:
            self._journal.keep(call)
        super().end(call)

    def clear(self) -> None:
        """Forget the calls that are parked, and those that were answered and not delivered."""
        # An answer that waits for the next turn of the loop would otherwise be delivered to a task that is closed.
        self._closed = True
        super().clear()

    def _begin_or_answer(self, call: Call) -> None:
        if self._journal.answered(call):
            # Not at once: the message of this call is still being fed to the stage.
            asyncio.get_running_loop().call_soon(self._answer, call)
        else:
            self._make(call)

    def _answer(self, call: Call) -> None:
        if not self._closed:
            super().end(call)


def queues_for(
    order: str,
    share: int,
    begin: Callable[[Call], None],
    deliver: Callable[[Call], None],
    journal: CallJournal | None,
) -> OrderedQueues:
    """The queues of a pool, with a journal in front of them if it has one."""
    if journal is None:
        return OrderedQueues(order, share, begin, deliver)
    return JournalledQueues(order, share, begin, deliver, journal)
