"""Every argument of the public API, given a value of another type: refused where it is written, never later."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import pytest

import fluvial.dsl as dsl
import fluvial.planner as planner
import fluvial.runtime as runtime
from fluvial.dsl import (
    FluvialError,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageStream,
    Pipeline,
    ProcessedStream,
    StreamTask,
    Table,
    Tag,
    count,
    tumbling,
)
from fluvial.dsl.keyed_stream import KeyedStream as Keyed
from fluvial.runtime.testing import DriverState, PipelineDriver, StreamRecords
from generators.building import pipeline_of

MINUTE = timedelta(minutes=1)


class Odd:
    """What no argument is."""

    def __repr__(self) -> str:
        return "Odd()"


class Nothing:
    """The type of nothing that is tried."""


class Drain:
    """A sink."""

    def open(self) -> None:
        pass

    def write(self, _: object) -> None:
        pass

    flush = close = open


class Echo(KeyedProcessor[str, int, int]):
    """A processor with a side output."""

    high = Tag("high", int)

    def on_message(self, message: Message[int], context: Any) -> Sequence[int]:  # noqa: ARG002
        return [message.value]


class Passing(StreamTask[Any, int, int]):
    """A stream task."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        """Do nothing."""


async def call(value: Any) -> list[Any]:
    return [value]


async def write(key: Any, row: Any) -> None:
    pass


def plain(value: Any) -> Any:
    return value


def both(left: int, right: int) -> int:
    return left + right


def words() -> MessageStream[str]:
    return Pipeline("p").stream("words", value=str)


def keyed() -> KeyedStream[str, int]:
    return Pipeline("p").stream("numbers", key=str, value=int)


def table() -> Table[str, int]:
    return Pipeline("p").table("table", key=str, value=int)


def copy() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).send_to("out")
    return pipeline


def filled() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).send_to(pipeline.table("table", key=str, value=int))
    return pipeline


def a_frame() -> Any:
    """What says of itself that it is a DataFrame."""
    return type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe", "isStreaming": False})()


def driver() -> PipelineDriver:
    return PipelineDriver(copy())


@dataclass(frozen=True)
class Case:
    """A call of something public; `on` makes what it is called on, and what it is called with may depend on that.

    `types` are those of arguments that are annotated with Any, or with what has no instances here.
    `free` are arguments that take anything, or that others check.
    """

    function: Callable[..., Any]
    good: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    on: Callable[[], Any] | None = None
    types: Mapping[str, Any] = field(default_factory=dict)
    free: tuple[str, ...] = ()


def of(
    function: Callable[..., Any], *, types: Mapping[str, Any] | None = None, free: tuple[str, ...] = (), **good: Any
) -> Case:
    """A function of a module."""
    return Case(function, lambda _: good, None, types or {}, free)


def on(
    make: Callable[[], Any],
    function: Callable[..., Any],
    *,
    types: Mapping[str, Any] | None = None,
    free: tuple[str, ...] = (),
    **good: Any,
) -> Case:
    """A method of what `make` makes; an argument that is a function of one argument named `it` is made of that."""

    def given(it: Any) -> dict[str, Any]:
        return {
            name: value(it) if getattr(value, "__name__", "") == "<lambda>" else value for name, value in good.items()
        }

    return Case(function, given, make, types or {}, free)


KIND = type
FUNCTION = Callable[..., Any]

RUN_TYPES: dict[str, Any] = {
    "spark": str | None,
    "hosts": str | None,
    "progress": Callable[..., Any] | None,
    "metrics": runtime.Metrics | None,
}
RUN_ARGUMENTS: dict[str, Any] = {
    "pipeline": copy(),
    "engine": "local",
    "system": "memory:",
    "settings": planner.Settings(),
    "until": "end",
    "progress": None,
    "metrics": None,
    "spark": None,
    "inputs": None,
    "outputs": None,
    "backfill": None,
    "hosts": None,
}
"""What `run` and `start` both take."""

CASES: dict[str, Case] = {
    "Pipeline": of(Pipeline, name="p", on_error=dsl.skip()),
    "stream": on(
        lambda: Pipeline("p"),
        Pipeline.stream,
        types={"value": KIND, "key": KIND | None},
        name="s",
        value=str,
        key=str,
        timestamp=plain,
        out_of_order=MINUTE,
        idle_after=MINUTE,
        bootstrap=True,
        priority=1,
    ),
    "task": on(
        lambda: Pipeline("p"),
        Pipeline.task,
        id="t",
        factory=Passing,
        inputs=lambda it: [it.stream("in", value=int)],
        state="task",
        window=None,
    ),
    "table": on(lambda: Pipeline("p"), Pipeline.table, name="s", value=str, key=str),
    "remote_table": on(
        lambda: Pipeline("p"),
        Pipeline.remote_table,
        types={"read": FUNCTION, "write": FUNCTION | None},
        name="r",
        read=call,
        write=write,
        max_in_flight=3,
        timeout=MINUTE,
        retry=dsl.Retry(),
        reads_per_second=3,
        writes_per_second=3.5,
        limit=dsl.Limit("s", calls=1),
        breaker=dsl.Breaker("b"),
        concurrency=dsl.Adaptive(),
        hedge=None,
        cache=dsl.Cache(),
        batch=None,
        resource=None,
    ),
    "map": on(words, MessageStream.map, fn=plain),
    "filter": on(words, MessageStream.filter, fn=plain),
    "split": on(words, MessageStream.split, predicates=plain),
    "flat_map": on(words, MessageStream.flat_map, fn=plain),
    "map_messages": on(words, MessageStream.map_messages, fn=plain),
    "async_flat_map": on(
        words,
        MessageStream.async_flat_map,
        fn=call,
        id="c",
        max_in_flight=3,
        order="key",
        timeout=MINUTE,
        retry=dsl.Retry(),
        resource=None,
        batch=None,
        limit=dsl.Limit("s", calls=1),
        breaker=dsl.Breaker("s"),
        concurrency=dsl.Adaptive(),
        journal=True,
        result=str,
        hedge=None,  # it does not go with limit=
    ),
    "merge": on(words, MessageStream.merge, others=lambda it: it),
    "partition_by": on(words, MessageStream.partition_by, fn=plain, id="by", key_type=str, value=str, priority=1),
    "broadcast": on(words, MessageStream.broadcast, id="to-all", value=str),
    "send_to": on(words, MessageStream.send_to, name="out", key=plain, value=str),
    "sink": on(words, MessageStream.sink, types={"sink": Nothing}, sink=Drain(), id="s"),
    "keyed.map": on(keyed, Keyed.map, fn=plain),
    "keyed.flat_map": on(keyed, Keyed.flat_map, fn=plain),
    "keyed.async_flat_map": on(
        keyed,
        Keyed.async_flat_map,
        fn=call,
        id="c",
        max_in_flight=3,
        order="key",
        timeout=MINUTE,
        retry=dsl.Retry(),
        resource=None,
        batch=None,
        limit=dsl.Limit("s", calls=1),
        breaker=dsl.Breaker("s"),
        concurrency=dsl.Adaptive(),
        journal=True,
        result=str,
        hedge=None,  # it does not go with limit=
    ),
    "keyed.merge": on(keyed, Keyed.merge, others=lambda it: it),
    "window": on(
        keyed,
        Keyed.window,
        assigner=tumbling(MINUTE),
        aggregate=count(),
        id="w",
        trigger=dsl.after_count(3),
        late_trigger=dsl.after_count(3),
        accumulate=True,
        lateness=MINUTE,
        late_to="late",
        time="event",
    ),
    "join": on(
        keyed,
        Keyed.join,
        other=lambda it: it.map(plain),
        fn=both,
        id="j",
        within=MINUTE,
        how="inner",
        retain="all",
        time="event",
    ),
    "deduplicate": on(keyed, Keyed.deduplicate, within=MINUTE, by=plain, by_type=str, id="d"),
    "process": on(keyed, Keyed.process, processor=Echo(), id="p"),
    "tagged": on(lambda: keyed().process(Echo(), id="p"), ProcessedStream.tagged, tag=Echo.high),
    "Table.join": on(
        table,
        Table.join,
        other=lambda it: pipeline_of(it).table("other", key=str, value=int),
        fn=both,
        id="j",
        how="inner",
    ),
    "aggregate": of(dsl.aggregate, types={"type": KIND}, init=int, add=both, merge=both, type=int),
    "total": of(dsl.total, fn=plain),
    "mean": of(dsl.mean, fn=plain),
    "minimum": of(dsl.minimum, types={"type": KIND}, fn=plain, type=int),
    "maximum": of(dsl.maximum, types={"type": KIND}, fn=plain, type=int),
    "reduce": of(dsl.reduce, fn=both),
    "tumbling": of(dsl.tumbling, size=MINUTE),
    "hopping": of(dsl.hopping, size=MINUTE, every=MINUTE),
    "session": of(dsl.session, gap=MINUTE),
    "after_count": of(dsl.after_count, messages=3),
    "after": of(dsl.after, first=MINUTE, last=None),
    "any_of": of(dsl.any_of, triggers=dsl.after_count(3)),
    "repeat": of(dsl.repeat, trigger=dsl.after_count(3)),
    "Trigger": of(dsl.Trigger, count=3, first=1000, last=1000, repeats=True),
    "Retry": of(
        dsl.Retry,
        attempts=3,
        delay=MINUTE,
        factor=2.0,
        max_delay=MINUTE,
        on=(OSError,),
        after=plain,
        max_after=MINUTE,
        jitter=0.5,
    ),
    "Cache": of(dsl.Cache, size=3, ttl=MINUTE, missing=MINUTE),
    "resource": of(dsl.resource, factory=dict),
    "in_threads": of(dsl.in_threads, fn=len, threads=2),
    "in_processes": of(dsl.in_processes, fn=len, processes=2),
    "Batch": of(dsl.Batch, size=3, delay=MINUTE),
    "Adaptive": of(dsl.Adaptive, least=2),
    "Breaker": of(dsl.Breaker, name="s", failures=3, rest=MINUTE, on=(OSError,)),
    "Limit": of(
        dsl.Limit,
        name="s",
        calls=3,
        tokens=3.5,
        per=MINUTE,
        estimate=plain,
        used=lambda *_: 1,
        budget=3,
        cost=lambda *_: 1,
        when_exhausted="error",
    ),
    "ErrorPolicy": of(dsl.ErrorPolicy, action="skip", on=(ValueError,)),
    "skip": of(dsl.skip, on=(ValueError,)),
    "dead_letter": of(dsl.dead_letter, on=(ValueError,)),
    "Serde": of(dsl.Serde, free=("type",), name="x", type=int, encode=plain, decode=plain, check=plain),
    "msgpack": of(dsl.msgpack, type=int),
    "Tag": of(dsl.Tag, name="t", type=int),
    "ValueState": of(dsl.ValueState, types={"type": KIND}, free=("default",), type=int, default=0, ttl=MINUTE),
    "ListState": of(dsl.ListState, type=int, ttl=MINUTE),
    "MapState": of(dsl.MapState, key=str, type=int, ttl=MINUTE),
    "plan": of(planner.plan, pipeline=copy(), partitions={"in": 1}, settings=planner.Settings()),
    "Settings": of(planner.Settings, types=get_type_hints(planner.Settings)),
    "draw": of(planner.draw, plan=planner.plan(copy()), format="svg", view="stages"),
    "Plan.from_json": of(planner.Plan.from_json, text=planner.plan(copy()).to_json(), pipeline=copy()),
    "run": of(
        runtime.run,
        types=RUN_TYPES,
        **RUN_ARGUMENTS,
        container_id=0,
        containers=1,
    ),
    "start": of(
        runtime.start,
        types=RUN_TYPES,
        **RUN_ARGUMENTS,
        containers=None,
    ),
    "DataFrameInput": of(
        runtime.DataFrameInput, types={"frame": Nothing}, frame=a_frame(), key="k", timestamp="t", columns={}
    ),
    "DataFrameOutput": of(
        runtime.DataFrameOutput,
        types={"write": FUNCTION | None, "overwrite": FUNCTION | None},
        free=("value",),
        write=plain,
        key="k",
        timestamp="t",
    ),
    "Backfill": of(
        runtime.Backfill, start=datetime(2026, 3, 1), end=datetime(2026, 3, 2), lookback=MINUTE, keys=["ann"]
    ),
    "to_dataframe": of(
        runtime.to_dataframe, free=("value",), pipeline=copy(), stream="out", inputs={"in": a_frame()}, key="k"
    ),
    "committed_offsets": of(
        runtime.committed_offsets, pipeline=copy(), engine="local", system="log:kept", settings=planner.Settings()
    ),
    "list_dead_letters": of(runtime.list_dead_letters, pipeline=copy(), system="log:kept", handled=True),
    "show_dead_letter": of(runtime.show_dead_letter, pipeline=copy(), letter="0:12", system="log:kept"),
    "replay_dead_letters": of(
        runtime.replay_dead_letters,
        pipeline=copy(),
        letters=["0:12"],
        operator="send_to-2",
        system="log:kept",
        dry_run=True,
    ),
    "drop_dead_letters": of(
        runtime.drop_dead_letters,
        pipeline=copy(),
        letters=["0:12"],
        operator="send_to-2",
        system="log:kept",
        dry_run=True,
    ),
    "set_offsets": of(
        runtime.set_offsets,
        pipeline=copy(),
        inputs={"in": "latest"},
        engine="local",
        system="log:kept",
        settings=planner.Settings(),
        dry_run=True,
    ),
    "export_offsets": of(
        runtime.export_offsets,
        pipeline=copy(),
        file="offsets.json",
        engine="local",
        system="log:kept",
        settings=planner.Settings(),
    ),
    "import_offsets": of(
        runtime.import_offsets,
        pipeline=copy(),
        file="offsets.json",
        engine="local",
        system="log:kept",
        settings=planner.Settings(),
        dry_run=True,
    ),
    "reset": of(
        runtime.reset,
        pipeline=copy(),
        states=None,
        engine="local",
        system="log:kept",
        settings=planner.Settings(),
        dry_run=True,
    ),
    "scale": of(
        runtime.scale, pipeline=copy(), containers=2, system="memory:", dry_run=True, timeout=MINUTE, say=plain
    ),
    "KeyedExecutor": of(
        runtime.KeyedExecutor,
        fn=call,
        max_in_flight=2,
        order="key",
        max_waiting=2,
        max_per_key=2,
        max_ahead=2,
        timeout=MINUTE,
        retry=dsl.Retry(),
        on_error=dsl.skip(),
        on_result=both,
        on_skip=both,
        threads=False,
    ),
    "drain": of(
        runtime.drain, pipeline=copy(), system="memory:", group_by="partition", dry_run=True, timeout=MINUTE, say=plain
    ),
    "open_system": of(runtime.open_system, target="memory:"),
    "KafkaSystem": of(
        runtime.KafkaSystem, servers="localhost:9092", conf={}, topics={}, reach_within=MINUTE, give_up_after=MINUTE
    ),
    "Metrics": of(runtime.Metrics, free=("clock",), port=0, host="127.0.0.1"),
    "PipelineDriver": of(
        PipelineDriver,
        free=("async_results",),
        pipeline=copy(),
        partitions={"in": 1},
        start=0,
        settings=planner.Settings(),
        commits="timed",
        resources={},
    ),
    "driver.send": on(
        driver,
        PipelineDriver.send,
        types={"key": int | str | bytes | None, "value": int | str | float | bool | bytes | tuple | timedelta | None},
        stream="in",
        value=3,
        timestamp=3,
        partition=0,
        headers=(),
    ),
    "driver.advance": on(driver, PipelineDriver.advance, duration=MINUTE),
    "driver.read": on(driver, PipelineDriver.read, stream="out"),
    "driver.take": on(driver, PipelineDriver.take, stream="out"),
    "driver.records.read": on(lambda: driver().records, StreamRecords.read, stream="out"),
    "driver.state.table": on(lambda: PipelineDriver(filled()).state, DriverState.table, id="table"),
    "driver.state.watermark": on(lambda: driver().state, DriverState.watermark, operator="send_to-2"),
}

NAMES = {
    "KeyedStream": KeyedStream,
    "Pipeline": Pipeline,
    "Metrics": runtime.Metrics,
    "ProcessedStream": ProcessedStream,
}
"""What annotations name that is imported for type checkers alone."""

CANDIDATES: tuple[Any, ...] = (Odd(), 3, True, 2.5, "?/", b"?", (3,), timedelta(-1), print, None)


def accepts(kind: Any, value: Any) -> bool:
    """Whether a value may be of a type, as far as a wrong one is told from it here."""
    origin = get_origin(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(accepts(part, value) for part in get_args(kind))
    if origin is Literal:
        return value in get_args(kind) and type(value) is not bool
    if origin is Callable or origin is get_origin(Callable[..., Any]):
        return callable(value)
    if kind is NoneType or kind is None:
        return value is None
    if origin is type:
        return isinstance(value, type) or value is None
    if kind is type:
        return isinstance(value, type)
    if kind is float:
        return type(value) in (int, float)
    if kind is int:
        return type(value) is int
    if getattr(origin or kind, "_is_protocol", False) and not hasattr(kind, "__len__"):
        return False
    return isinstance(value, origin or kind)


def arguments() -> Iterator[Any]:
    for name, case in CASES.items():
        function: Any = getattr(case.function, "__init__") if isinstance(case.function, type) else case.function  # noqa: B009
        hints = get_type_hints(function, localns=NAMES)
        for parameter in inspect.signature(case.function).parameters:
            if parameter == "self" or parameter in case.free:
                continue
            kind = case.types.get(parameter, hints.get(parameter, Any))
            for wrong in CANDIDATES:
                if not accepts(kind, wrong):
                    yield pytest.param(name, parameter, wrong, id=f"{name}-{parameter}-{wrong!r}"[:60])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call leaves behind stays here."""
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path)


