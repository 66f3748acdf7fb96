"""Failed messages and firings: the run stops, or the failure is counted and may become a dead letter."""

import traceback
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ...dsl.errors import MessageError, SystemProblem
from ...dsl.message import Headers, Pane, Record
from ...dsl.operators import Operator
from ...dsl.origin import Origin
from ...dsl.pipeline import Pipeline
from ...dsl.processor import Timer
from ...dsl.text import error_text
from ...dsl.validation import explain
from ..process.interruptions import interruption
from ..process.resource_limits import exhausted, exhaustion_behind
from ..size_limit import SizeLimit, headers_bytes
from .code.returned_values import ReturnedValueError
from .code.source_text import FILE_PREFIX, operator_at
from .error_hints import hint
from .task_requests import HookCall

ERROR_HEADER = "fluvial-error"

LONGEST = 10_000
"""Characters of an error that are reported. One that quotes a large message makes a dead letter that no topic takes."""
KEPT = 64 << 10
"""Bytes of a value, of a key, and of headers that a dead letter has. The whole message is where it was read."""
_SHOWN = 200
"""Bytes of a key that an error shows."""
_PARTS = 8
"""Into so many parts the limit of a stream of dead letters is divided, where it is low. A letter has a value, a key,
headers and the text of an error, of which a character takes up to six bytes."""


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A failed message: its place in its stream, and the record as it was read."""

    stream: str
    partition: int
    offset: int
    record: Record


@dataclass(slots=True)
class Failures:
    """Failures of one task: their counts by operator, and the dead letters that are still to be written. `joining` has
    the ids of the operators that emit joined rows. `limit` is that of the stream of dead letters, if it has one."""

    pipeline: Pipeline
    counts: dict[str, int] = field(default_factory=dict)
    dead_letters: list[Record] = field(default_factory=list)
    joining: frozenset[str] = frozenset()
    limit: SizeLimit | None = None

    def message(self, failed: FailedRecord, error: BaseException, operator: str | None = None) -> None:
        """A message failed; raises `MessageError` under `on_error=fail()`."""
        key, value, timestamp, headers = failed.record
        place = f"{failed.stream}, partition {failed.partition}, offset {failed.offset}, key {_shown(key)}"
        at = {"stream": failed.stream, "partition": failed.partition, "offset": failed.offset}
        self._handle(
            error, operator or operator_of(error), f"the message at {place}", at, (key, value, timestamp, headers)
        )

    def firing(self, operator: str, key: bytes, value: Any, timestamp: int, error: BaseException) -> None:
        """A firing failed: a timer, or an operator behind a pane, a joined row or an output of a processor."""
        if isinstance(value, Pane):
            at = {"window": f"[{value.window.start}, {value.window.end})"}
            what = f"the pane of key {value.key!r}, window {at['window']}"
        elif self.pipeline.operator(operator).is_table:
            at = {"time": str(timestamp)}
            what = f"the change of key {_shown(key)} at time {timestamp}"
        elif isinstance(value, HookCall):
            at = {"time": str(timestamp), "method": value.name}
            what = f"its call of {value.name}, at time {timestamp}"
        elif isinstance(value, Timer) and operator_of(error) is None:
            at = {"time": str(timestamp), "timer": value.name}
            what = f"timer {value.name!r} of key {_shown(key)}, set to {timestamp}"
        else:
            at = {"time": str(timestamp)}
            joined = operator in self.joining
            emitted = f"what {self.pipeline.operator(operator).label} emitted for key {_shown(key)} at time {timestamp}"
            what = f"the rows of key {_shown(key)}, joined at time {timestamp}" if joined else emitted
        record: Record = (None if isinstance(value, HookCall) else key, None, timestamp, ())
        self._handle(error, operator_of(error) or operator, what, {**at, "firing": operator}, record)

    def _handle(self, error: BaseException, id: str | None, what: str, at: dict[str, Any], record: Record) -> None:
        # An error of a store is no failure of the message: the next message would fail as well.
        if isinstance(error, MessageError | SystemProblem):
            raise error
        # An interruption is not a failure of the message either.
        if stopped := interruption(error):
            raise stopped
        # Nor is a full disk: under skip(), all messages would be lost until there is space again.
        if (lack := exhaustion_behind(error)) is not None:
            raise exhausted(lack, f"what was done for {what}") from error
        operator = self.pipeline.operator(id) if id is not None else self.pipeline.operators[0]
        action = self.pipeline.on_error.action_for(error)
        if action == "fail":
            raise self._error(error, operator, what) from error
        self.counts[operator.id] = self.counts.get(operator.id, 0) + 1
        if action == "dead_letter":
            self.dead_letters.append(self._letter(record, self._headers(error, operator, at)))

    def _letter(self, record: Record, reasons: Headers) -> Record:
        """A dead letter: a record with the reasons of its failure, of which the long parts are cut."""
        most = KEPT if self.limit is None else min(KEPT, self.limit.largest // _PARTS)
        key, value, timestamp, headers = record
        sizes: Headers = ()
        if value is not None and len(value) > most:
            sizes += (("fluvial-value-size", b"%d" % len(value)),)
            value = _cut(value, most)
        if key is not None and len(key) > most:
            sizes += (("fluvial-key-size", b"%d" % len(key)),)
            key = _cut(key, most)
        if headers and (size := headers_bytes(headers)) > most:
            sizes += (("fluvial-headers-size", b"%d" % size),)
            headers = ()
        reasons = tuple((name, _cut(text, most)) for name, text in reasons)
        return key, value, timestamp, headers + reasons + sizes

    def _error(self, error: BaseException, operator: Operator, what: str) -> MessageError:
        frame = _user_frame(error.__traceback__)
        raised = f", raised at {frame}" if frame else ""
        advice = hint(self.pipeline, operator, error, users=frame is not None)
        wrong = f"{operator.label} failed on {what}: {advice.wrong}{_named(error)}{raised}"
        remedy = f"{advice.remedy}, or {self._permitting(error)}"
        return MessageError(explain(wrong, advice.expected, remedy, advice.at or operator.origin))

    def _permitting(self, error: BaseException) -> str:
        """What to do so that the run goes on after such an error."""
        policy = self.pipeline.on_error
        if policy.action == "fail":
            return "set Pipeline(on_error=skip()) or dead_letter()"
        return f"add {type(error).__name__} to on= of {policy.action}()"

    def _headers(self, error: BaseException, operator: Operator, at: dict[str, Any]) -> Headers:
        details = {
            "error": _named(error),
            "operator": operator.id,
            "written-at": operator.origin,
            **at,
        }
        # A text of the user's may hold half of a surrogate pair, which UTF-8 cannot encode.
        texts = ((name, str(value).encode(errors="backslashreplace")) for name, value in details.items())
        return tuple((f"fluvial-{name}", text) for name, text in texts)


def ended_by_exit(pipeline: str, ended: SystemExit) -> MessageError:
    """The error of a run in which a user's function called `sys.exit`: whatever code it gave, the run is not done."""
    frame = _user_frame(ended.__traceback__)
    code = "" if ended.code is None else repr(ended.code)
    wrong = f"sys.exit({code}) was called during the run of {pipeline!r}, which ends without a last commit"
    remedy = "raise an error for a message that is wrong; to stop a run from outside, send SIGTERM"
    return MessageError(explain(wrong, "functions that return or raise an Exception", remedy, frame))


