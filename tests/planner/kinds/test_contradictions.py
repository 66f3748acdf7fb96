"""What the values of a stream contradict: functions of joins, windows, keys and remote tables, sinks and `value=`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from typing import Annotated, Any, NewType, Protocol, TypeVar

import pytest

from explained import error_of
from fluvial.dsl import (
    INT64,
    Batch,
    KeyedProcessor,
    Message,
    Pipeline,
    PlanError,
    aggregate,
    collect,
    maximum,
    mean,
    minimum,
    reduce,
    total,
    tumbling,
)
from fluvial.planner.annotation_checks import check_annotations
from fluvial.planner.type_inference import flows

T = TypeVar("T")
Cents = NewType("Cents", int)
HOUR = timedelta(hours=1)


@dataclass
class Order:
    item: str


@dataclass
class Express(Order):
    hours: int


class HasItem(Protocol):
    item: str


def annotated(fn: Any, **types: Any) -> Any:
    fn.__annotations__ = types
    return fn


def takes(type_: Any) -> Any:
    return annotated(lambda value: value, value=type_)


def sides(left: Any, right: Any) -> Any:
    return annotated(lambda left, right: (left, right), left=left, right=right)


def added(type_: Any) -> Any:
    return annotated(lambda acc, value: [*acc, value], value=type_)


def remote(written: bool = False, batch: Any = None, **types: Any) -> Any:
    """A remote table; its functions are annotated so."""

    async def read(key: Any) -> Any:
        return key

    async def write(key: Any, row: Any = ...) -> Any:
        return key, row

    read.__annotations__ = {} if written else types
    write.__annotations__ = types
    return Pipeline("q").remote_table("t", read=read, write=write, batch=batch)


def sink(type_: Any) -> Any:
    class Into:
        def open(self) -> None: ...

        def write(self, messages: Any) -> None: ...

        flush = close = open

    message: Any = Message
    annotated(Into.write, messages=Sequence[message[type_]])
    return Into()


def processor(type_: Any) -> Any:
    base: Any = KeyedProcessor

    class Handler(base[str, type_, str]):  # type: ignore[misc]
        def on_message(self, message: Any, context: Any) -> list[str]:
            return [message, context]

    return Handler()


def rows_of(type_: Any) -> Any:
    mapping: Any = Mapping
    return mapping[str, type_ | None]


def windowed(made: Any) -> Callable[[Any, Any], Any]:
    return lambda keyed, type_: keyed.window(tumbling(HOUR), made(type_), id="w")


def looked_up(keyed: Any, type_: Any) -> Any:
    return keyed.join(remote(), sides(type_, Any), id="j")


def message_of(type_: Any) -> Any:
    message: Any = Message
    return annotated(lambda value: value, value=message[type_])


TAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "map_messages": lambda keyed, type_: keyed.map_messages(message_of(type_)),
    "async_flat_map": lambda keyed, type_: keyed.async_flat_map(asynchronous(type_), id="a"),
    "send_to key": lambda keyed, type_: keyed.send_to("o", key=takes(type_)),
    "total": windowed(lambda type_: total(takes(type_))),
    "mean": windowed(lambda type_: mean(takes(type_))),
    "minimum": windowed(lambda type_: minimum(takes(type_), type=int)),
    "maximum": windowed(lambda type_: maximum(takes(type_), type=int)),
    "reduce": windowed(lambda type_: reduce(sides(type_, Any))),
    "reduce, right": windowed(lambda type_: reduce(sides(Any, type_))),
    "aggregate": windowed(lambda type_: aggregate(list, added(type_), type=list[Any])),
    "join": lambda keyed, type_: keyed.join(keyed.filter(bool), sides(type_, Any), id="j", within=HOUR),
    "join, right": lambda keyed, type_: keyed.join(keyed.filter(bool), sides(Any, type_), id="j", within=HOUR),
    "join remote": looked_up,
    "sink": lambda keyed, type_: keyed.sink(sink(type_), id="s"),
    "process": lambda keyed, type_: keyed.process(processor(type_), id="p"),
    "write": lambda keyed, type_: keyed.send_to(remote(written=True, row=type_)),
    "write a batch": lambda keyed, type_: keyed.send_to(
        remote(written=True, batch=Batch(), key=rows_of(type_))
    ),
    "broadcast": lambda keyed, type_: keyed.broadcast(id="b", value=type_),
    "partition_by": lambda keyed, type_: keyed.partition_by(lambda _: "", id="b", key_type=str, value=type_),
}  # fmt: skip
DECLARED = {"broadcast", "partition_by"}
"""What is told by value= must be a type that can be decoded."""


def asynchronous(type_: Any) -> Any:
    async def fetch(value: Any) -> list[Any]:
        return [value]

    return annotated(fetch, value=type_)


def gives(type_: Any) -> Any:
    return annotated(lambda value: value, **{"return": type_})


def handed(name: str, wanted: Any, keyed: Any) -> None:
    TAKERS[name](keyed, wanted)


def handed_from(fn: Any, name: str, wanted: Any, keyed: Any) -> None:
    TAKERS[name](keyed.map(fn), wanted)


def mapped(fns: Sequence[Any], keyed: Any) -> None:
    for fn in fns:
        keyed = keyed.map(fn)


def joined_left(fn: Any, keyed: Any) -> None:
    keyed.join(keyed.filter(bool), fn, id="j", within=HOUR, how="left")


def checked(written: Callable[[Any], Any], given: Any = str) -> None:
    pipeline = Pipeline("p")
    written(pipeline.stream("in", key=str, value=given))
    check_annotations(pipeline, flows(pipeline))


@pytest.mark.parametrize("name", TAKERS)
def test_what_takes_other_values_is_refused(name: str) -> None:
    for given, wanted in (str, int), (int, str), (Order, int), (bytes, str):
        error = error_of(partial(checked, partial(handed, name, wanted), given), PlanError)
        assert given.__name__ in str(error)
        assert wanted.__name__ in str(error)


@pytest.mark.parametrize("name", sorted(TAKERS.keys() - DECLARED))
def test_what_may_take_the_values_is_accepted(name: str) -> None:
    for given, wanted in (
        (int, float), (float, int), (bool, int), (Express, Order), (Order, Express), (Order, HasItem), (str, object),
        (str, Any), (str, str | int), (str, str | None), (str | None, int), (str, T), (INT64, str), (int, Cents),
        (str, Annotated[str, "id"]), (dict[str, str], list[str]),
    ):  # fmt: skip
        checked(partial(handed, name, wanted), given)


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_a_declared_value_that_may_be_right_is_accepted(name: str) -> None:
    for given, wanted in (
        (int, float),
        (float, int),
        (Express, Order),
        (Order, dict[str, str]),
        (Any, str),
        (int, INT64),
    ):
        checked(partial(handed_from, gives(given), name, wanted))


def test_a_border_whose_values_lack_a_field_is_refused() -> None:
    error = error_of(lambda: checked(lambda keyed: keyed.broadcast(id="b", value=Express), Visit), PlanError)
    assert "broadcast b gets Visit, which has no 'item', and value=Express" in str(error)


@dataclass
class Visit:
    page: str


@pytest.mark.parametrize(
    ("how", "left", "right", "side"),
    [("left", str, str, "right"), ("outer", str, str | None, "left"), ("outer", str | None, str, "right")],
)
def test_a_side_that_may_be_missing_and_takes_no_none_is_refused(how: Any, left: Any, right: Any, side: str) -> None:
    def joined(keyed: Any) -> None:
        keyed.join(keyed.filter(bool), sides(left, right), id="j", within=HOUR, how=how)

    error = str(error_of(lambda: checked(joined), PlanError))
    assert f'join j gives None for a {side} row that is missing, by how="{how}", and lambda takes str' in error
    assert "annotate it as str | None" in error


def test_a_side_that_may_be_missing_and_may_be_none_is_accepted() -> None:
    with_default: Any = annotated(lambda left, right=None: (left, right), left=str, right=str)
    for fn in (
        sides(str, str | None), sides(str, Any), sides(str, T), sides(str, object), sides(str, HasItem), with_default,
        decorated(sides(str, str)), max,
    ):  # fmt: skip
        checked(partial(joined_left, fn))


def decorated(fn: Any) -> Any:
    @wraps(fn)
    def called(*values: Any) -> Any:
        return fn(*values)

    return called


def joining(left: Any, right: Any) -> Any:
    return annotated(lambda left, right: [left, right], left=left, right=right, **{"return": str})


def tables(how: Any, left: Any, right: Any) -> Any:
    pipeline = Pipeline("p")
    one, other = (pipeline.table(name, key=str, value=str) for name in ("a", "b"))
    one.join(other, joining(left, right), id="j", how=how)
    pipeline.stream("in", key=str, value=int).join(one, sides(Any, right), id="k", how=how)
    check_annotations(pipeline, flows(pipeline))


def test_the_rows_of_tables_are_sides() -> None:
    tables("inner", str, str)
    tables("left", str, str | None)
    assert "gives str as its left side" in str(error_of(lambda: tables("inner", int, str), PlanError))
    assert "gives str as its right side" in str(error_of(lambda: tables("inner", str, int), PlanError))
    assert "gives None for a right row" in str(error_of(lambda: tables("left", str, str), PlanError))


@pytest.mark.parametrize("batch", [None, Batch()])
def test_the_row_that_a_remote_table_reads_is_a_side(batch: Any) -> None:
    def joined(type_: Any) -> Callable[[Any], Any]:
        read: dict[str, Any] = {"return": str | None} if batch is None else {"return": dict[str, str]}
        return lambda keyed: keyed.join(remote(batch=batch, **read), sides(Any, type_), id="j")

    checked(joined(str))
    assert "gives str as its right side, and lambda takes int" in str(error_of(lambda: checked(joined(int)), PlanError))


def test_the_class_of_a_method_is_what_it_takes() -> None:
    error = error_of(lambda: checked(lambda keyed: keyed.map(str.upper), int), PlanError)
    assert "map(upper) gets int, and upper takes str" in str(error)
    error = error_of(lambda: checked(lambda keyed: keyed.map(len), int), PlanError)
    assert "map(len) gets int, and len takes Sized" in str(error)
    for fn, given in (len, str), (len, Order), (len, Any), (str.upper, Any), (str.upper, T), (dict.keys, int):
        checked(partial(mapped, [gives(given), fn]))


def test_what_a_decorated_function_returns_contradicts_nothing() -> None:
    to_int = decorated(gives(int))
    checked(lambda keyed: keyed.map(to_int).filter(takes(str)))
    checked(lambda keyed: keyed.join(remote(), to_int_of_sides, id="j").filter(takes(str)))
    checked(lambda keyed: keyed.async_flat_map(decorated_async(list[int]), id="a").filter(takes(str)))
    assert collect().takes == ()


to_int_of_sides: Any = decorated(annotated(lambda left, right: [left, right], **{"return": int}))


def decorated_async(type_: Any) -> Any:
    async def fetch(value: Any) -> Any:
        return [value]

    annotated(fetch, **{"return": type_})

    @wraps(fetch)
    async def called(value: Any) -> Any:
        return await fetch(value)

    return called
