"""What a process opens for the functions that it runs, and closes at the end: clients, pools, objects of the user's."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..dsl.errors import FluvialError, NoProgressError, PipelineError, SystemProblem
from ..dsl.operators import Operator
from ..dsl.origin import Origin
from ..dsl.pooled_function import PooledFunction
from ..dsl.resource import Resource, can_call, opens_itself
from ..dsl.text import error_text, visible
from ..dsl.validation import explain
from ..planner.plan import Plan
from .kernel.calls.cancellation import CLOSE_SECONDS, GRACE_SECONDS, RunWork, as_error, calls_ended
from .kernel.code.program import Clients

STOPPING_SECONDS = 1.5
"""The same where the process was asked to stop, which must have ended soon after."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opening:
    """What is opened, and for which operator, as errors tell it; `make` gives the object that is opened."""

    what: str
    origin: Origin
    make: Callable[[], Any]


class _TooLate(Exception):
    """Nothing came in time. A TimeoutError may be the client's own."""


class _Keeper:
    """Opens one thing and closes it, both in one asyncio task: some context managers insist on that."""

    def __init__(self, opening: _Opening) -> None:
        self.opening = opening
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(_retrieve)
        self._abandoned = False

    async def _keep(self) -> None:
        async with AsyncExitStack() as stack:
            client = await _entered(stack, self.opening.make)
            self._opened.set_result(client)
            await self._closing

    async def open(self, seconds: float) -> Any:
        """Wait until it is open; returns what functions are given. Raises its error, and _TooLate after so many
        seconds."""
        await asyncio.wait({self._opened, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._opened.done():
            return self._opened.result()
        if not self._task.done():
            await self._abandon()
            raise _TooLate
        try:
            return self._task.result()
        except BaseException as raised:
            raise as_error(raised) from None

    async def close(self, seconds: float) -> None:
        """Close it, if it is open. Raises its error, also one by which it has ended before, and _TooLate after so many
        seconds."""
        if not self._opened.done():  # the run was stopped while it opened, or it was abandoned
            self._task.cancel()
        elif not self._closing.done():
            self._closing.set_result(None)
        await asyncio.wait({self._task}, timeout=min(seconds, GRACE_SECONDS) if self._abandoned else seconds)
        if not self._task.done():
            self._task.cancel()
            raise _TooLate
        try:
            self._task.result()
        except BaseException as raised:
            if self._opened.done():  # what was not opened has raised its error already
                raise as_error(raised) from None

    async def _abandon(self) -> None:
        self._abandoned = True
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=GRACE_SECONDS)


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()  # or asyncio logs that it was never retrieved, also where a signal came within it


class OpenResources:
    """The resources of a process, and the objects of its operators that are opened like them.

    `clients` has what functions are given. `run` runs a coroutine to its end in the event loop of the functions;
    `given` are clients that somebody else opens and closes. Opening one may take `timeout`. `stopping` says whether the
    process was asked to stop. `remedy` says what to do where nothing comes of opening one.
    """

    def __init__(
        self,
        run: RunWork,
        timeout: timedelta,
        given: Mapping[Resource[Any], Any] | None = None,
        stopping: Callable[[], bool] = lambda: False,
        remedy: str = "look for a call that never returns, or raise stall_timeout",
    ) -> None:
        self.clients: Clients = {}
        self.clients.update((given or {}).items())
        self._run = run
        self._timeout = timeout.total_seconds()
        self._stopping = stopping
        self._remedy = remedy
        self._keepers: list[_Keeper] = []
        self._objects: list[Any] = []
        self._stages: set[str] = set()

    @property
    def are_open(self) -> bool:
        """Whether anything is open."""
        return bool(self._keepers)

    def open(self, plan: Plan, stages: Collection[str]) -> None:
        """Open what the operators of some stages need, in their order, and what is not open yet.

        Raises SystemProblem for what cannot be opened, and NoProgressError for what takes longer than the timeout.
        """
        new = [stage for stage in plan.stages if stage.id in stages and stage.id not in self._stages]
        ids = [id for stage in new for id in stage.operators]
        for operator in map(plan.pipeline.operator, ids):
            for thing in operator.opens:
                if not isinstance(thing, Resource):
                    self._open_object(operator, thing)
                elif thing not in self.clients:
                    opening = _Opening(f"{operator.label}: {thing!r}", thing.origin, thing.factory)
                    self.clients[thing] = self._run(self._opened(opening))
        self._stages.update(stage.id for stage in new)

    def _open_object(self, operator: Operator, thing: Any) -> None:
        if any(thing is other for other in self._objects):
            return
        what = f"{operator.label}: {repr(thing) if isinstance(thing, PooledFunction) else type(thing).__name__}"
        self._run(self._opened(_Opening(what, operator.origin, lambda: thing)))
        self._objects.append(thing)

    async def _opened(self, opening: _Opening) -> Any:
        keeper = _Keeper(opening)
        self._keepers.append(keeper)
        try:
            client = await keeper.open(self._timeout)
        except _TooLate:
            wrong = f"{opening.what} is not open after {self._timeout:g} s, the stall_timeout"
            raise NoProgressError(explain(wrong, "a client that opens", self._remedy, opening.origin)) from None
        except FluvialError:  # it says already where it comes from
            raise
        except Exception as error:
            raise _refused(opening, error) from error
        if client is None:
            remedy = "return the client from the factory, or from its __aenter__ or __enter__"
            raise PipelineError(explain(f"{opening.what} gives None", "a client", remedy, opening.origin))
        return client

    def close(self) -> None:
        """Close all that was opened, in reverse order. What does not close is logged, and left behind."""
        if self._keepers:
            self._run(self._close())

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + (STOPPING_SECONDS if self._stopping() else CLOSE_SECONDS)
        await calls_ended()  # until then they use their clients
        while self._keepers:
            keeper = self._keepers.pop()
            client = f"{keeper.opening.what}, at {keeper.opening.origin}"
            try:
                # One that hangs leaves time to those that were opened before it.
                await keeper.close(max(0.0, until - loop.time()) / (1 + len(self._keepers)))
            except _TooLate:
                _log.warning("%s is not closed in time: it is left behind", client)
            except Exception as error:
                _log.warning("%s failed in closing: %s", client, visible(error_text(error)))


def _refused(opening: _Opening, error: Exception) -> SystemProblem:
    wrong = f"{opening.what} cannot be opened: {error_text(error)}"
    expected = "a client that opens in each process that runs the pipeline"
    return SystemProblem(
        explain(wrong, expected, "mend what it connects to, or its factory, and start again", opening.origin)
    )


async def _entered(stack: AsyncExitStack, make: Callable[[], Any]) -> Any:
    """What `make` gives, opened as it allows; `stack` closes it."""
    client = make()
    if inspect.iscoroutine(client):
        client = await client
    if opens_itself(client):
        await _done(client.open())
        stack.push_async_callback(_called, client.close)
        return client
    if hasattr(type(client), "__aenter__"):
        return await stack.enter_async_context(client)
    if hasattr(type(client), "__enter__"):
        return stack.enter_context(client)
    close = next((name for name in ("aclose", "close") if can_call(client, name)), None)
    if close is not None:
        stack.push_async_callback(_called, getattr(client, close))
    return client


async def _called(method: Callable[[], Any]) -> None:
    await _done(method())


async def _done(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