def operator_of(error: BaseException) -> str | None:
    """The operator in whose line of compiled code an error was raised; None if it was raised elsewhere."""
    operator = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(FILE_PREFIX):
            operator = operator_at(frame.f_code.co_filename, line) or operator
    return operator


def _cut(data: bytes, most: int) -> bytes:
    """At most so many bytes; of a text in UTF-8 whole characters, so that it is still a text."""
    end = most
    while most - end < 4 and end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]


def _user_frame(trace: TracebackType | None) -> str | None:
    """The deepest line of a traceback that lies in neither Fluvial nor compiled code."""
    origin = None
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        if not file.startswith(FILE_PREFIX) and not frame.f_globals.get("__name__", "").startswith("fluvial."):
            origin = Origin(file, line)
    return str(origin) if origin else None


def _named(error: BaseException) -> str:
    """An error as Python shows it: its class and its message, the beginning of a long one."""
    text = str(error) if isinstance(error, ReturnedValueError) else error_text(error)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def _shown(key: bytes | None) -> str:
    if key is None:
        return "none"
    shown = key[:_SHOWN]
    more = f"... ({len(key):,} bytes)" if len(key) > _SHOWN else ""
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return repr(shown) + more
    return (repr(text) if text.isprintable() else repr(shown)) + more
