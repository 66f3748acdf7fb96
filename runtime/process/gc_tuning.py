"""Settings of Python's garbage collector: in processes of our own, and while tasks of a pipeline run."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# A batch makes thousands of objects that live until it has landed. With Python's 700 new ones a collection they
# would be examined again and again, in vain (docs/guide/performance.md).
_NEW_OBJECTS, _YOUNG, _OLDER = 50_000, 20, 20


class _Collector:
    """The collector's settings before the first run in this process. Several runs may be open, in threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._before = gc.get_threshold()
        self._froze = self._kept = self._ran = False

    def keep(self) -> None:
        with self._lock:
            self._kept = True
            gc.freeze()
            gc.enable()

    def enter(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs > 1:
                return
            self._before, self._froze = gc.get_threshold(), self._kept or not gc.get_freeze_count()
            if self._kept and self._ran:  # or what the run before has left would be frozen, for good
                gc.collect()
            if self._froze:
                gc.freeze()
            if 0 < self._before[0] < _NEW_OBJECTS:
                gc.set_threshold(_NEW_OBJECTS, _YOUNG, _OLDER)

    def leave(self) -> None:
        with self._lock:
            self._runs -= 1
            if self._runs:
                return
            self._ran = True
            gc.set_threshold(*self._before)
            if self._froze and not self._kept:
                gc.unfreeze()


_collector = _Collector()


def keep_imports() -> None:
    """Enable the collector, and keep the objects that exist now out of all that it does, also as the process ends.

    For a process that is ours, as soon as it has imported what it runs: what is frozen is never freed. Without it the
    collector looks at hundreds of thousands of objects of modules again and again, and once more at the end.
    """
    _collector.keep()


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Collect garbage after 50,000 new objects instead of 700, and freeze the objects that exist now.

    State and messages in flight are alive and form no cycles; traversing them again and again takes a third of the
    time. A threshold that is higher already stays, and so does 0, which means never.
    """
    _collector.enter()
    try:
        yield
    finally:
        _collector.leave()
