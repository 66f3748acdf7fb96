"""Checks of annotations against the types that flow: certain contradictions are refused, and nothing else."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial, wraps
from numbers import Number
from typing import Annotated, Any, NamedTuple, NewType, Protocol, TypedDict, TypeVar, runtime_checkable

import pytest
from msgspec import Struct

from explained import error_of
from fluvial.dsl import INT64, Batch, Context, KeyedProcessor, Message, Pipeline, PlanError
from fluvial.dsl.annotations import contradicts, taken
from fluvial.planner import plan
from fluvial.planner.annotation_checks import check_annotations
from fluvial.planner.type_inference import flows

T = TypeVar("T")
Cents = NewType("Cents", int)


@dataclass
class Order:
    item: str


@dataclass
class Express(Order):
    hours: int


@dataclass
class Visit:
    page: str


@dataclass
class Sale:
    item: str
    shop: str = ""


@dataclass
class Stamped:
    item: str
    page: str = field(init=False)


class Parcel(Struct):
    item: str


class Letter(Struct, rename={"page": "item"}):
    page: str


class Pair(Struct, array_like=True):
    one: str


class Row(TypedDict):
    item: str


@runtime_checkable
class HasItem(Protocol):
    item: str


def gives(type_: Any) -> Any:
    """A function that is annotated to return a type, and takes anything."""

    def fn(value: Any) -> Any:
        return value

    fn.__annotations__ = {"return": type_}
    return fn


def takes(type_: Any) -> Any:
    """A function that is annotated to take a type."""

    def fn(value: Any) -> Any:
        return value

    fn.__annotations__ = {"value": type_}
    return fn


def decorated(fn: Any) -> Any:
    @wraps(fn)
    def called(value: Any) -> Any:
        return fn(value)

    return called


def checked(written: Callable[[Any], None], value: Any = str) -> None:
    pipeline = Pipeline("p")
    written(pipeline.stream("in", value=value))
    check_annotations(pipeline, flows(pipeline))


@pytest.mark.parametrize(
    ("given", "wanted"), [(int, str), (str, int), (Order, str), (bytes, str), (str, bytes), (int, bytes), (str, Order)]
)
def test_an_output_of_another_type_is_refused(given: Any, wanted: Any) -> None:
    for write in (
        lambda stream: stream.map(gives(given)).send_to("out", value=wanted),
        lambda stream: stream.flat_map(gives(list[given])).filter(bool).send_to("out", value=wanted),
    ):
        assert f"value={wanted.__name__}" in str(error_of(partial(checked, write), PlanError))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, float), (float, int), (bool, int), (int, int | str), (int | str, str), (None, str), (Any, str),
        (int, INT64), (str, INT64), (Express, Order), (Order, Express), (Order, Sale), (Row, dict[str, str]),
        (dict, Row), (Order, Row), (Cents, str), (T, str), (object, str), (str | None, str), (list[int], str),
    ],
)  # fmt: skip
def test_an_output_that_may_be_right_is_accepted(given: Any, wanted: Any) -> None:
    checked(lambda stream: stream.map(gives(given)).send_to("out", value=wanted))


def test_the_declared_type_of_a_source_counts() -> None:
    error = error_of(lambda: checked(lambda stream: stream.send_to("out", value=str), int), PlanError)
    assert "send_to out gets int, and value=str" in str(error)


VERBS: list[Callable[[Any, Any], Any]] = [
    lambda stream, fn: stream.map(fn),
    lambda stream, fn: stream.filter(fn),
    lambda stream, fn: stream.flat_map(fn),
    lambda stream, fn: stream.split(fn)[1],
    lambda stream, fn: stream.partition_by(fn, id="by", key_type=str),
    lambda stream, fn: keyed(stream).deduplicate(timedelta(hours=1), by=fn, by_type=str, id="once"),
    lambda stream, fn: keyed(stream).process(handler(fn), id="handled"),
]


def keyed(stream: Any) -> Any:
    return stream.partition_by(lambda _: "", id="keyed", key_type=str)


def handler(fn: Any) -> KeyedProcessor[str, Any, str]:
    """A processor whose method takes messages of the values that a function takes, and has its name."""

    class Handler(KeyedProcessor[str, Any, str]):
        def on_message(self, message: Any, context: Any) -> list[str]:
            return [context.key, message.value]

    wanted = getattr(fn, "__annotations__", {}).get("value", Any)
    message_of: Any = Message
    on_message: Any = Handler.on_message
    on_message.__annotations__, on_message.__name__ = {"message": message_of[wanted]}, "fn"
    if hasattr(fn, "__wrapped__"):
        on_message.__wrapped__ = fn.__wrapped__
    return Handler()


def called_by(verb: Callable[[Any, Any], Any], fn: Any, stream: Any) -> None:
    verb(stream, fn)


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_that_takes_other_values_is_refused(verb: Callable[[Any, Any], Any]) -> None:
    for given, wanted in (str, int), (int, str), (Order, int), (Order, Visit), (bytes, str):
        error = error_of(partial(checked, partial(called_by, verb, takes(wanted)), given), PlanError)
        assert f"gets {given.__name__}, and fn takes {wanted.__name__}" in str(error)


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_that_may_take_the_values_is_accepted(verb: Callable[[Any, Any], Any]) -> None:
    for given, wanted in (
        (int, float), (float, int), (Express, Order), (Order, HasItem), (Order, object), (str, Any), (str, str | int),
        (str, T), (str, "Missing"), (INT64, str), (int | str, str), (dict[str, str], Row), (str, Cents),
    ):  # fmt: skip
        checked(partial(called_by, verb, takes(wanted)), given)
    for fn in decorated(takes(int)), partial(takes(int)), str.upper, lambda word: word:
        checked(partial(called_by, verb, fn))


def test_what_a_decorator_may_change_is_accepted() -> None:
    checked(lambda stream: stream.map(decorated(gives(int))).filter(takes(str)).send_to("out", value=str))


def test_a_plan_checks_annotations() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).map(takes(int)).send_to("out")
    assert "map(fn) gets str, and fn takes int" in str(error_of(lambda: plan(pipeline), PlanError))


def test_what_a_method_takes_is_known() -> None:
    class Shop:
        def priced(self, order: Order) -> int:
            return len(order.item)

    assert taken(Shop().priced) is Order


def test_classes_that_are_neither_builtin_nor_dataclass_contradict_nothing() -> None:
    assert not contradicts(Row, str)
    assert not contradicts(str, HasItem)


class Counts(NamedTuple):
    """What is iterated as a tuple."""

    one: int


@dataclass
class Bag(Order):
    """What is iterated, and is a dataclass."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.item)


