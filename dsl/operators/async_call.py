"""Operators that call an asynchronous function of the user's."""

from dataclasses import dataclass
from typing import ClassVar

from .base import Emits, Operator
from .calls import AsyncCall


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncFlatMap(Operator):
    """Turns each value into any number of values, with many calls in flight at once."""

    call: AsyncCall
    kind: ClassVar[str] = "async_flat_map"
    emits: ClassVar[Emits] = "many"

    @property
    def async_call(self) -> AsyncCall:
        """The call of the user's function."""
        return self.call
