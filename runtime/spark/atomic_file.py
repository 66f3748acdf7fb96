"""The files beside Spark's checkpoint of a query: written atomically, and read back."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from ..process.data_files import make_folder, write_file
from ..process.resource_limits import remedy_for
from ..state.checkpoint_path import CheckpointPath
from .hadoop_path import HadoopPath

T = TypeVar("T")


def write(file: CheckpointPath, data: bytes) -> None:
    """Write a file atomically: after a crash the file has the new data or the old, never a part."""
    if isinstance(file, HadoopPath):
        file.write_atomically(data)
        return
    local = Path(str(file))
    # Beside it, since only within one file system a rename is atomic.
    temporary = local.with_suffix(".new")
    write_file(temporary, data)
    temporary.replace(local)


def make_path(folder: CheckpointPath) -> None:
    """Make a folder, and those above it."""
    if isinstance(folder, HadoopPath):
        folder.make()
    else:
        make_folder(Path(str(folder)))


def remove_path(folder: CheckpointPath) -> None:
    """Remove a folder with all that it has, or a file."""
    if isinstance(folder, HadoopPath):
        folder.remove()
    elif folder.is_dir():
        shutil.rmtree(str(folder), ignore_errors=True)
    else:
        Path(str(folder)).unlink(missing_ok=True)


def read(file: CheckpointPath, type_: type[T]) -> T:
    """The JSON of a file as a value of this type. Raises SystemProblem for a file that is damaged."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=type_)
    except msgspec.DecodeError as error:
        raise damaged(file, str(error)) from None


def damaged(file: CheckpointPath, why: str) -> SystemProblem:
    """The error for a file of a checkpoint that is not as it was written: a disk, or a copy, has cut or changed it."""
    remedy = "restore the folder from a copy, or start over with fluvial reset --all"
    return SystemProblem(explain(f"{file} cannot be read: {why}", "the file as a run has written it", remedy, file))


@contextmanager
def refusals_explained(folder: CheckpointPath) -> Iterator[None]:
    """Raise SystemProblem in place of an OSError about a file or folder in `folder`, which holds checkpoints: most
    often another user owns it. An error that says that the machine has run out of something passes as it is."""
    try:
        yield
    except OSError as error:
        path = None if error.filename is None else Path(os.fsdecode(error.filename)).absolute()
        if path is None or remedy_for(error) is not None or not path.is_relative_to(str(folder.absolute())):
            raise
        wrong = f"Spark's checkpoints in {folder} cannot be used: {error.strerror}: {path}"
        expected = "a folder that this user may read and write to"
        remedy = "correct the owner and permissions of its files, or set state_dir to another folder"
        raise SystemProblem(explain(wrong, expected, remedy, path)) from error
