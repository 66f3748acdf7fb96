"""The files that lie beside Spark's checkpoint of a query."""

from pathlib import Path

from ...data_files import write_file


def write(file: Path, data: bytes) -> None:
    """Write a file at one stroke: a crash leaves all of it or nothing."""
    fresh = file.with_suffix(".new")
    write_file(fresh, data)
    fresh.replace(file)
