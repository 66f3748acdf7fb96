"""A processor that shows what is kept of it."""

from collections.abc import Iterator

from fluvial.dsl import Context, KeyedProcessor, Message, ValueState


class Counter(KeyedProcessor[str, str, int]):
    """Says how many messages of the key there were, in all runs."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterator[int]:  # noqa: ARG002
        self.seen.value += 1
        yield self.seen.value
