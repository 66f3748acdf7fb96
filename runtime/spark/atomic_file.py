"""Atomic writes of the files beside Spark's checkpoint of a query."""

from pathlib import Path

from ..process.data_files import write_file


def write(file: Path, data: bytes) -> None:
    """Write a file atomically: after a crash the file has the new data or the old, never a part."""
    temporary = file.with_suffix(".new")
    write_file(temporary, data)
    temporary.replace(file)
