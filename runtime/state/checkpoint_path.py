"""What the engine on Spark asks of a file or folder of a checkpoint: what `pathlib.Path` gives, on any file system."""

from collections.abc import Iterator
from typing import Protocol, Self


class FileStatus(Protocol):
    """What is known of a file."""

    @property
    def st_mtime(self) -> float:
        """When it was written, in seconds since epoch."""
        ...


class CheckpointPath(Protocol):
    """A file or folder; `Path` is one on a local disk. As text it is what Spark and users call it."""

    @property
    def name(self) -> str:
        """The last part of its name."""
        ...

    @property
    def parent(self) -> Self:
        """The folder that has it."""
        ...

    def __truediv__(self, name: str, /) -> Self:
        """A file or folder in this folder."""
        ...

    def absolute(self) -> Self:
        """The same, whatever the current folder is."""
        ...

    def exists(self) -> bool:
        """Whether there is one."""
        ...

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        ...

    def iterdir(self) -> Iterator[Self]:
        """What a folder has, in any order. Raises FileNotFoundError if there is no folder."""
        ...

    def read_bytes(self) -> bytes:
        """What a file holds. Raises FileNotFoundError if there is no file."""
        ...

    def read_text(self, *, errors: str) -> str:
        """What a file holds, as text of UTF-8."""
        ...

    def stat(self) -> FileStatus:
        """What is known of a file. Raises FileNotFoundError if there is no file."""
        ...


def children(folder: CheckpointPath) -> list[CheckpointPath]:
    """What is in a folder, by name; nothing if there is no folder."""
    try:
        return sorted(folder.iterdir(), key=lambda one: one.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