@pytest.mark.parametrize(
    "type_",
    [list[int], Iterable[int], Any, int | list[int], T, object, Counts, Bag, Row, HasItem, Cents, dict, "Missing"],
)
def test_what_may_be_several_values_is_accepted(type_: Any) -> None:
    checked(lambda stream: stream.flat_map(gives(type_)).send_to("out"))
    checked(lambda stream: stream.flat_map(decorated(gives(int))).send_to("out"))


@pytest.mark.parametrize("type_", [bool, int, float, Any, str, list[int], Order, None | bool, T, object, "Missing"])
def test_what_may_be_true_is_accepted(type_: Any) -> None:
    checked(lambda stream: stream.filter(gives(type_)).send_to("out"))
    checked(lambda stream: stream.filter(decorated(gives(None))).send_to("out"))


@pytest.mark.parametrize("type_", [int, bool, float, Any, int | None, Number, Cents, Annotated[int, "ms"], T, object])
def test_what_may_be_a_time_is_accepted(type_: Any) -> None:
    Pipeline("p").stream("in", value=str, timestamp=gives(type_))
    Pipeline("p").stream("in", value=int, timestamp=takes(type_))
    Pipeline("p").stream("in", value=str, timestamp=decorated(gives(str)))


def reads(type_: Any) -> Any:
    async def read(key: Any) -> Any:
        return key

    read.__annotations__ = {"key": type_}
    return read


