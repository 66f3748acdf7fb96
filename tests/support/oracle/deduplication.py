"""Which messages are duplicates of which: the oracle's half that knows deduplication. It forgets nothing."""

import math
from typing import Any, Literal

from fluvial.dsl.message import Message
from fluvial.dsl.operators import Deduplicate
from oracle.processing import Emitted
from oracle.wire import encode_declared_key


class KeptTimes:
    """The times of all messages that were passed on, by key and by what tells them apart besides; and the watermark
    that the operator has seen."""

    def __init__(self, operator: Deduplicate) -> None:
        self._operator = operator
        self._times: dict[tuple[bytes, bytes | None], tuple[int, ...]] = {}
        self.watermark = -math.inf

    def snapshot(self) -> Any:
        return dict(self._times)

    def restore(self, snapshot: Any) -> None:
        self._times = snapshot

    def take(self, encoded: bytes, message: Message[Any], _: int) -> list[Emitted] | Literal["late"]:
        """The message as it came, if it is to be passed on."""
        entry = encoded, self._name(message.value)
        if message.timestamp < self.watermark - self._operator.within:
            return "late"
        times = self._times.get(entry, ())
        if min((abs(time - message.timestamp) for time in times), default=math.inf) < self._operator.within:
            return []
        self._times[entry] = (*times, message.timestamp)
        return [Emitted(message.key, message.value, None, message.timestamp, message.headers)]

    def _name(self, value: Any) -> bytes | None:
        if self._operator.by is None:
            return None
        name = encode_declared_key(self._operator.by(value), self._operator.by_type)
        if name is None:
            raise ValueError("nothing to tell a message apart by")
        return name

    def next_due(self, _: float) -> None:
        """Time lets nothing be emitted."""

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen; the end of input is none."""
        self.watermark = watermark if watermark < math.inf else self.watermark
