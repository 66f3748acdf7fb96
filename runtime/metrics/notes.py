"""Notes of where runs serve their metrics, for `fluvial top` on the same machine."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json


class Note(Struct, frozen=True):
    """A process that serves the metrics of a pipeline."""

    pipeline: str
    url: str
    process: int


def notes_folder() -> Path:
    """The folder of this user's notes: beside the sockets of the session, else among temporary files."""
    session = os.environ.get("XDG_RUNTIME_DIR")
    return Path(session, "fluvial") if session else Path(tempfile.gettempdir(), f"fluvial-{os.getuid()}")


@contextmanager
def noted(pipeline: str, url: str, folder: Path | None = None) -> Iterator[None]:
    """Leave a note meanwhile. Where that is not possible there is none: it is a convenience."""
    note = Note(pipeline, url, os.getpid())
    file = (folder or notes_folder()) / f"{pipeline}.{note.process}.json"
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_bytes(json.encode(note))
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()


def notes(folder: Path | None = None) -> list[Note]:
    """The notes of processes that are alive; those of others are removed."""
    place = folder or notes_folder()
    # Anyone may make a folder of this name among temporary files.
    if not place.is_dir() or place.stat().st_uid != os.getuid():
        return []
    found = []
    for file in sorted(place.glob("*.json")):
        with suppress(OSError, DecodeError):
            note = json.decode(file.read_bytes(), type=Note)
            if _alive(note.process):
                found.append(note)
            else:
                file.unlink()
    return found


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another's, that has the number now
        return False
    return True
