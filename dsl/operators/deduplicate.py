"""The operator that leaves out messages which come again within a time, and the checks of what its verb is given."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from ..errors import PipelineError
from ..functions import function
from ..serde import declared_key
from ..validation import millis, require
from .base import Emits, Operator, Role, StateEntries


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate(Operator):
    """Passes on the first message of each key, and of each value of `by`, within a time. `within` in ms; `by_type` is a
    type of key or a Serde. Without `by` both are None."""

    within: int
    by: Callable[[Any], Any] | None
    by_type: Any
    kind: ClassVar[str] = "deduplicate"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "some"
    meets_by_time: ClassVar[bool] = True
    state_entries: ClassVar[StateEntries] = "named"


def checked_deduplicate(
    what: str, within: timedelta, by: Callable[[Any], Any] | None, by_type: Any | None
) -> dict[str, Any]:
    """The fields of the operator; raises PipelineError for arguments that tell no duplicates."""
    # Of no time at all, no message would be a duplicate of another.
    span = millis(f"{what}: within", within, least=1)
    if by is None:
        wrong, remedy = f"{what} has by_type= without by=", "pass by=fn, or leave out by_type="
        require(by_type is None, PipelineError, wrong, "by_type= as the type of what by= returns", remedy)
        return {"within": span, "by": None, "by_type": None}
    function(f"{what}: by", by, "value")
    return {"within": span, "by": by, "by_type": declared_key(f"{what}: by", by, by_type, "by_type")}
