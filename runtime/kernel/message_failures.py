"""Failed and landed messages, as compiled code and asynchronous calls report them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...dsl.message import Record
from .calls.in_flight import InFlightMessage, InFlightTracker
from .failures import FailedRecord, Failures
from .time.border_watermarks import without_trailer
from .time.stage_input import StageInput


@dataclass(slots=True)
class FedBatch:
    """The batch that is being fed: `records[start:]` of a partition, and a mark for each record, 1 once it has
    landed."""

    stream: str
    partition: int
    offsets: Sequence[int]
    records: Sequence[Record]
    start: int
    marks: bytearray


NO_BATCH = FedBatch("", 0, (), (), 0, bytearray())


class MessageFailures:
    """Failures of a task's messages and firings. `batch` is the batch that is being fed. `counts` are the failures by
    operator.

    Under `on_error=fail()` a failure is raised where the messages are fed. A failure of an asynchronous call has no
    caller there: its error is stored, and `check` raises it.
    """

    def __init__(self, failures: Failures, inputs: Mapping[str, StageInput], *, asynchronous: bool) -> None:
        self.batch = NO_BATCH
        self.counts = failures.counts
        self.dead_letters = failures.dead_letters
        self.raise_firing = failures.firing
        self._failures = failures
        self._inputs = inputs
        self._asynchronous = asynchronous
        self._error: BaseException | None = None

    def check(self) -> None:
        """Raise the error of an asynchronous call that has failed."""
        if self._error is not None:
            raise self._error

    def deferred(self, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function from asynchronous code: `check` raises its error."""
        try:
            act(*arguments)
        # The event loop would only log it; the task raises it, and the run ends.
        except Exception as raised:
            self._error = self._error or raised

    def message(self, index: int, error: BaseException, operator: str | None = None) -> None:
        """A message of the batch failed."""
        self._failures.message(self._failed_record(self.batch, index), error, operator)

    def in_flight(self, message: InFlightMessage, error: BaseException, operator: str | None = None) -> None:
        """A message or firing that was in flight failed."""
        message.failed = True
        if len(message.where) == 4:
            self.deferred(self._failures.firing, *message.where, error)
        else:
            self.deferred(self._failures.message, self._failed_record(*message.where), error, operator)

    def firing(self, operator: str, key: bytes, value: Any, timestamp: int, error: BaseException) -> None:
        """A pane, a joined row or a timer failed."""
        if self._asynchronous:
            self.deferred(self._failures.firing, operator, key, value, timestamp, error)
        else:
            self._failures.firing(operator, key, value, timestamp, error)

    def passed(self, index: int) -> None:
        """A message has landed that was never in flight: a control message, or a record that could not be decoded."""
        self.landed((self.batch, index))

    def landed(self, where: tuple[Any, ...]) -> None:
        """A message or firing has landed; under `on_error=fail()` one that failed never does."""
        if len(where) == 2 and self._error is None:
            batch, index = where
            batch.marks[index - batch.start] = 1

    def _failed_record(self, batch: FedBatch, index: int) -> FailedRecord:
        record = batch.records[index]
        if self._inputs[batch.stream].clock == "trailer":
            record = without_trailer(record)
        return FailedRecord(batch.stream, batch.partition, batch.offsets[index], record)


def message_opener(
    tracker: InFlightTracker, failures: MessageFailures, stream: str
) -> Callable[[int, int], InFlightMessage]:
    """A function that tracks a message of the batch of a stream, given its index and its watermark."""
    queue = tracker.queue(stream)

    def open_message(index: int, watermark: int) -> InFlightMessage:
        message = InFlightMessage(watermark, (failures.batch, index), queue)
        queue.append(message)
        queue.opened += 1
        return message

    return open_message
