"""Plain functions for processes: they end, hang, fail, and return what cannot travel, as their values say."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Literal, NamedTuple


class Odd(Exception):
    """An error that is pickled and cannot be made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


class Unsayable(Exception):
    """An error that cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("no way")


def asked(what: str) -> list[Any]:
    """What a call does, by its value; else it returns the value and the number of its process."""
    match what.partition(" ")[0]:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "quit":
            sys.exit(4)
        case "hang":
            threading.Event().wait(600)
        case "fail":
            raise LookupError(what)
        case "odd":
            raise Odd("a", "b")
        case "unsayable":
            raise Unsayable("what it says")
        case "lambda":
            return [lambda: what]
        case "signals":
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
        case "fork":
            return [_forked()]
        case _:
            pass
    return [what, os.getpid()]


def _forked() -> int:
    """The signal that ends a child of the process."""
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Part(NamedTuple):
    """What one call does, `millis` after its begin. What is to happen once finds that in the file `mark`."""

    number: int
    key: bytes | None
    what: Literal["return", "raise", "die", "lambda", "raise once", "die once"]
    millis: int
    mark: str

    @property
    def fails(self) -> bool:
        """Whether all its attempts fail."""
        return self.what in ("raise", "die", "lambda")


def played(part: Part) -> list[Any]:
    """Do what a part says."""
    threading.Event().wait(part.millis / 1000)
    if part.what.startswith("raise") and (part.fails or _first(part.mark)):
        raise LookupError(part.number)
    if part.what.startswith("die") and (part.fails or _first(part.mark)):
        os.kill(os.getpid(), signal.SIGKILL)
    return [(lambda: part) if part.what == "lambda" else part.number]


def _first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Opened:
    """Is opened and closed in each process, and writes that down."""

    def __init__(self, log: Path, *, fails: bool = False) -> None:
        self.log, self.fails = log, fails
        self.open_in: int | None = None

    async def open(self) -> None:
        """Remember the process."""
        if self.fails:
            raise ConnectionError("nobody is there")
        self.open_in = os.getpid()
        self._write("open")

    def close(self) -> None:
        """Write that down."""
        self._write("close")

    def ask(self, what: str) -> list[int | None]:
        """The process in which it is open."""
        del what
        return [self.open_in]

    def _write(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")


class Short:
    """Dies so often as it is opened, and writes down in a file how often it was."""

    def __init__(self, log: Path, deaths: int) -> None:
        self.log, self.deaths = log, deaths

    def open(self) -> None:
        """Die, or be ready."""
        with self.log.open("a") as file:
            file.write("x")
        if len(self.log.read_text()) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        """It closes nothing."""

    def ask(self, what: str) -> str:
        """The same."""
        return what
