"""The file to which the offsets of a pipeline are exported, as JSON, and from which they are imported."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import DecodeError, Struct, json

from ..dsl.errors import UsageError
from ..dsl.validation import explain
from .process.data_files import open_named
from .systems.contract import StreamPartition

# To be raised where an older version would take the file for something else: it refuses a number that it does not know,
# and offsets that are misread would skip messages.
FILE_VERSION = 1


class ExportedOffsets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The offsets that the tasks of a pipeline go on from: for each task, by `STREAM/PARTITION`. Sources alone are
    among them, and no streams of tables. `system` is where they come from, for people.

    >>> exported = ExportedOffsets(pipeline="visits", system="log:.fluvial", tasks={"clicks/0": {"clicks/0": 45}})
    >>> exported.by_task
    {'clicks/0': {('clicks', 0): 45}}
    """

    version: int = FILE_VERSION
    pipeline: str
    system: str
    tasks: dict[str, dict[str, int]]

    @property
    def by_task(self) -> dict[str, dict[StreamPartition, int]]:
        """The offsets of each task, by partition."""
        return {
            task: {_partition_of(partition): offset for partition, offset in offsets.items()}
            for task, offsets in self.tasks.items()
        }


def exported(pipeline: str, system: str, tasks: Mapping[str, Mapping[StreamPartition, int]]) -> ExportedOffsets:
    """The record of the offsets of tasks."""
    named = {
        task: {f"{stream}/{partition}": offset for (stream, partition), offset in sorted(offsets.items())}
        for task, offsets in sorted(tasks.items())
    }
    return ExportedOffsets(pipeline=pipeline, system=system, tasks=named)


def write_offsets_file(path: Path, offsets: ExportedOffsets) -> None:
    """Write a record to a file, in place of what it had. Raises UsageError for a file that cannot be written,
    SystemProblem where another user may have made it."""
    try:
        with open_named(path) as file:
            file.write(json.format(json.encode(offsets), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(explain(f"{path} cannot be written: {error.strerror}", "a file in a folder")) from None


def read_offsets_file(path: Path) -> ExportedOffsets:
    """The record in a file. Raises UsageError for a file that cannot be read, is no such record, or is one of another
    version."""
    expected = f"a file of version {FILE_VERSION} that fluvial checkpoint export has written"
    try:
        offsets = json.decode(path.read_bytes(), type=ExportedOffsets)
        offsets.by_task  # noqa: B018 - raises ValueError for a name that is no partition
    except OSError as error:
        raise UsageError(explain(f"{path} cannot be read: {error.strerror}", expected)) from None
    except (DecodeError, ValueError) as error:
        raise UsageError(explain(f"{path} does not hold offsets: {error}", expected)) from None
    if offsets.version != FILE_VERSION:
        remedy = "export it again, or import it with the version of Fluvial that has written it"
        raise UsageError(explain(f"{path} has version {offsets.version}", expected, remedy))
    return offsets


def _partition_of(name: str) -> StreamPartition:
    stream, _, partition = name.rpartition("/")
    if not stream or not partition.isdecimal():
        raise ValueError(f"{name!r} is no STREAM/PARTITION")
    return stream, int(partition)
