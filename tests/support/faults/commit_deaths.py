"""Deaths: the process ends at a chosen one of the steps that make a commit last."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems.memory import MemoryProducer, MemoryTransaction


class Killed(BaseException):
    """The process is dead; nothing may handle this."""


def run_in_spite_of(deaths: Iterable[int], start: Callable[[], object], work: Callable[[], object]) -> None:
    """Start and work once for each of these deaths, which come after so many steps; then start once more."""
    for steps in deaths:
        with dying_after(steps), suppress(Killed):
            start()
            work()
    start()


@contextmanager
def dying_after(steps: int) -> Iterator[None]:
    """Let this many steps of commits happen in systems and stores in memory; die before the next."""
    left = steps

    def mortal(step: Callable[..., Any]) -> Callable[..., Any]:
        def take(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return step(*arguments)

        return take

    with ExitStack() as stack:
        for owner, name in ((MemoryTransaction, "prepare"), (MemoryStore, "write"), (MemoryProducer, "publish")):
            stack.enter_context(patch.object(owner, name, mortal(getattr(owner, name))))
        yield
