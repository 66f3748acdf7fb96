"""Closes stores of tasks that have left a container, in threads."""

from collections.abc import Callable, Collection
from threading import Thread


class StoreCloser:
    """Closes stores beside the tasks that go on: RocksDB writes to files first what it has in memory."""

    def __init__(self) -> None:
        self._closing: dict[str, Thread] = {}

    def close(self, task: str, store_close: Callable[[], None]) -> None:
        """Close the store of a task, in a thread."""
        self.wait(task)
        thread = self._closing[task] = Thread(target=store_close, name=f"fluvial-close-{task}", daemon=True)
        thread.start()

    def wait(self, task: str) -> None:
        """Return once the store of a task is closed, so that it may be opened again. Any thread may wait."""
        if (thread := self._closing.get(task)) is not None:
            thread.join()

    def wait_for_all(self, but: Collection[str] = ()) -> None:
        """Return once all stores are closed, `but` those of some tasks."""
        for task, thread in tuple(self._closing.items()):
            if task not in but:
                thread.join()
