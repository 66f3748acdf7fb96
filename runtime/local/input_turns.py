"""Which input of a task is processed next, and how many of its messages: those of one priority take turns."""

from collections.abc import Callable, Iterator

from .input_queue import InputQueue, InputQueues


def _never(_: str) -> bool:
    return False


class InputTurns:
    """The turns of the inputs of a task. With `most`, at most so many messages of an input are processed before the
    next one has its turn; without it, as many as are asked for at a time.

    The input behind the one that had messages last comes first. So each has its turn, also where one message, or one
    input, uses up what the task may take at a time: the permits of calls, or the messages up to a request.
    """

    def __init__(self, queues: InputQueues, most: int | None = None) -> None:
        self._queues = [*queues]
        self._indices = {queue.name: index for index, queue in enumerate(self._queues)}
        self._most = most
        self._next = 0

    def first(self, parks: Callable[[str], bool] = _never) -> list[InputQueue]:
        """The inputs whose messages are to be processed now, in the order of their turns: of those that have some, the
        ones of the highest priority. An input that `parks`, whose messages wait behind slow calls of their keys, keeps
        no other waiting."""
        ready = [queue for queue in self._queues if queue.ready and not parks(queue.name)]
        highest = max((queue.priority for queue in ready), default=0)
        first = [queue for queue in ready if queue.priority == highest]
        return sorted(first, key=lambda queue: self._indices[queue.name] < self._next)

    def shares(
        self, most: int, full: Callable[[], bool], parks: Callable[[str], bool] = _never
    ) -> Iterator[tuple[InputQueue, int]]:
        """Inputs in turn, each with how many of its messages may be processed now; at most `most` of each in all. The
        caller processes them before it takes the next input. Once the task is `full` no other round begins."""
        left = dict.fromkeys(self._indices, most)
        while True:
            moved = False
            for queue in self.first(parks):
                before = queue.processed
                if queue.ready and (share := min(left[queue.name], self._most or most)):
                    yield queue, share
                if took := queue.processed - before:
                    moved = True
                    left[queue.name] -= took
                    self._next = self._indices[queue.name] + 1
            if self._most is None or not moved or full():
                return
