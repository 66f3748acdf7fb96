"""How the threads of a pool make the calls of a plain function: themselves, or each by a process."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, Protocol

from ....dsl.pooled_function import PooledFunction
from ....dsl.text import error_text
from ...process.function_process import FunctionProcess
from ...process.function_server import refuse_while_loading
from .call_keys import offer_keys, present_keys
from .threads import settle

# One more try would rarely help where two have failed, and each costs the time of an import of the user's modules.
STARTS = 3
"""How often a process is started that dies before it is ready, as where memory is short for a moment."""


class Job(Protocol):
    """One call of the function of a pool, which one of its threads takes."""

    def run(self, outcome: "Future[Any]") -> None:
        """Make the call, in a thread, and give its result or its error to a future. Returns once the thread is free."""
        ...

    def cancel(self) -> None:
        """The call was given up: end it, if that is possible. Any thread may call this."""
        ...


class PoolWork(Protocol):
    """What the threads of a pool do."""

    def job(self, args: Sequence[Any], named: Mapping[str, Any]) -> Job:
        """A call with these arguments."""
        ...

    def prepare(self) -> None:
        """Make ready what one thread needs. Each thread calls this once. Raises the error of what cannot be made."""
        ...

    def wind_down(self) -> None:
        """The pool is about to end: what is lost from now on is not made ready again before a call needs it."""
        ...

    def dismiss(self) -> None:
        """No more calls come: let what is idle end."""
        ...

    def ended(self) -> bool:
        """Whether all that was made ready has ended."""
        ...

    def kill(self) -> None:
        """End what has not ended by itself."""
        ...


class ThreadJob:
    """A call that is made in the thread itself. It cannot be ended."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def run(self, outcome: "Future[Any]") -> None:
        """Make the call."""
        settle(outcome, self._call)

    def cancel(self) -> None:
        """Do nothing: the call runs on."""


class ThreadWork:
    """Calls that are made in the threads themselves, each in a copy of the context in which it began."""

    def __init__(self, pooled: PooledFunction[..., Any]) -> None:
        self._fn = pooled.fn

    def job(self, args: Sequence[Any], named: Mapping[str, Any]) -> ThreadJob:
        """A call with these arguments."""
        context = copy_context()
        context.run(offer_keys, present_keys())
        return ThreadJob(partial(context.run, self._fn, *args, **named))

    def prepare(self) -> None:
        """Do nothing: a thread needs nothing."""

    def wind_down(self) -> None:
        """Do nothing: a thread is not lost."""

    def dismiss(self) -> None:
        """Do nothing: the pool ends its threads."""

    def ended(self) -> bool:
        """True: nothing was made ready."""
        return True

    def kill(self) -> None:
        """Do nothing: a thread cannot be ended."""


class ProcessWork:
    """Calls that are made by processes, one at a time by each. A process that has ended is replaced, and so is one that
    was ended since its call took too long."""

    def __init__(self, pooled: PooledFunction[..., Any]) -> None:
        self.name = pooled.__name__
        self._function = pooled.pickled
        self._guard = Lock()
        self._idle: list[FunctionProcess] = []
        self._all: set[FunctionProcess] = set()
        self._winding_down = self._over = False

    def job(self, args: Sequence[Any], named: Mapping[str, Any]) -> "ProcessJob":
        """A call with these arguments."""
        return ProcessJob(self, (args, named))

    def prepare(self) -> None:
        """Start a process, and wait until it is ready."""
        self.put(self._started())

    def take(self) -> FunctionProcess:
        """An idle process, or a new one."""
        while True:
            with self._guard:
                # The one that was used last: its pages are most likely still in memory, and the others can be swapped
                # out.
                process = self._idle.pop() if self._idle else None
            if process is None:
                return self._started()
            if not process.has_ended:
                return process
            self.drop(process)

    def put(self, process: FunctionProcess) -> None:
        """A process is idle from now on."""
        with self._guard:
            self._idle.append(process)
            over = self._over
        # The end has looked at the idle ones already, and would wait for this one until it is killed.
        if over:
            process.dismiss()

    def drop(self, process: FunctionProcess) -> None:
        """Kill a process, if it has not ended, and forget it."""
        with self._guard:
            self._all.discard(process)
        process.kill()
        process.release()

    def replace(self, process: FunctionProcess) -> None:
        """A process is lost: start another one before the next call needs it. If that fails, the next call tries again,
        and raises the error."""
        self.drop(process)
        if self._winding_down:
            return
        try:
            self.prepare()
        except Exception:
            return

    def wind_down(self) -> None:
        """Replace no process that is lost from now on: those of the calls that the end of the run gives up."""
        self._winding_down = True

    def dismiss(self) -> None:
        """No more calls come: let the idle processes end."""
        with self._guard:
            self._over = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.dismiss()

    def ended(self) -> bool:
        """Whether all processes have ended."""
        with self._guard:
            return all(process.has_ended for process in self._all)

    def kill(self) -> None:
        """End the processes that have not ended by themselves."""
        with self._guard:
            # A copy, used without the lock: `drop` takes the lock, and waits until its process has ended.
            left = list(self._all)
        for process in left:
            # All of them before the first is waited for, or the end of many would take the sum of their times.
            process.kill()
        for process in left:
            self.drop(process)

    def _started(self) -> FunctionProcess:
        refuse_while_loading()
        for _ in range(STARTS - 1):
            with suppress(BrokenExecutor):
                return self._start()
        return self._start()

    def _start(self) -> FunctionProcess:
        with self._guard:  # so that none is started behind the end
            if self._over:
                raise BrokenExecutor(f"the processes of {self.name} have ended: the run is over")
            process = FunctionProcess(self.name)
            self._all.add(process)
        try:
            process.start(self._function)
        except BaseException:
            self.drop(process)
            raise
        return process


class ProcessJob:
    """A call that is made by a process. Where it is cancelled, the process is ended."""

    def __init__(self, work: ProcessWork, arguments: tuple[Sequence[Any], Mapping[str, Any]]) -> None:
        self._work = work
        self._arguments = arguments
        self._guard = Lock()
        self._process: FunctionProcess | None = None
        self._cancelled = False

    def run(self, outcome: "Future[Any]") -> None:
        """Make the call, and replace its process if that was lost."""
        # First: the caller goes on while the process is put back, or replaced, which may take a second.
        settle(outcome, self._made)
        with self._guard:  # or a cancellation would end a process that has another call by then
            process, self._process = self._process, None
        if process is None:
            return
        if process.lost:
            self._work.replace(process)
        else:
            self._work.put(process)

    def cancel(self) -> None:
        """End its process, if it has one."""
        with self._guard:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def _made(self) -> Any:
        try:
            data = pickle.dumps(self._arguments, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            wrong = f"what {self._work.name} is given cannot be pickled: {error_text(error)}"
            raise TypeError(wrong) from error
        process = self._work.take()
        with self._guard:
            # A cancellation that came before found no process to kill. The call must not begin then, for nobody would
            # end it.
            if not self._cancelled:
                self._process = process
        if self._process is None:
            self._work.put(process)
            raise CancelledError
        return process.call(data)
