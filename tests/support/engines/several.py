"""Several containers of one run, as threads of this process, which may die."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any
from unittest.mock import patch

from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.runtime import Progress
from fluvial.runtime.launch import checked_plan, run_container
from fluvial.runtime.local import container
from fluvial.runtime.local.coordination.membership import ContainerId, begin_run
from fluvial.runtime.local.observe import progress as telling
from fluvial.runtime.systems import System


class Death(Exception):
    """A container dies: what it has not committed is lost."""


@contextmanager
def at_each_turn() -> Iterator[None]:
    """Containers tell their progress at each turn of their loop."""
    with patch.object(container, "CHECK_SECONDS", 0.0), patch.object(telling, "PROGRESS_SECONDS", 0.0):
        yield


@contextmanager
def dying_in(owner: type, name: str, when: Callable[..., bool], *, after: bool = False) -> Iterator[None]:
    """Let containers die before, or after, those calls of a method for which `when` holds of its arguments."""
    method = getattr(owner, name)

    def mortal(*arguments: Any) -> Any:
        dies = when(*arguments)
        if dies and not after:
            raise Death
        result = method(*arguments)
        if dies:
            raise Death
        return result

    with patch.object(owner, name, mortal):
        yield


def run_together(
    system: System, pipeline: Pipeline, containers: int, settings: Settings, deaths: Sequence[tuple[int, int]] = ()
) -> None:
    """Run to the end. Each of `deaths` is a container and at which turn it dies; it is started again at once."""
    plan = checked_plan(pipeline, system, settings)
    run = begin_run(plan, system, containers, "end")
    failed = Event()

    def keep(number: int) -> None:
        turns = [turn for one, turn in deaths if one == number]
        while not failed.is_set():
            seat = ContainerId(number, containers, run)
            try:
                run_container(
                    pipeline, "local", system, settings, "end", dying_at(turns.pop() if turns else None), None, seat
                )
                return
            except Death:
                continue
            except BaseException:
                failed.set()
                raise

    def dying_at(turn: int | None) -> "Progressing":
        return Progressing(turn, failed)

    with ThreadPoolExecutor(containers) as pool:
        list(pool.map(keep, range(containers)))


class Progressing:
    """Dies at a turn, and when another container has failed, for that one would be waited for in vain."""

    def __init__(self, turn: int | None, failed: Event) -> None:
        self._turns = count()
        self._turn = turn
        self._failed = failed

    def __call__(self, progress: Progress) -> None:
        if (next(self._turns) == self._turn and progress.phase != "done") or self._failed.is_set():
            raise Death
