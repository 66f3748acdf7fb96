"""The columns of messages that leave a query as rows of a DataFrame."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ..rows import Messages


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """The columns of the messages of a stream, in the order of `schema`.

    `value` is the type of values, or their Serde. `key` and `timestamp` name the columns of a message's key, which is
    of type `key_type`, and of its time. Messages outside of the `range` of times, or with another key than those of
    `keys`, are left out.
    """

    schema: pa.Schema
    value: Any
    key_type: Any = None
    key: str | None = None
    timestamp: str | None = None
    range: tuple[int, int] | None = None
    keys: frozenset[bytes | None] | None = None

    def of_range(self, range: tuple[int, int], keys: frozenset[bytes | None] | None) -> "OutputColumns":
        """The columns of the messages of a range alone."""
        return replace(self, range=range, keys=keys)

    def chosen(self, messages: Messages) -> Messages | None:
        """The messages that are not left out; None if no one is left."""
        if self.range is None:
            return messages
        first, behind = self.range
        indexes = [
            index
            for index, (time, key) in enumerate(zip(messages.times, messages.keys, strict=True))
            if first <= time < behind and (self.keys is None or key in self.keys)
        ]
        return messages.select(indexes) if indexes else None