def called(case: Case, changed: Mapping[str, Any]) -> Any:
    made = None if case.on is None else case.on()
    given = {**case.good(made), **changed}
    function = case.function if case.on is None else getattr(made, case.function.__name__)
    several = [p.name for p in inspect.signature(case.function).parameters.values() if p.kind is p.VAR_POSITIONAL]
    first = [given.pop(name) for name in several]
    return function(*first, **given)


@pytest.mark.parametrize(("name", "argument", "wrong"), list(arguments()))
def test_a_wrong_argument_is_refused_where_it_is_written(name: str, argument: str, wrong: Any) -> None:
    with pytest.raises(FluvialError) as raised:
        called(CASES[name], {argument: wrong})
    assert f"{Path(__file__).name}:" in str(raised.value)


DATA = {
    "Aggregate",
    "AsyncCollector",
    "AsyncStreamTask",
    "BatchPart",
    "ClockTimers",
    "Collector",
    "Context",
    "Envelope",
    "Headers",
    "KeyedProcessor",
    "KeyedStream",
    "Message",
    "MessageStream",
    "Pane",
    "PooledFunction",
    "ProcessedStream",
    "RemoteTable",
    "Resource",
    "Sink",
    "StreamTask",
    "Table",
    "Tagged",
    "TaskCallback",
    "TaskContext",
    "TaskCoordinator",
    "TaskStream",
    "Timer",
    "Window",
    "Plan",
    "PlannedOperator",
    "PlannedStage",
    "PlannedStore",
    "PlannedStream",
    "Progress",
    "Report",
    "RunHandle",
    "ResetStep",
    "InputOffset",
    "OffsetChange",
    "SetOffsets",
    "DeadLetter",
    "HandledLetters",
    "LetterGroup",
    "Submission",
    "Guarantee",
}
"""What users read, or subclass, or get from a function that is tried."""


