"""Joins of streams, of tables, and of a stream with a table."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, get_args

from ..errors import PipelineError
from ..functions import function
from ..remote_table import RemoteTable
from ..validation import flag, millis, one_of, require
from .base import Emits, Operator, Role, Time
from .calls import AsyncCall

How = Literal["inner", "left", "outer"]
Retain = Literal["all", "latest"]
Lookup = Literal["inner", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStreams(Operator):
    """Brings together rows of two inputs, the left and the right one, by key and time. `within` in ms."""

    fn: Callable[[Any, Any], Any]
    within: int
    how: How
    retain: Retain
    time: Time = "event"
    exclusive: bool = True
    kind: ClassVar[str] = "join"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"
    meets_by_time: ClassVar[bool] = True

    @property
    def time_domain(self) -> Time:
        """The time that closes it: "event" or "processing", as its `time=` was given."""
        return self.time

    @property
    def is_exclusive(self) -> bool:
        """As its `exclusive=` was given."""
        return self.exclusive

    @property
    def fires_by_key(self) -> bool:
        """Whether rows without partner leave it."""
        return self.how != "inner"

    @property
    def keeps_values(self) -> bool:
        """True: the rows of both sides are kept as they came."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTable(Operator):
    """Turns each message and the row that a table has for its key into a value; inputs: the stream, the table."""

    fn: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"
    emits: ClassVar[Emits] = "some"
    looks_up: ClassVar[bool] = True

    @property
    def fed_by(self) -> tuple[str, ...]:
        """The stream; the table is looked up, and hands it no messages."""
        return self.inputs[:1]

    @property
    def uses_table(self) -> str:
        """The id of the table that it looks up."""
        return self.inputs[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTables(Operator):
    """A table of the rows that two tables, the left and the right one, have for each key."""

    fn: Callable[[Any, Any], Any]
    how: How
    kind: ClassVar[str] = "join"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "some"
    is_table: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRemote(Operator):
    """Turns each message and the row that a remote table has for its key into a value: `joined(value, row)`."""

    table: RemoteTable[Any, Any]
    call: AsyncCall
    joined: Callable[[Any, Any], Any]
    how: Lookup
    kind: ClassVar[str] = "join"
    emits: ClassVar[Emits] = "many"
    looks_up: ClassVar[bool] = True

    @property
    def async_call(self) -> AsyncCall:
        """The call that reads a row of the remote table."""
        return self.call


@dataclass(frozen=True, slots=True)
class JoinRules:
    """The arguments of `KeyedStream.join` but the other side, as they were given; `what` names the join."""

    what: str
    fn: Callable[[Any, Any], Any]
    within: timedelta | None
    how: How
    retain: Retain
    time: Time
    exclusive: bool = True


def check_sides(what: str, *, keyed: bool, same: bool) -> None:
    """Refuse to join a stream with one that is not `keyed`, or that is the `same`."""
    remedy = "call .partition_by(fn, id=..., key_type=str) on it, or give the stream key="
    wrong = f"{what}: the stream it joins with has no key"
    require(keyed, PipelineError, wrong, "keyed streams", remedy)
    wrong = f"{what} joins a stream with itself, so that each row would join itself"
    require(not same, PipelineError, wrong, "two streams", "use map; or join with a map or filter")


def checked_join(given: JoinRules) -> dict[str, Any]:
    """The fields of a join of streams but its inputs; raises PipelineError for arguments that make no join."""
    what, within = given.what, given.within
    function(what, given.fn, "left", "right")
    one_of(f"{what}: how", given.how, get_args(How))
    one_of(f"{what}: retain", given.retain, get_args(Retain))
    one_of(f"{what}: time", given.time, get_args(Time))
    flag(f"{what}: exclusive", given.exclusive)
    wrong, remedy = f'{what}: exclusive=False with how="inner"', "leave it out: such a join emits with messages alone"
    require(given.exclusive or given.how != "inner", PipelineError, wrong, 'how="left" or "outer"', remedy)
    wrong, remedy = f"{what} has no within=", "pass within=timedelta(minutes=10)"
    require(within is not None, PipelineError, wrong, "how far apart in time two rows may be", remedy)
    # An entry of `within` is past it already where rows expire, so none would ever join.
    least = 1 if given.retain == "latest" else 0
    within_ms = millis(f"{what}: within", timedelta(0) if within is None else within, least=least)
    fields = {"how": given.how, "retain": given.retain, "time": given.time, "exclusive": given.exclusive}
    return {"fn": given.fn, "within": within_ms, **fields}


def checked_lookup(given: JoinRules) -> dict[str, Any]:
    """The fields of a join with a table but its inputs; raises PipelineError for arguments that make no join."""
    what = given.what
    function(what, given.fn, "value", "row")
    useless = {"within": given.within is not None, "retain": given.retain != "all", "time": given.time != "event"}
    useless["exclusive"] = given.exclusive is not True
    for name, is_given in useless.items():
        wrong, remedy = f"{what} with a table has {name}=", f"leave out {name}="
        require(not is_given, PipelineError, wrong, "the row that the table has when a message comes", remedy)
    wrong, remedy = f'{what} with a table: how="outer"', "join the table's .changes() with the stream within a time"
    require(given.how != "outer", PipelineError, wrong, '"inner" or "left", for rows wait for no message', remedy)
    one_of(f"{what}: how", given.how, get_args(Lookup))
    return {"fn": given.fn, "how": given.how}


def checked_tables(what: str, fn: Callable[[Any, Any], Any], how: How) -> dict[str, Any]:
    """The fields of a join of two tables but its inputs; raises PipelineError for arguments that make no join."""
    function(what, fn, "left", "right")
    one_of(f"{what}: how", how, get_args(How))
    return {"fn": fn, "how": how}
