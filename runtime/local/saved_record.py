"""Records that one run saves in a system and a later run reads, such as checkpoints."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import DecodeError

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain


class SavedRecord(Protocol):
    """A record with the version of its format."""

    @property
    def version(self) -> int:
        """The version of the format in which the record was saved."""
        ...


R = TypeVar("R", bound=SavedRecord)


def read_saved(decode: Callable[[bytes], R], data: bytes, version: int, what: str, expected: str, location: str) -> R:
    """Decode a record of this version. Raises SystemProblem if that fails, or if it has another version. `what` names
    the record in the error, and `location` is where it is saved."""
    try:
        record = decode(data)
    except (DecodeError, UnicodeDecodeError) as error:
        wrong = f"{what} cannot be read: {error}"
        remedy = "remove what another program has written, or start over with fluvial reset --all"
        raise SystemProblem(explain(wrong, expected, remedy, location)) from None
    if record.version != version:
        wrong = f"{what} has version {record.version}"
        raise SystemProblem(explain(wrong, f"version {version}", "run the version that wrote it", location))
    return record
