"""Folders and files that hold data: who may read them, and whose they must be where other users write too.

What is made is for this user alone: files have the mode 0600, folders 0700. `FLUVIAL_UMASK` says otherwise, such as 027
for a group that may read. It is a variable of the environment, because containers, commands and Spark's workers on this
machine have it without being told.
"""

import os
import stat
from pathlib import Path

from ..dsl.errors import SystemProblem, UsageError
from ..dsl.validation import explain

UMASK = "FLUVIAL_UMASK"
PRIVATE = 0o077
"""The default, and the largest: a larger mask would take permissions from the user of the files."""


def umask() -> int:
    """The permissions that new files and folders lack. Raises UsageError where the environment has no such number, or
    one that takes the user's own."""
    given = os.environ.get(UMASK, "")
    if not given:
        return PRIVATE
    if len(given) <= 4 and not given.strip("01234567") and int(given, 8) <= PRIVATE:
        return int(given, 8)
    expected = "three octal digits, 000 to 077, such as 027 for a group that may read: the first is that of the user"
    raise UsageError(explain(f"{UMASK}={given}", expected, at="the environment"))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing. One that exists keeps its permissions.

    Raises SystemProblem where another user may have put it there (see `check_owner`), OSError where it can't be made.
    """
    check_owner(folder)
    mode = 0o777 & ~umask()
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is no folder", str(folder))


def open_file(file: str | Path, flags: int) -> int:
    """The descriptor of a file. A new one has the permissions above; a link in place of one that may be new is refused.

    Raises OSError.
    """
    # A link may lead to any file that this user can write, and the folder may be one where others can make links.
    fresh = os.O_NOFOLLOW if flags & os.O_CREAT else 0
    return os.open(file, flags | fresh | os.O_CLOEXEC, 0o666 & ~umask())


def write_file(file: Path, data: bytes) -> None:
    """Write a file. Raises OSError."""
    with open(open_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as opened:
        opened.write(data)


def check_owner(path: Path) -> None:
    """Raise SystemProblem if a part of a path lies where every user may write, and is another user's, a link, or a
    folder that everyone may write to: whoever made it decides what is written and read there. Where the mask lets every
    user write, that is what is wanted."""
    if not umask() & stat.S_IWOTH:
        return
    whole = Path(os.path.abspath(path))
    for part in (*reversed(whole.parents), whole):
        try:
            shared, found = part.parent.stat().st_mode & stat.S_IWOTH, part.lstat()
        except OSError:  # what is not there, or is out of reach, cannot be written to either
            return
        if part != part.parent and shared and (wrong := _wrong(found, last=part == whole)):
            expected = f"a folder or a file of this user's, for {part.parent} is one where every user may write"
            raise SystemProblem(explain(f"{part} {wrong}", expected, "choose another place, or remove it", at=path))


def _wrong(found: os.stat_result, *, last: bool) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if found.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user, number {found.st_uid}"
    if last and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH:
        return "is a folder that every user may write to"
    return ""
