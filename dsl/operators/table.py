"""Tables, and the operators that fill them."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..remote_table import RemoteTable
from .base import Emits, Operator, Role
from .calls import AsyncCall


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOf(Operator):
    """Keeps the latest row of each key. Its input is the stream of the table; it has none if the pipeline fills it."""

    stream: str
    key: Any
    value: Any
    kind: ClassVar[str] = "table"
    decodes_values: ClassVar[bool] = True
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "some"
    is_table: ClassVar[bool] = True

    @property
    def plain_label(self) -> str:
        """`table users`, by the stream of the table."""
        return f"table {self.stream}"

    @property
    def name(self) -> str:
        """The stream of the table, dots included, which its id has not."""
        return self.stream


def table_id(name: str) -> str:
    """The id of the table of a name, which is that of its stream: ids have no dots."""
    return name.replace(".", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTo(Operator):
    """Makes each message the row of its key in a table of the pipeline's own."""

    table: str
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"

    @property
    def plain_label(self) -> str:
        """`send_to table users`, by the id of the table."""
        return f"send_to table {self.table}"

    @property
    def uses_table(self) -> str:
        """The id of the table that it fills."""
        return self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRemote(Operator):
    """Writes each message to a remote table, as the row of its key."""

    table: RemoteTable[Any, Any]
    call: AsyncCall
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"
    emits: ClassVar[Emits] = "many"

    @property
    def plain_label(self) -> str:
        """`send_to remote table users`, by the name of the table."""
        return f"send_to remote table {self.table.name}"

    @property
    def async_call(self) -> AsyncCall:
        """The call that writes a row of the remote table."""
        return self.call
