"""Folders and files that hold data: their permissions, and a check of their owner where other users can write too.

New files have the mode 0600 and new folders 0700, so that this user alone may read them. `FLUVIAL_UMASK` sets another
mask, such as 027 for a group that may read. It is a variable of the environment, which containers, commands and Spark's
workers on this machine inherit.
"""

import os
import stat
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ...dsl.errors import SystemProblem, UsageError
from ...dsl.validation import explain

UMASK = "FLUVIAL_UMASK"
PRIVATE = 0o077
"""The default mask, and the largest: a larger one would take permissions from the owner of the files."""


def umask() -> int:
    """The mask of permissions that new files and folders lack. Raises UsageError if `FLUVIAL_UMASK` is no such mask, or
    takes permissions from the user."""
    given = os.environ.get(UMASK, "")
    if not given:
        return PRIVATE
    if len(given) <= 4 and not given.strip("01234567") and int(given, 8) <= PRIVATE:
        return int(given, 8)
    expected = "three octal digits, 000 to 077, such as 027 for a group that may read: the first is that of the user"
    raise UsageError(explain(f"{UMASK}={given}", expected, at="the environment"))


def make_folder(folder: Path) -> None:
    """Make a folder, and the missing folders above it. A folder that exists keeps its permissions.

    Raises SystemProblem if another user may have made it (see `check_owner`), OSError if it cannot be made.
    """
    check_owner(folder)
    mode = 0o777 & ~umask()
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is no folder", str(folder))


def open_file(file: str | Path, flags: int) -> int:
    """Open a file and return its descriptor. A new file lacks the permissions of `umask`. A link is refused where the
    file may be new.

    Raises OSError.
    """
    # A link may point to any file that this user can write, and other users may be able to create links in the folder.
    fresh = os.O_NOFOLLOW if flags & os.O_CREAT else 0
    return os.open(file, flags | fresh | os.O_CLOEXEC, 0o666 & ~umask())


def open_named(file: str | Path) -> BinaryIO:
    """Open a file that the user has named, for writing, in place of what it had. A new file lacks the permissions of
    `umask`. A link is followed: the user named it, and where every user may write, links are refused.

    Raises SystemProblem as `check_owner` does, and OSError.
    """
    check_owner(Path(file))
    return open(file, "wb", opener=partial(os.open, mode=0o666 & ~umask()))


def write_file(file: Path, data: bytes) -> None:
    """Write a file. Raises OSError, which names the file, as that of a full disk does not by itself."""
    try:
        with open(open_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as opened:
            opened.write(data)
    except OSError as error:
        error.filename = error.filename or str(file)
        raise


def check_owner(path: Path) -> None:
    """Raise SystemProblem if a part of a path lies where every user may write, and is another user's, a link, or a
    folder that every user may write to: its owner controls what is written and read there. Nothing is checked if the
    mask lets every user write."""
    if not umask() & stat.S_IWOTH:
        return
    whole = Path(os.path.abspath(path))
    for part in (*reversed(whole.parents), whole):
        try:
            shared, status = part.parent.stat().st_mode & stat.S_IWOTH, part.lstat()
        except OSError:  # a path that does not exist, or is out of reach, cannot be written to either
            return
        if part != part.parent and shared and (wrong := _wrong(status, last=part == whole)):
            expected = f"a folder or a file of this user's, for {part.parent} is one where every user may write"
            raise SystemProblem(explain(f"{part} {wrong}", expected, "choose another place, or remove it", at=path))


def _wrong(status: os.stat_result, *, last: bool) -> str:
    if stat.S_ISLNK(status.st_mode):
        return "is a link"
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user, number {status.st_uid}"
    if last and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH:
        return "is a folder that every user may write to"
    return ""
