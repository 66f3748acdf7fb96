"""The files beside Spark's checkpoint of a query: written atomically, and read back."""

from pathlib import Path
from typing import TypeVar

import msgspec

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from ..process.data_files import write_file

T = TypeVar("T")


def write(file: Path, data: bytes) -> None:
    """Write a file atomically: after a crash the file has the new data or the old, never a part."""
    temporary = file.with_suffix(".new")
    write_file(temporary, data)
    temporary.replace(file)


def read(file: Path, type_: type[T]) -> T:
    """The JSON of a file as a value of this type. Raises SystemProblem for a file that is damaged."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=type_)
    except msgspec.DecodeError as error:
        raise damaged(file, str(error)) from None


def damaged(file: Path, why: str) -> SystemProblem:
    """The error for a file of a checkpoint that is not as it was written: a disk, or a copy, has cut or changed it."""
    remedy = "restore the folder from a copy, or start over with fluvial reset --all"
    return SystemProblem(explain(f"{file} cannot be read: {why}", "the file as a run has written it", remedy, file))