def looked_up(fn: Any, **options: Any) -> Callable[[Any], None]:
    def written(stream: Any) -> None:
        table = Pipeline("q").remote_table("rows", read=fn, **options)
        keyed(stream).join(table, lambda value, _: value, id="j").send_to("out")

    return written


def test_a_remote_table_that_takes_other_keys_is_refused() -> None:
    for fn, options in (reads(int), {}), (reads(Sequence[int]), {"batch": Batch()}):
        error = error_of(partial(checked, looked_up(fn, **options)), PlanError)
        assert "gets keys of type str, and read takes int" in str(error)

    def stored(stream: Any) -> None:
        keyed(stream).send_to(Pipeline("q").remote_table("rows", read=reads(str), write=write))

    async def write(key: int, row: Any) -> None:
        raise NotImplementedError(key, row)

    assert "gets keys of type str, and write takes int" in str(error_of(partial(checked, stored), PlanError))


@pytest.mark.parametrize("type_", [str, Any, str | int, object, T, "Missing", Annotated[str, "id"], Sequence[str]])
def test_a_remote_table_that_may_take_the_keys_is_accepted(type_: Any) -> None:
    checked(looked_up(reads(type_)))
    checked(looked_up(reads(Sequence[str]), batch=Batch()))
    checked(looked_up(reads(list), batch=Batch()))


def of_keys(declared: Any, annotated: Any) -> KeyedProcessor[Any, Any, Any]:
    class Handler(KeyedProcessor[declared, Any, str]):
        def on_message(self, message: Message[Any], context: Context[Any]) -> list[str]:
            return [context.key, message.value]

    on_message: Any = Handler.on_message
    on_message.__annotations__ = {"context": annotated}
    return Handler()


@pytest.mark.parametrize(("declared", "annotated", "who"), [(int, Any, "Handler"), (Any, Context[int], "on_message")])
def test_a_processor_of_other_keys_is_refused(declared: Any, annotated: Any, who: str) -> None:
    error = error_of(
        partial(checked, lambda stream: keyed(stream).process(of_keys(declared, annotated), id="h")), PlanError
    )
    assert f"process h gets keys of type str, and {who} takes int" in str(error)


@pytest.mark.parametrize("type_", [str, Any, str | int, object, T])
def test_a_processor_that_may_take_the_keys_is_accepted(type_: Any) -> None:
    checked(lambda stream: keyed(stream).process(of_keys(type_, Context[type_]), id="h"))
    checked(lambda stream: keyed(stream).process(of_keys(type_, Context), id="h"))


@pytest.mark.parametrize(
    ("given", "wanted", "lacking"),
    [(Order, Visit, "page"), (Parcel, Visit, "page"), (Visit, Row, "item"), (Visit, Letter, "page")],
)
def test_an_output_of_a_class_with_another_field_is_refused(given: Any, wanted: Any, lacking: str) -> None:
    error = error_of(lambda: checked(lambda stream: stream.send_to("out", value=wanted), given), PlanError)
    assert f"gets {given.__name__}, which has no {lacking!r}, and value={wanted.__name__}" in str(error)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (Order, Parcel), (Parcel, Order), (Order, Letter), (Row, Visit), (Row, Parcel),
        (Stamped, Visit), (Order, Pair), (Pair, Visit),
        (Order, Counts), (Counts, Order), (Order, HasItem), (Order, Any), (object, Visit), (dict, Visit),
        (Order | Visit, Visit), (Order, Order | None), (Order, dict[str, str]), (T, Visit),
    ],
)  # fmt: skip
def test_an_output_of_a_class_with_the_fields_is_accepted(given: Any, wanted: Any) -> None:
    checked(lambda stream: stream.map(gives(given)).send_to("out", value=wanted))
