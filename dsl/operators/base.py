"""The record of an operator, and what is true of all kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..origin import Origin
from .calls import AsyncCall
from .labels import call_text, function_name, line_of, numbered_label

Role = Literal["non-terminal", "terminal", "both"]
Emits = Literal["one", "routed", "some", "many"]
"""How many messages an operator emits for each that it is given: one to all that follow, one to a single follower, none
or one, or any number."""
Time = Literal["event", "processing"]
StateEntries = Literal["keyed", "named", "declared"]
"""By what the entries of an operator's state are: by the keys of messages, by a name beside the key, or by what a class
of the user's declares."""

# An object of its own, for None is what a user may pass by mistake, and is refused as an id.
NAMELESS: Any = object()
"""The id of an operator that the pipeline is to number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A node of a pipeline's graph.

    A terminal operator is where a message lands; a non-terminal one passes on what it is given; one that is both may
    keep a message and later emit. What planner and engines ask of an operator stands here, so that they need not know
    its kind: what a kind does not say otherwise holds for it as for all.
    """

    id: str
    inputs: tuple[str, ...]
    origin: Origin
    number_on_line: int = 0
    """Which it is of those of its line that read alike, from 1; 0 where it is the only one."""
    kind: ClassVar[str]
    role: ClassVar[Role] = "non-terminal"
    emits: ClassVar[Emits] = "one"
    is_border: ClassVar[bool] = False
    """Whether it writes an intermediate stream, which the next stage reads."""
    is_table: ClassVar[bool] = False
    """Whether it keeps the rows of a table."""
    looks_up: ClassVar[bool] = False
    """Whether it passes messages on with the rows that a table has for their keys."""
    meets_by_time: ClassVar[bool] = False
    """Whether it brings those messages together whose times are near each other."""
    wants_place: ClassVar[bool] = False
    """Whether it is told where each message was read, and may ask something of the run."""
    state_entries: ClassVar[StateEntries] = "keyed"
    """By what the entries of its state are, if it keeps any."""
    decodes_values: ClassVar[bool] = False
    """Whether the values that it emits were decoded as the type that it declares, and so are of that type."""

    @property
    def label(self) -> str:
        """A short text that tells an operator from its neighbours: `map(to_visit)`, `filter(lambda, visits.py:12)`,
        `stream clicks`, `window visits`; of two that read alike on one line, `map(lambda, visits.py:12, 1st)`."""
        plain = self.plain_label
        return plain if self.number_on_line == 0 else numbered_label(plain, line_of(self.origin), self.number_on_line)

    @property
    def plain_label(self) -> str:
        """Its label, without the number that tells it from others of its line."""
        return f"{self.kind} {self.id}"

    @property
    def name(self) -> str:
        """What the user calls it, and its state and messages are found by; empty where the pipeline numbers it."""
        return self.id

    @property
    def way(self) -> str:
        """The function or branch that messages pass in it, if that tells two ways of messages apart; else empty."""
        return ""

    @property
    def fed_by(self) -> tuple[str, ...]:
        """The inputs whose messages it is given: all but a table that it looks up."""
        return self.inputs

    @property
    def reads(self) -> str | None:
        """The name of the stream that it reads; None unless it is a source."""
        return None

    @property
    def uses_table(self) -> str | None:
        """The id of the table that it looks up or, being terminal, fills; None if there is none."""
        return None

    @property
    def fills(self) -> str | None:
        """The id of the table that it sends rows to; None if there is none."""
        return self.uses_table if self.role == "terminal" else None

    @property
    def async_call(self) -> AsyncCall | None:
        """The asynchronous call that it makes for each message; None if it makes none."""
        return None

    @property
    def called(self) -> tuple[Callable[..., Any], ...]:
        """The functions and methods of the user's that may be given a client: those of calls, sinks, processors and
        stream tasks. Others, such as that of a `map`, have no use for one."""
        return () if self.async_call is None else (self.async_call.fn,)

    @property
    def opens(self) -> tuple[Any, ...]:
        """What each process opens before it runs the operator, and closes at the end: resources, and objects of the
        user's. A sink is not among them: it is opened where it is written to."""
        return () if self.async_call is None else self.async_call.opens

    @property
    def handler(self) -> Any:
        """The object of the user's that messages are handed to, whose class declares states and side outputs; None if
        there is none."""
        return None

    @property
    def is_elastic(self) -> bool:
        """Whether its messages may be split by key among several tasks."""
        return True

    @property
    def time_domain(self) -> Time:
        """By which time it brings messages together: their own, or that of the clock."""
        return "event"

    @property
    def takes_partials(self) -> Any:
        """The `PartialAggregates` that it may be given in place of messages; None if it takes none."""
        return None

    @property
    def combines(self) -> bool:
        """Whether messages are to be aggregated before they come here."""
        return False

    @property
    def keeps_values(self) -> bool:
        """Whether its state holds the values that it is given, as they are."""
        return False

    @property
    def keeps_state(self) -> bool:
        """Whether messages may change its state, where its kind has some."""
        return True

    @property
    def is_exclusive(self) -> bool:
        """Whether messages wait for what time makes it emit, until that has gone through the calls behind it."""
        return True

    @property
    def fires_by_key(self) -> bool:
        """Whether time makes it emit for one key at a time, and so with nearly each message of the others."""
        return False

    @property
    def follows_clock(self) -> bool:
        """Whether the clock makes it fire, so that an engine has to wake it when no message comes."""
        return self.time_domain == "processing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered(Operator):
    """An operator whose id counts the operators before it, and changes when one is added."""

    @property
    def plain_label(self) -> str:
        """Its kind and line, `merge(visits.py:12)`: its id says nothing to people."""
        return call_text(self.kind, line_of(self.origin))

    @property
    def name(self) -> str:
        """Empty: the id changes when an operator is added before it, so that nothing may be found by it."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerMessage(Numbered):
    """An operator that calls a function of the user's with each message or value."""

    fn: Callable[[Any], Any]

    @property
    def plain_label(self) -> str:
        """Its kind and function, `map(to_visit)`; a lambda has its line, too."""
        name = function_name(self.fn)
        return call_text(self.kind, name, line_of(self.origin) if name == "lambda" else "")

    @property
    def way(self) -> str:
        """The name of its function; empty for a lambda, which has none that stays."""
        name = function_name(self.fn)
        return "" if name == "lambda" else name
