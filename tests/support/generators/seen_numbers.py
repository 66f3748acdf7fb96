"""A processor whose outputs tell in which order it was given its messages."""

from collections.abc import Iterable

from fluvial.dsl import Context, KeyedProcessor, ListState, Message


class SeenNumbers(KeyedProcessor[str, int, list[int]]):
    """The numbers of a key so far."""

    numbers = ListState(int)

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[list[int]]:
        del context
        self.numbers.append(message.value)
        yield list(self.numbers)
