"""Starts, uses and ends a process that makes the calls of a plain function."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ...dsl.text import error_text
from . import function_child
from .function_server import END, READY, RESULT, FunctionSetup
from .user_modules import installed_folders, is_hidden

# Its socket closes before its memory is given back, which takes a while where that is many gigabytes.
DYING_SECONDS = 5.0
"""How long the exit code is waited for of a process that has closed its socket."""
# The end of the run waits for it. What does not die within that is stuck in the kernel, and a longer wait gains
# nothing.
RELEASE_SECONDS = 1.0
"""How long the end of a killed process is waited for."""
_OURS = "fluvial"


class FunctionProcess:
    """A process that makes the calls of one function, one at a time. It is started at once, and `start` waits until it
    is ready. Each method but `kill` is called by one thread at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", function_child.__name__, str(theirs.fileno()), str(os.getpid())]
        try:
            with theirs:
                # In a session of its own: Ctrl-C, and signals to all processes of a terminal, are for its parent.
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True
                )
        except BaseException:
            ours.close()
            raise
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))
        self.lost = False
        """Whether it has ended, or was killed."""

    @property
    def pid(self) -> int:
        """The id that the system gives it."""
        return self._process.pid

    def start(self, function: bytes) -> None:
        """Hand over its function, pickled, and wait until it is ready. Raises the error of a module that cannot be
        imported there, or of an object that cannot be opened, and BrokenExecutor where it has ended."""
        answer = self._request(pickle.dumps(_setup(function)))
        if answer != READY:
            self.kill()
            raise pickle.loads(answer[1:])

    def call(self, arguments: bytes) -> Any:
        """Make a call, given its pickled arguments. Raises its error; BrokenExecutor where the process has ended."""
        answer = self._request(arguments)
        try:
            result = pickle.loads(answer[1:])
        except Exception as error:
            wrong = f"what {self._name} returned cannot be unpickled: {error_text(error)}"
            raise TypeError(wrong) from error
        if answer.startswith(RESULT):
            return result
        raise result

    def dismiss(self) -> None:
        """Ask it to end: it closes what it has opened first."""
        with suppress(OSError):
            self._connection.send_bytes(END)

    def kill(self) -> None:
        """End it, with the processes that its function has started. Any thread may call this at any time."""
        # First: whoever sees the socket fail is to know that it was killed.
        self.lost = True
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            # Ends a wait for its answer, also where processes that the function has started hold the other end open.
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def release(self) -> None:
        """Wait for the end of a process that was killed, and free what it has used."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(RELEASE_SECONDS)
        self._connection.close()
        self._socket.close()

    def _request(self, data: bytes) -> bytes:
        """Send data, and return the answer. Raises BrokenExecutor where the process has ended."""
        try:
            self._connection.send_bytes(data)
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            code = self._exit_code()
            self.kill()
            raise BrokenExecutor(f"the process of {self._name} has ended: {_death(code)}") from None

    def _exit_code(self) -> int | None:
        """Its exit code, negative for the number of a signal; None if it has not ended within DYING_SECONDS."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(DYING_SECONDS)
        return None


def _death(code: int | None) -> str:
    """How a process has ended, by its exit code, as a part of an error."""
    if code is None:
        return "it answers no more"
    if code >= 0:
        return f"exit code {code}"
    name = {one.value: one.name for one in signal.Signals}.get(-code, str(-code))  # realtime signals have no names
    return f"signal {name}" + (", as where memory is short" if -code == signal.SIGKILL else "")


def _setup(function: bytes) -> FunctionSetup:
    """What another process needs to find a function of this one."""
    script, program = _program()
    folders = [path or os.getcwd() for path in sys.path]
    return FunctionSetup(folders, sys.argv, script, program, _hidden_modules(), function)


def _hidden_modules() -> Mapping[str, str]:
    """The files of the modules that cannot be imported by their names, by name."""
    modules = {name: module for name, module in sys.modules.copy().items() if is_hidden(name, module)}
    return {name: str(module.__file__) for name, module in modules.items()}


def _program() -> tuple[str | None, str | None]:
    """The script, or else the module, that is the program of this process; neither where that is Fluvial's command, or
    one of an installed package."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if file is None or file.startswith((*installed_folders(), os.path.dirname(sys.executable) + os.sep)):
        return None, None
    if spec is None:
        return os.path.abspath(file), None
    name = spec.name.removesuffix(".__main__")
    return (None, None) if name.partition(".")[0] == _OURS else (None, name)