@pytest.mark.parametrize("module", [dsl, planner, runtime], ids=lambda module: module.__name__)
def test_all_that_is_public_is_tried(module: Any) -> None:
    public = {name for name in module.__all__ if callable(getattr(module, name))}
    errors = {
        name for name in public if isinstance(kind := getattr(module, name), type) and issubclass(kind, Exception)
    }
    without = {name for name in public - errors - DATA if not inspect.signature(getattr(module, name)).parameters}
    assert public - errors - DATA - without == public & CASES.keys()


UNTRIED = {"operator", "changes"}
"""Methods that look something up, or take no argument."""


@pytest.mark.parametrize("kind", [MessageStream, KeyedStream, Table, Pipeline], ids=lambda kind: kind.__name__)
def test_each_public_method_is_tried(kind: type) -> None:
    """One that is overridden is tried once at least."""
    methods = {name for name, method in vars(kind).items() if inspect.isfunction(method) and name[0] != "_"}
    methods = {vars(kind)[name].__name__ for name in methods}  # a second spelling is no second method
    tried = {case.function.__name__ for case in CASES.values()} | UNTRIED
    assert methods <= tried, f"CASES of this file have no case for {methods - tried}"


def test_every_argument_is_tried() -> None:
    tried = {(given.values[0], given.values[1]) for given in arguments()}
    asked = {
        (name, parameter)
        for name, case in CASES.items()
        for parameter in inspect.signature(case.function).parameters
        if parameter != "self" and parameter not in case.free
    }
    assert asked == tried


OF_A_RUN = {
    "set_offsets",
    "export_offsets",
    "import_offsets",
    "show_dead_letter",
    "replay_dead_letters",
    "drop_dead_letters",
}
"""What needs streams that a run has read or written."""


@pytest.mark.parametrize("name", CASES)
def test_the_right_arguments_are_taken(name: str) -> None:
    # Of which two exclude each other, one takes a while, one needs Spark, two a pipeline that runs on Kafka, and some
    # one that has run.
    if name not in {"run", "start", "after", "to_dataframe", "scale", "drain"} | OF_A_RUN:
        called(CASES[name], {})
