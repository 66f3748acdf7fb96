"""The addresses at which the runs of this machine serve their metrics: `fluvial top` finds the runs by them."""

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json

_log = logging.getLogger(__name__)


class MetricsEndpoint(Struct, frozen=True):
    """A process that serves the metrics of a pipeline."""

    pipeline: str
    url: str
    process: int


def endpoints_folder() -> Path:
    """The folder of this user's endpoint files: beside the sockets of the session, else among temporary files."""
    session = os.environ.get("XDG_RUNTIME_DIR")
    # After `su` or `sudo` the variable may still be that of another user.
    if session and _owner(session) == os.geteuid():
        return Path(session, "fluvial")
    return Path(tempfile.gettempdir(), f"fluvial-{os.geteuid()}")


@contextmanager
def announced(pipeline: str, url: str, folder: Path | None = None) -> Iterator[None]:
    """Keep a file with the address of the metrics while the context is open. Where that fails, it is logged and the
    run goes on: only `fluvial top` reads the file."""
    endpoint = MetricsEndpoint(pipeline, url, os.getpid())
    name = f"{pipeline}.{endpoint.process}.json"
    into = folder or endpoints_folder()
    try:
        with suppress(FileExistsError):
            into.mkdir(mode=0o700, parents=True)
        with _opened(into) as inside:
            _write(inside, name, json.encode(endpoint))
    except OSError as error:
        _log.warning("fluvial top will not find this run: no file can be written in %s: %s", into, error)
    try:
        yield
    finally:
        with suppress(OSError), _opened(into) as inside:
            os.unlink(name, dir_fd=inside)


def endpoints(folder: Path | None = None) -> list[MetricsEndpoint]:
    """The endpoints of the processes that are alive. Files of other processes are removed."""
    endpoints_alive = []
    with suppress(OSError), _opened(folder or endpoints_folder()) as inside:
        for name in sorted(name for name in os.listdir(inside) if name.endswith(".json")):
            with suppress(OSError, DecodeError):
                endpoint = json.decode(_read(inside, name), type=MetricsEndpoint)
                if _alive(endpoint.process):
                    endpoints_alive.append(endpoint)
                else:
                    os.unlink(name, dir_fd=inside)
    return endpoints_alive


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder. Raises OSError where it is a link, or anyone else could have put a file there: every
    user may make a folder of this name among temporary files."""
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(inside)
        if status.st_uid != os.geteuid():
            raise PermissionError(1, f"it belongs to another user, number {status.st_uid}")
        if status.st_mode & 0o077:
            raise PermissionError(1, f"other users may enter it: its mode is {stat.S_IMODE(status.st_mode):o}, not 700")
        yield inside
    finally:
        os.close(inside)


def _write(inside: int, name: str, data: bytes) -> None:
    with suppress(FileNotFoundError):  # left by a process that had this id before
        os.unlink(name, dir_fd=inside)
    new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=inside)
    with open(new, "wb") as file:
        file.write(data)


def _read(inside: int, name: str) -> bytes:
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside), "rb") as file:
        return file.read()


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user, which has the id now
        return False
    return True
