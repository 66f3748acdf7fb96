"""What a user says of DataFrames in a run: as which streams they are read, and who gets the messages of a stream."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.serde import encode_key
from ...dsl.validation import explain, require
from ...dsl.verb_calls import explained_call
from ...dsl.windows.assigners import Unbounded
from ...planner.plan import Plan, PlannedStream
from .connect_server import CONNECT, bounded_calls, is_of_connect

_log = logging.getLogger("fluvial.backfill")

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_MODULES = ("pyspark.sql.dataframe", "pyspark.sql.classic.dataframe", f"{CONNECT}dataframe")
_TEXT = 'a text, such as "at" or "unix_millis(seen)"'


@partial(explained_call, error=UsageError)
@dataclass(frozen=True, slots=True)
class DataFrameInput:
    """A DataFrame of Spark's that a run reads as a stream, with what is to be known of its columns.

    Each column goes to the field of its name in the stream's type of values; a field without a column takes its
    default. `columns` gives a field another column, or any expression of Spark's SQL. `key` and `timestamp` are the
    columns, or expressions, of a message's key and time. The time is a timestamp, or a number of ms since epoch. Left
    out, the key is in the column `key` if the stream has keys, and the time in the column `timestamp`, if the stream
    has no `timestamp=` of its own. Messages of one key are processed in the order of their times.

    A DataFrame with a column `value` of bytes, for which the type has no field, is taken as encoded messages.

    >>> clicks = spark.read.parquet("clicks")  # doctest: +SKIP
    >>> DataFrameInput(clicks, timestamp="seen", columns={"url": "concat(host, path)"})  # doctest: +SKIP
    """

    frame: Any
    key: str | None = None
    timestamp: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_frame("DataFrameInput", self.frame)
        for name, given in (("key", self.key), ("timestamp", self.timestamp)):
            valid = given is None or isinstance(given, str)
            require(valid, UsageError, f"DataFrameInput: {name}={given!r}", _TEXT, "write the name of a column")
        texts = isinstance(self.columns, Mapping) and all(
            isinstance(one, str) for pair in self.columns.items() for one in pair
        )
        wrong, remedy = f"DataFrameInput: columns={self.columns!r}", 'write columns={"field": "column"}'
        require(texts, UsageError, wrong, "texts by texts", remedy)

    @property
    def bounded(self) -> bool:
        """Whether the DataFrame is not a streaming one: it has an end."""
        return not self.frame.isStreaming


@partial(explained_call, error=UsageError)
@dataclass(frozen=True, slots=True)
class DataFrameOutput:
    """Who gets the messages of a stream as a DataFrame with typed columns, in place of the stream.

    `write(frame, batch)` is called with the rows of each batch, and its number, as by Spark's `foreachBatch`. A batch
    that is run again after a crash comes with the same number. `overwrite(frame, backfill)` is called in place of
    `write` in a run with `backfill=`, and replaces what is there of its range.

    The columns are the fields of the type of values, which the plan knows or `value` says. `key` and `timestamp` name
    columns for a message's key and time, which are left out else.

    >>> counts: list[int] = []
    >>> output = DataFrameOutput(lambda frame, batch: counts.append(frame.count()), timestamp="at")
    >>> output.timestamp
    'at'
    """

    write: Callable[[Any, int], object] | None = None
    overwrite: "Callable[[Any, Backfill], object] | None" = None
    value: Any = None
    key: str | None = None
    timestamp: str | None = None

    def __post_init__(self) -> None:
        for name, given in (("write", self.write), ("overwrite", self.overwrite)):
            wrong, expected = f"DataFrameOutput: {name}={given!r}", "a function of a DataFrame and a batch's number"
            remedy = "write lambda frame, batch: frame.write.mode('append').parquet(...)"
            require(given is None or callable(given), UsageError, wrong, expected, remedy)
        for name, text in (("key", self.key), ("timestamp", self.timestamp)):
            good = text is None or (isinstance(text, str) and bool(text))
            require(good, UsageError, f"DataFrameOutput: {name}={text!r}", "the name of a column", "leave it out")


@partial(explained_call, error=UsageError)
@dataclass(frozen=True, slots=True)
class Backfill:
    """The part of the outputs that a run over bounded DataFrames writes anew: those of a range of time, and of some
    keys.

    `start` and `end` are times, without a zone in UTC; `end` is outside. A message is written if its time is in the
    range: that of a pane is 1 ms before the end of its window. Messages are read from `lookback` before `start` to
    `lookback` behind `end`, rows of tables whatever their time. Choose `lookback` as long as the longest window, join
    or timer reaches. With `keys`, outputs with other keys are left out.

    >>> day = Backfill(datetime(2026, 3, 1), datetime(2026, 3, 2), lookback=timedelta(hours=1))
    >>> day.range
    (1772323200000, 1772409600000)
    """

    start: datetime
    end: datetime
    lookback: timedelta
    keys: Collection[Any] | None = None

    def __post_init__(self) -> None:
        times = isinstance(self.start, datetime) and isinstance(self.end, datetime)
        wrong, remedy = f"Backfill: start={self.start!r}, end={self.end!r}", "pass two datetimes, the earlier first"
        require(times and _ms(self.start) < _ms(self.end), UsageError, wrong, "a time, and a later one", remedy)
        good = isinstance(self.lookback, timedelta) and self.lookback >= timedelta(0)
        wrong, remedy = f"Backfill: lookback={self.lookback!r}", "pass as long a time as the longest window"
        require(good, UsageError, wrong, "a timedelta, not negative", remedy)
        listed = self.keys is None or (isinstance(self.keys, Collection) and not isinstance(self.keys, str | bytes))
        good = listed and (self.keys is None or (bool(self.keys) and all(map(_is_key, self.keys))))
        expected = "keys, one at least, that are str, bytes, int or tuples of them"
        require(good, UsageError, f"Backfill: keys={self.keys!r}", expected, 'write keys=["ann"], or leave it out')

    @property
    def range(self) -> tuple[int, int]:
        """The times of the range, in ms since epoch: the first, and the one behind the last."""
        return _ms(self.start), _ms(self.end)

    @property
    def span(self) -> tuple[int, int]:
        """The times of the messages that are read, in ms since epoch: the first, and the one behind the last."""
        (first, behind), around = self.range, self.lookback // timedelta(milliseconds=1)
        return first - around, behind + around


def _is_key(key: object) -> bool:
    try:
        return encode_key(key) is not None
    except (TypeError, ValueError):
        return False


def _ms(time: datetime) -> int:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class DataFrames:
    """All DataFrames of a run, by stream."""

    inputs: Mapping[str, DataFrameInput] = field(default_factory=dict)
    outputs: Mapping[str, DataFrameOutput] = field(default_factory=dict)
    backfill: Backfill | None = None

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    @property
    def bounded(self) -> bool:
        """Whether the run reads DataFrames that have an end, and is a batch job."""
        return any(one.bounded for one in self.inputs.values())

    def has(self, stream: str) -> bool:
        """Whether a stream is read from, or written to, a DataFrame."""
        return stream in self.inputs or stream in self.outputs

    def system_part(self, plan: Plan) -> Plan:
        """The plan with those streams alone that the system has."""
        return replace(plan, streams=tuple(stream for stream in plan.streams if not self.has(stream.name)))

    def alone(self, plan: Plan) -> bool:
        """Whether the run reads from DataFrames, and writes to them, alone."""
        return all(self.has(stream.name) for stream in plan.streams if stream.kind != "intermediate")


NO_DATA_FRAMES = DataFrames()


def data_frames(inputs: object, outputs: object, backfill: object) -> DataFrames:
    """What a run is given as `inputs`, `outputs` and `backfill`, checked."""
    sources, sinks = _by_stream("inputs", inputs), _by_stream("outputs", outputs)
    good = backfill is None or isinstance(backfill, Backfill)
    require(
        good, UsageError, f"backfill={backfill!r}", "a Backfill, or None", "write Backfill(start, end, lookback=...)"
    )
    frames = DataFrames(
        {name: one if isinstance(one, DataFrameInput) else DataFrameInput(one) for name, one in sources.items()},
        {name: one if isinstance(one, DataFrameOutput) else DataFrameOutput(one) for name, one in sinks.items()},
        backfill if isinstance(backfill, Backfill) else None,
    )
    with bounded_calls(frames):
        _check_kinds(frames)
    return frames


def _by_stream(what: str, given: object) -> Mapping[str, Any]:
    if given is None:
        return _NOTHING
    good = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    remedy = f'write {what}={{"stream": ...}}'
    if not good:  # else a DataFrame would be asked for its text: a query, if its session shows rows
        raise UsageError(explain(f"{what}={given!r}", "DataFrames by the names of streams", remedy))
    assert isinstance(given, Mapping)
    return given


def _check_kinds(frames: DataFrames) -> None:
    """Refuse inputs of which some have an end and others none, and outputs that have no function for the run."""
    if frames.bounded and not all(one.bounded for one in frames.inputs.values()):
        streaming = next(name for name, one in frames.inputs.items() if not one.bounded)
        wrong = f"inputs: {streaming!r} is a streaming DataFrame, and another one is not"
        remedy = "read all of them with spark.readStream, or all with spark.read"
        raise UsageError(explain(wrong, "DataFrames of one kind", remedy))
    if frames.backfill is not None and not frames.bounded:
        remedy = "read the inputs with spark.read, and pass them as inputs="
        raise UsageError(explain("backfill= without DataFrames that have an end", "such inputs", remedy))
    name = "write" if frames.backfill is None else "overwrite"
    for stream, output in frames.outputs.items():
        if getattr(output, name) is None:
            wrong = f"outputs: that of {stream!r} has no function {name}"
            expected = "one, as this run has no backfill=" if name == "write" else "one that replaces the range"
            raise UsageError(explain(wrong, expected, f"pass DataFrameOutput({name}=...)"))


def _check_frame(what: str, frame: object) -> None:
    module = type(frame).__module__
    good = type(frame).__name__ == "DataFrame" and module in _MODULES
    remedy = "pass what spark.read or spark.readStream returns"
    require(good, UsageError, f"{what}: {type(frame).__name__} of {module}", "a DataFrame of PySpark", remedy)


def check_streams(plan: Plan, frames: DataFrames, *, all_outputs: bool = True) -> None:
    """Raise UsageError for DataFrames of streams that the plan does not read, or not write, and for streams without one
    where there has to be one: for `all_outputs` of a batch job."""
    read = [stream.name for stream in plan.streams if stream.kind == "source"]
    written = [stream for stream in plan.streams if stream.kind not in ("source", "intermediate")]
    for what, given, known in (
        ("inputs", frames.inputs, read),
        ("outputs", frames.outputs, [stream.name for stream in written]),
    ):
        for name in given:
            if name not in known:
                verb = "reads" if what == "inputs" else "writes"
                wrong = f"{what}: {name!r}, where pipeline {plan.name!r} {verb} {', '.join(known) or 'nothing'}"
                raise UsageError(explain(wrong, "the name of such a stream", "correct the name", plan.pipeline.origin))
    if all_outputs:
        _check_connect(plan, frames)
    if frames.bounded or not all_outputs:
        _check_batch(plan, frames, read, written if all_outputs else [])


def _check_connect(plan: Plan, frames: DataFrames) -> None:
    """Refuse a streaming query on Spark Connect."""
    for name, one in frames.inputs.items():
        if is_of_connect(one.frame) and not one.bounded:
            wrong = (
                f"inputs: {name!r} is a streaming DataFrame of Spark Connect, by which a run cannot tell Spark's tasks "
            )
            wrong += "the time of each batch"
            remedy = "run it in a program of spark-submit's; or read it with spark.read, as a batch job"
            expected = "a streaming DataFrame of a session of this process"
            raise UnsupportedError(explain(wrong, expected, remedy, plan.pipeline.origin))


def _check_batch(plan: Plan, frames: DataFrames, read: list[str], written: list[PlannedStream]) -> None:
    """Refuse a batch job that would need a system too: it has no offsets to go on from. Nothing is late in it."""
    needed = [stream.name for stream in written if stream.kind != "late"]
    for what, given, names in (("inputs", frames.inputs, read), ("outputs", frames.outputs, needed)):
        for name in names:
            if name not in given:
                wrong = f"{what}: {name!r} is missing, where the run is a batch job over DataFrames that have an end"
                remedy = f'pass {what}={{..., "{name}": ...}}; or read the inputs with spark.readStream'
                raise UsageError(explain(wrong, "a DataFrame for each stream", remedy, plan.pipeline.origin))
    if frames.backfill is not None:
        _check_reach(plan, frames.backfill)
    sinks = [operator for operator in plan.pipeline.operators if operator.kind == "sink"]
    if frames.backfill is not None and sinks:
        wrong = f"backfill= with the sink {sinks[0].id!r}, which cannot replace what it has written"
        remedy = 'write to a stream with send_to, and pass outputs={"stream": DataFrameOutput(overwrite=...)}'
        raise UsageError(explain(wrong, "outputs that can be overwritten", remedy, sinks[0].origin))


def _check_reach(plan: Plan, backfill: Backfill) -> None:
    """Refuse a lookback that is shorter than an operator reaches, and warn of those whose reach is not known."""
    lookback = backfill.lookback // timedelta(milliseconds=1)
    for operator in plan.pipeline.operators:
        assigner = getattr(operator, "assigner", None)
        reaches = (getattr(operator, "within", None), getattr(assigner, "size", None), getattr(assigner, "gap", None))
        reach = next((reach for reach in reaches if reach), None)
        if isinstance(reach, int) and reach > lookback:
            wrong = f"backfill: lookback={backfill.lookback!r}, where {operator.label} reaches over {reach} ms"
            remedy = "choose a longer one, for sessions as long as the longest session"
            raise UsageError(explain(wrong, "a lookback as long as that at least", remedy, operator.origin))
        if operator.handler is not None or isinstance(assigner, Unbounded):
            wrong = f"backfill: {operator.label} may depend on messages from before the lookback, which are not read"
            remedy = "compare a day with what the whole job makes of it"
            _log.warning("%s", explain(wrong, "state that goes within the lookback", remedy, operator.origin))
