"""The operator of windows, and the checks of what its verb is given."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, get_args

from ..errors import PipelineError
from ..validation import flag, millis, one_of, require, stream_name
from ..windows.aggregates import Aggregate
from ..windows.assigners import Assigner, Session, Unbounded, aligned_span
from ..windows.triggers import Trigger
from .base import Emits, Operator, Role, Time


@dataclass(frozen=True, slots=True)
class PartialAggregates:
    """Accumulators of an aggregate, each of messages of one span of time. `span` is the size of the spans in ms, which
    are aligned to the epoch."""

    aggregate: Aggregate[Any, Any]
    span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBy(Operator):
    """Gathers the messages of each key and window into one value, and emits it as a pane. `lateness` in ms."""

    assigner: Assigner
    aggregate: Aggregate[Any, Any]
    trigger: Trigger | None
    late_trigger: Trigger | None
    lateness: int
    late_to: str | None
    accumulate: bool
    time: Time = "event"
    combine: bool = True
    exclusive: bool = True
    kind: ClassVar[str] = "window"
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
        """Whether its windows are sessions."""
        return isinstance(self.assigner, Session)

    @property
    def takes_partials(self) -> PartialAggregates | None:
        """The partial aggregates that it may be given: those of messages that all lie in the same windows. None if the
        aggregate does not merge. Late messages for a stream of their own are single ones."""
        merges = self.time == "event" and self.aggregate.combines is not None and not self.late_to
        span = aligned_span(self.assigner) if merges else None
        return None if span is None else PartialAggregates(self.aggregate, span)

    @property
    def combines(self) -> bool:
        """Whether messages are to be aggregated before they come here. Triggers and late panes are those of single
        messages."""
        single = self.trigger or self.late_trigger or self.lateness
        return self.combine and not single and self.takes_partials is not None

    @property
    def keeps_values(self) -> bool:
        """Whether it aggregates by `collect()`, whose accumulator is a list of the values themselves."""
        return self.aggregate.kind == "collect"


ASSIGNERS = "tumbling(...), hopping(...), session(...) or unbounded()"


@dataclass(frozen=True, slots=True)
class WindowRules:
    """The arguments of `KeyedStream.window` as they were given; `what` names the window."""

    what: str
    assigner: Assigner
    aggregate: Aggregate[Any, Any]
    trigger: Trigger | None
    late_trigger: Trigger | None
    lateness: timedelta
    late_to: str | None
    accumulate: bool
    time: Time
    combine: bool
    exclusive: bool


def checked_window(given: WindowRules) -> dict[str, Any]:
    """The fields of the operator; raises PipelineError for arguments that make no window."""
    what, aggregate = given.what, given.aggregate
    good, remedy = isinstance(given.assigner, Assigner), "write window(tumbling(...), count(), id=...), in that order"
    require(good, PipelineError, f"{what}: its windows are {given.assigner!r}", ASSIGNERS, remedy)
    good, remedy = isinstance(aggregate, Aggregate), "write count(), total(fn), aggregate(...)"
    require(good, PipelineError, f"{what}: {aggregate!r}", "an aggregate", remedy)
    good, remedy = (
        not isinstance(given.assigner, Session) or aggregate.merge is not None,
        "pass merge= to aggregate(...)",
    )
    wrong = f"{what}: sessions merge, {aggregate.name} cannot"
    require(good, PipelineError, wrong, "an aggregate with merge", remedy)
    lateness = millis(f"{what}: lateness", given.lateness)
    one_of(f"{what}: time", given.time, get_args(Time))
    flag(f"{what}: accumulate", given.accumulate)
    flag(f"{what}: combine", given.combine)
    flag(f"{what}: exclusive", given.exclusive)
    _check_lateness(given, lateness)
    _check_triggers(given, lateness)
    if given.late_to is not None:
        stream_name(given.late_to)
    return {
        "assigner": given.assigner,
        "aggregate": aggregate,
        "trigger": given.trigger,
        "late_trigger": given.late_trigger,
        "accumulate": given.accumulate,
        "lateness": lateness,
        "late_to": given.late_to,
        "time": given.time,
        "combine": given.combine,
        "exclusive": given.exclusive,
    }


def _check_lateness(given: WindowRules, lateness: int) -> None:
    """Refuse what is said of late messages where there can be none."""
    cases = {"unbounded()": isinstance(given.assigner, Unbounded), 'time="processing"': given.time == "processing"}
    for name, option in (("lateness", lateness), ("late_trigger", given.late_trigger), ("late_to", given.late_to)):
        for case, holds in cases.items():
            wrong, remedy = f"{given.what}: {name}= with {case}", "leave it out: nothing is late for such a window"
            require(not (holds and option), PipelineError, wrong, f"no {name}", remedy)


def _check_triggers(given: WindowRules, lateness: int) -> None:
    what = given.what
    for name, trigger in (("trigger", given.trigger), ("late_trigger", given.late_trigger)):
        good = trigger is None or isinstance(trigger, Trigger)
        wrong, remedy = f"{what}: {name}={trigger!r}", "write after_count(100) or repeat(after(first=timedelta(...)))"
        require(good, PipelineError, wrong, "a trigger", remedy)
    good = given.late_trigger is None or lateness > 0
    wrong = f"{what}: late_trigger= without lateness"
    require(good, PipelineError, wrong, "lateness=, within which messages may be late", "pass lateness=timedelta(...)")
