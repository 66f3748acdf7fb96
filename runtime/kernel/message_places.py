"""Where the message at hand was read."""

from collections.abc import Collection
from typing import Any

from .calls.in_flight import InFlightTracker
from .message_failures import FedBatch, MessageFailures
from .task_requests import NOWHERE, MessagePlace


class MessagePlaces:
    """Tells the place of the message at hand. Compiled code sets `index[0]` to its index in the batch that is fed, -1
    where it was made by an operator. The messages of streams `without_offsets` have no offsets that stay."""

    def __init__(self, failures: MessageFailures, tracker: InFlightTracker, without_offsets: Collection[str]) -> None:
        self._failures, self._tracker, self._without_offsets = failures, tracker, without_offsets
        self.index = [-1]

    def at_hand(self) -> MessagePlace:
        """The place of the message whose effects are being applied."""
        where = self._tracker.releasing
        return self.of((self._failures.batch, self.index[0]) if where is None else where)

    def of(self, where: tuple[Any, ...]) -> MessagePlace:
        """The place of a message, or of a firing, as it is tracked in flight."""
        if len(where) != 2 or where[1] < 0:  # a firing
            return NOWHERE
        batch: FedBatch = where[0]
        if batch.stream in self._without_offsets:
            return MessagePlace(batch.stream)
        return MessagePlace(batch.stream, batch.partition, batch.offsets[where[1]])
