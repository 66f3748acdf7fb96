"""Makes the calls of a plain function, one after the other, in a process that another one has started for that.

The process reads a `FunctionSetup` from a socket, answers that it is ready, and then answers each call. It ends with
its parent, even while its function runs.
"""

import asyncio
import importlib.abc
import logging
import os
import pickle
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from inspect import isawaitable
from io import TextIOWrapper
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.functions import called_name
from ...dsl.pooled_function import PooledFunction
from ...dsl.resource import opened_with
from ...dsl.text import error_text
from ...dsl.validation import explain
from .user_modules import own_paths, prefer_own_modules

# The processor time of a hundred idle processes that look more often would be seen.
CHECK_SECONDS = 5.0
"""Seconds between two looks at whether the parent lives. They are needed where another process also holds the parent's
end of the socket, which then is not closed with the parent."""
READY, RESULT, ERROR, END = b"ready", b"r", b"e", b""
MAIN = "__mp_main__"
"""The name under which the parent's script is loaded, as by `multiprocessing`: it must not run its pipeline."""

_log = logging.getLogger(__name__)

_serving, _loaded = threading.Event(), threading.Event()


@dataclass(frozen=True, slots=True)
class FunctionSetup:
    """What a process needs to find its function.

    `folders` are those of modules, as in `sys.path`. `script` or `program`, a file or a module, is what the parent
    runs, with its `arguments`; both are None for Fluvial's own command. `hidden` has the files of modules that cannot
    be imported by their names, by name. `function` is pickled.
    """

    folders: Sequence[str]
    arguments: Sequence[str]
    script: str | None
    program: str | None
    hidden: Mapping[str, str]
    function: bytes


def refuse_while_serving() -> None:
    """Raise UsageError in a process that makes calls of a function. A run begins there only if the parent's script
    begins one whenever it is loaded."""
    if _serving.is_set():
        wrong = "a run is begun as the script is loaded in a process of in_processes"
        remedy = 'begin it under if __name__ == "__main__":'
        raise UsageError(explain(wrong, "a script that can be loaded without running", remedy))


def refuse_while_loading() -> None:
    """Raise UsageError in such a process as long as it has not loaded its function: the parent's script would start
    processes whenever it is loaded. Later, calls may start some."""
    if _serving.is_set() and not _loaded.is_set():
        wrong = "in_processes starts processes as the script is loaded in one of them"
        remedy = 'begin what makes its calls under if __name__ == "__main__":'
        raise UsageError(explain(wrong, "a script that can be loaded without running", remedy))


def serve(connection: Connection, parent: int) -> None:
    """Answer calls until the process `parent` ends, or asks for no more."""
    # Before the setup is read: to unpickle it may import modules of the user's, which may begin a run.
    _serving.set()
    _leave_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # none where it is closed
            stream.reconfigure(line_buffering=True)  # it may be killed at any time
    calls: SimpleQueue[bytes] = SimpleQueue()
    try:
        setup = pickle.loads(connection.recv_bytes())
        # Only now: the setup is read by this thread, and two readers of one socket would tear messages apart.
        threading.Thread(target=_receive, args=(connection, parent, calls), daemon=True).start()
        with asyncio.Runner() as runner:
            _make_calls(setup, connection, calls, runner)
    except (EOFError, OSError):  # the parent has ended
        os._exit(1)


def _make_calls(
    setup: FunctionSetup, connection: Connection, calls: "SimpleQueue[bytes]", runner: asyncio.Runner
) -> None:
    try:
        fn = _function(setup)
        _loaded.set()
        opened = opened_with(fn)
        for owner in opened:
            _finish(owner.open(), runner)
    except Exception as error:
        connection.send_bytes(_failure(error))
        return
    except BaseException as error:  # such as SystemExit of a script, which must not end the parent
        connection.send_bytes(
            _failure(RuntimeError(f"{error_text(error)}, raised in its process as that was made ready"))
        )
        return
    connection.send_bytes(READY)
    while (call := calls.get()) != END:
        connection.send_bytes(answer(fn, call))
    for owner in opened:
        try:
            _finish(owner.close(), runner)
        except Exception as error:
            _log.warning("%s failed in closing, in its process: %s", type(owner).__name__, error_text(error))


def _finish(result: Any, runner: asyncio.Runner) -> None:
    """Await what an `open` or a `close` has returned, if it is asynchronous."""

    async def waited() -> None:
        await result

    if isawaitable(result):
        runner.run(waited())


def _receive(connection: Connection, parent: int, calls: "SimpleQueue[bytes]") -> None:
    """Queue the calls that come. In a thread of its own it notices the end of the parent during a call."""
    try:
        while True:
            while not connection.poll(CHECK_SECONDS):
                if os.getppid() != parent:
                    os._exit(1)
            calls.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def answer(fn: Callable[..., Any], call: bytes) -> bytes:
    """Make a call, given its pickled arguments by position and by name. Returns the pickled result or error, behind a
    byte that says which it is."""
    try:
        args, named = pickle.loads(call)
    except BaseException as error:
        return _failure(
            TypeError(f"what {called_name(fn)} is given cannot be unpickled in its process: {error_text(error)}")
        )
    try:
        result = fn(*args, **named)
    except BaseException as error:
        with suppress(Exception):  # a class of the user's may refuse notes; its error counts all the same
            error.add_note("".join(["In its process:\n", *traceback.format_exception(error)]).rstrip())
        return _failure(error)
    try:
        return RESULT + pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return _failure(TypeError(f"what {called_name(fn)} returned cannot be pickled: {error_text(error)}"))


def _failure(error: BaseException) -> bytes:
    """An error as the parent gets it: itself, or its text where it cannot be pickled and unpickled."""
    try:
        data = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        # Tried here: whether an error can be unpickled is known only by doing it, and the parent has no second chance.
        if type(pickle.loads(data)) is type(error):
            return ERROR + data
        reason = "it comes back as another one"
    except BaseException as raised:
        reason = error_text(raised)
    text = f"{error_text(error)} (the error itself cannot be pickled: {reason})"
    return ERROR + pickle.dumps(RuntimeError(text), pickle.HIGHEST_PROTOCOL)


def _function(setup: FunctionSetup) -> Callable[..., Any]:
    """Load what the parent runs, under another name than `__main__`, and unpickle the function."""
    sys.path[:], sys.argv[:] = setup.folders, setup.arguments
    prefer_own_modules(own_paths())
    sys.meta_path.insert(0, _HiddenModules(setup.hidden))
    if setup.program is not None:
        _take_as_main(runpy.run_module(setup.program, run_name=MAIN, alter_sys=True))
    elif setup.script is not None:
        _take_as_main(runpy.run_path(setup.script, run_name=MAIN))
    fn = pickle.loads(setup.function)
    while isinstance(fn, PooledFunction):  # its module has bound its name to the pool
        fn = fn.fn
    return fn  # type: ignore[no-any-return]


def _take_as_main(names: Mapping[str, Any]) -> None:
    module = ModuleType(MAIN)
    vars(module).update(names)
    sys.modules["__main__"] = sys.modules[MAIN] = module


class _HiddenModules(importlib.abc.MetaPathFinder):
    """Finds the modules of the parent that cannot be imported by their names."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return spec_from_file_location(fullname, self._files[fullname]) if fullname in self._files else None


def _leave_signals() -> None:
    """Leave SIGINT, SIGTERM and SIGHUP to the parent, which ends this process. They are not ignored, or programs that
    the function starts would ignore them as well."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    os.register_at_fork(after_in_child=lambda: [signal.signal(number, signal.SIG_DFL) for number in numbers])
