"""A processor that shows what is kept of it."""

from collections.abc import Iterator
from typing import Any

from fluvial.dsl import Context, KeyedProcessor, Message, ValueState


class Counter(KeyedProcessor[str, Any, int]):
    """Says how many messages of the key there were, in all runs."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[Any], context: Context[str]) -> Iterator[int]:  # noqa: ARG002
        self.seen.value += 1
        yield self.seen.value
