"""What gives kept state its meaning: which changes of a pipeline change it, and which do not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fluvial.dsl import (
    FLOAT64,
    INT64,
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    ListState,
    MapState,
    Message,
    Pipeline,
    Serde,
    ValueState,
    after,
    after_count,
    aggregate,
    any_of,
    collect,
    count,
    hopping,
    maximum,
    msgpack,
    repeat,
    resource,
    session,
    total,
    tumbling,
)
from fluvial.planner import plan
from fluvial.planner.sides import OWN
from fluvial.planner.state_schema import StateSchema, carried, differences, undeclared


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


@dataclass
class Order:
    item: str
    amount: int


@dataclass
class LongerOrder:
    item: str
    amount: int
    note: str = ""


Change = tuple[dict[str, Any], dict[str, Any]]
"""Arguments before, and after."""


def window(**changed: Any) -> StateSchema:
    """The schema of a window that differs in some respects from the usual one."""
    source: dict[str, Any] = {"key": str, "value": int} | {
        name: changed.pop(name) for name in ("key", "value") if name in changed
    }
    given: dict[str, Any] = {"assigner": tumbling(minutes(1)), "aggregate": count()} | changed
    pipeline = Pipeline("p")
    keyed: KeyedStream[Any, Any] = pipeline.stream("in", **source)
    keyed.window(given.pop("assigner"), given.pop("aggregate"), id="w", **given).send_to("out")
    return schema(pipeline)


def schema(pipeline: Pipeline, partitions: int = 1) -> StateSchema:
    """The schema of the last operator that keeps state, as it comes back from where it is kept."""
    sources = [stream.name for stream in plan(pipeline).streams if stream.kind == "source"]
    made = plan(pipeline, partitions=dict.fromkeys(sources, partitions)).stores[-1].schema
    return msgspec.json.decode(msgspec.json.encode(made), type=StateSchema)


def length(text: object) -> int:
    return len(str(text))


def appended(words: list[str], word: Any) -> list[str]:
    return [*words, word]


def appended_too(words: list[str], word: Any) -> list[str]:
    return [*words, word]


EARLY = repeat(any_of(after_count(5), after(first=minutes(1))))

OTHER_WINDOWS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"assigner": tumbling(minutes(5))}, "windows: was tumbling 1 min, is tumbling 5 min"),
    ({}, {"assigner": hopping(minutes(1), minutes(1))}, "windows: was tumbling 1 min, is hopping 1 min, every 1 min"),
    (
        {"assigner": session(minutes(1))},
        {"assigner": session(minutes(2))},
        "windows: was session 1 min, is session 2 min",
    ),
    ({}, {"aggregate": total(float)}, "aggregate: was count, is total"),
    ({"aggregate": maximum(length)}, {"aggregate": maximum(str)}, "accumulator: was int | None, is str | None"),
    ({}, {"key": int}, "key: was str, is int"),
    ({}, {"time": "processing"}, "time: was event, is processing"),
    ({}, {"accumulate": False}, "panes: was accumulating, is discarding"),
    ({}, {"trigger": after_count(3)}, "trigger: was none, is once after messages"),
    ({"trigger": after_count(3)}, {"trigger": repeat(after_count(3))}, "is each time after messages"),
    ({"trigger": EARLY}, {"trigger": repeat(after(first=minutes(1)))}, "is each time after 1 min from the first"),
    ({"trigger": after(first=minutes(1))}, {"trigger": after(first=minutes(2))}, "is once after 2 min from the first"),
    (
        {"aggregate": collect(), "value": Order},
        {"aggregate": collect(), "value": str},
        "accumulator: was list[Order(item: str, amount: int) | None], is list[str | None]",
    ),
]

SAME_WINDOWS: list[Change] = [
    ({}, {"lateness": minutes(5)}),
    ({"trigger": after_count(3)}, {"trigger": after_count(5)}),
    ({"aggregate": aggregate(list[str], appended)}, {"aggregate": aggregate(list[str], appended_too)}),
    ({"aggregate": collect(), "value": Order}, {"aggregate": collect(), "value": LongerOrder}),
    ({"aggregate": count(), "value": int}, {"aggregate": count(), "value": msgpack(int)}),
]


@pytest.mark.parametrize(("before", "after", "told"), OTHER_WINDOWS, ids=[row[2] for row in OTHER_WINDOWS])
def test_a_window_with_another_meaning(before: dict[str, Any], after: dict[str, Any], told: str) -> None:
    assert any(told in line for line in differences(window(**before), window(**after)))


@pytest.mark.parametrize(("before", "after"), SAME_WINDOWS, ids=[str(sorted(row[1])) for row in SAME_WINDOWS])
def test_a_window_with_the_same_meaning(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert differences(window(**before), window(**after)) == []


def pair(left: Any, right: Any) -> list[int]:
    return [left, right]


def join(**changed: Any) -> StateSchema:
    given: dict[str, Any] = {"within": minutes(1), "left": int} | changed
    pipeline = Pipeline("p")
    left: KeyedStream[str, Any] = pipeline.stream("left", key=str, value=given.pop("left"))
    right = pipeline.stream("right", key=str, value=int)
    left.join(right, pair, id="j", **given).send_to("out")
    return schema(pipeline)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"within": minutes(2)}, "within: was 1 min, is 2 min"),
        ({"how": "left"}, "how: was inner, is left"),
        ({"retain": "latest"}, "retain: was all, is latest"),
        ({"time": "processing"}, "time: was event, is processing"),
        ({"left": str}, "left: was int, is str"),
        ({"left": msgpack(int)}, "left rows: was json, is msgpack"),
    ],
)
def test_a_join_with_another_meaning(changed: dict[str, Any], told: str) -> None:
    assert told in differences(join(), join(**changed))


def shortened(text: str) -> str:
    return text[:1]


def deduplicate(key: Any = str, **changed: Any) -> StateSchema:
    given: dict[str, Any] = {"within": minutes(1), "by": length} | changed
    pipeline = Pipeline("p")
    keyed: KeyedStream[Any, str] = pipeline.stream("in", key=key, value=str)
    keyed.deduplicate(id="d", **given).send_to("out")
    return schema(pipeline)


def test_a_deduplication_with_another_meaning() -> None:
    assert differences(deduplicate(), deduplicate(by=shortened)) == ["by: was int, is str"]
    assert differences(deduplicate(), deduplicate(by=None)) == ["by: was int, is nothing"]
    assert differences(deduplicate(), deduplicate(key=int)) == ["key: was str, is int"]


def test_a_deduplication_with_the_same_meaning() -> None:
    assert differences(deduplicate(), deduplicate(within=minutes(5))) == []
    assert differences(deduplicate(), deduplicate(by=len, by_type=INT64)) == []


def process(**states: Any) -> StateSchema:
    def on_message(_: Any, message: Message[int], __: Context[str]) -> Iterable[int]:
        return [message.value]

    kind: Any = type("Counting", (KeyedProcessor,), {**states, "on_message": on_message})
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).process(kind(), id="c").send_to("out")
    return schema(pipeline)


Make = Callable[[], dict[str, Any]]
"""States have the name of the attribute that they are declared as: each class needs its own."""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (lambda: {"n": ValueState(int)}, lambda: {"n": ListState(int)}, "state n: was value, is list"),
        (lambda: {"n": ValueState(int)}, lambda: {"n": ValueState(str)}, "values of state n: was int, is str"),
        (
            lambda: {"n": MapState(str, int)},
            lambda: {"n": MapState(int, int)},
            "state n: was map by str, is map by int",
        ),
        (
            lambda: {"n": ValueState(int)},
            lambda: {"n": ValueState(int, ttl=minutes(1))},
            "state n: was value, is value, with ttl",
        ),
        (
            lambda: {"n": ValueState(int)},
            lambda: {"n": ValueState(msgpack(int))},
            "state n: was value, is value as msgpack",
        ),
    ],
)
def test_a_processor_with_another_meaning(before: Make, after: Make, told: str) -> None:
    assert differences(process(**before()), process(**after())) == [told]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: {"n": ValueState(int)}, lambda: {"n": ValueState(int), "more": ListState(str)}),
        (lambda: {"n": ValueState(int), "more": ListState(str)}, lambda: {"n": ValueState(int)}),
        (lambda: {"n": ValueState(int, ttl=minutes(1))}, lambda: {"n": ValueState(int, ttl=minutes(5))}),
        (lambda: {"n": ValueState(int)}, lambda: {"n": ValueState(int), "clock": ClockTimers()}),
        (lambda: {"n": ValueState(int), "clock": ClockTimers()}, lambda: {"n": ValueState(int)}),
        (lambda: {"n": ValueState(Order)}, lambda: {"n": ValueState(LongerOrder)}),
    ],
)
def test_a_processor_with_the_same_meaning(before: Make, after: Make) -> None:
    assert differences(process(**before()), process(**after())) == []


def test_what_a_processor_does_not_declare_any_more() -> None:
    before = process(n=ValueState(msgpack(int)), m=MapState(INT64, int), clock=ClockTimers())
    assert undeclared(before, process(n=ValueState(msgpack(int)))) == ["state m", "timers in processing time"]
    assert undeclared(before, before) == []
    assert undeclared(join(), join()) == []


def table(value: Any = Order, key: Any = str) -> StateSchema:
    pipeline = Pipeline("p")
    pipeline.table("orders", key=key, value=value).changes().send_to("out")
    return schema(pipeline)


def test_a_table_has_rows_of_one_form() -> None:
    assert differences(table(), table(LongerOrder)) == []
    assert differences(table(), table(str)) == [
        "rows: was json, is str",
        "row: was Order(item: str, amount: int), is str",
    ]
    assert differences(table(), table(key=int)) == ["key: was str, is int"]


def filled_table() -> StateSchema:
    pipeline = Pipeline("p")
    orders = pipeline.table("orders", key=str, value=Order)
    pipeline.stream("in", key=str, value=Order).send_to(orders)
    return plan(pipeline).stores[0].schema


def test_rows_of_a_table_come_from_one_place() -> None:
    """Else rows that a pipeline has sent would count beside those of a stream, and the other way round."""
    assert differences(table(), filled_table()) == ["rows come from: was its stream, is the pipeline"]
    assert differences(filled_table(), table()) == ["rows come from: was the pipeline, is its stream"]


def joined_tables(how: Any = "inner", left: str = "a") -> StateSchema:
    pipeline = Pipeline("p")
    one, other = pipeline.table(left, key=str, value=int), pipeline.table("b", key=str, value=int)
    one.join(other, pair, id="j", how=how).changes().send_to("out")
    return schema(pipeline)


def test_joined_tables_have_two_sides() -> None:
    assert differences(joined_tables(), joined_tables()) == []
    assert differences(joined_tables(), joined_tables("outer")) == ["how: was inner, is outer"]
    assert differences(joined_tables(), joined_tables(left="c")) == ["left: was a, is c"]


def test_another_kind_of_operator() -> None:
    assert differences(window(), join()) == ["it was a window, and is a join"]


def test_keys_that_are_spread_over_other_partitions() -> None:
    def of(partitions: int) -> StateSchema:
        pipeline = Pipeline("p")
        pipeline.stream("in", key=str, value=int).window(tumbling(minutes(1)), count(), id="w").send_to("out")
        return schema(pipeline, partitions)

    assert differences(of(2), of(4)) == ["partitions: was 2, is 4"]


def in_cents(text: str) -> Serde[int]:
    return Serde(text, int, lambda number: b"%d" % number, int)


def test_a_serde_of_the_users_is_known_by_its_whole_name() -> None:
    assert differences(table(in_cents("price:cents")), table(in_cents("price:hex"))) == [
        "rows, serde: was price:cents, is price:hex"
    ]
    assert differences(table(in_cents("cents")), table(in_cents("euros"))) == ["rows: was cents, is euros"]
    # What the name of one of ours says behind the colon is the type, which has rules of its own.
    assert differences(table(msgpack(Order)), table(msgpack(LongerOrder))) == []


def test_keys_that_are_the_same_bytes_are_the_same() -> None:
    assert differences(table(key=int), table(key=INT64)) == []
    assert differences(table(key=INT64), table(key=int)) == []
    assert differences(process(n=MapState(int, int)), process(n=MapState(INT64, int))) == []
    assert differences(table(key=INT64), table(key=FLOAT64)) == ["key: was int64, is float64"]


def sides(build: Callable[[Pipeline], tuple[Any, Any]]) -> StateSchema:
    pipeline = Pipeline("p")
    left, right = build(pipeline)
    left.join(right, pair, id="j", within=minutes(1)).send_to("out")
    return schema(pipeline)


def source(pipeline: Pipeline, name: str) -> KeyedStream[str, int]:
    return pipeline.stream(name, key=str, value=int)


def doubled(number: int) -> int:
    return 2 * number


def paid(number: int) -> bool:
    return number > 0


def still_open(number: int) -> bool:
    return number <= 0


def clicks_and_orders(pipeline: Pipeline) -> tuple[Any, Any]:
    return source(pipeline, "clicks"), source(pipeline, "orders")


def both_of_one(first: Any, second: Any) -> Callable[[Pipeline], tuple[Any, Any]]:
    def build(pipeline: Pipeline) -> tuple[Any, Any]:
        numbers = source(pipeline, "numbers")
        return numbers.filter(first), numbers.filter(second)

    return build


def test_the_sides_of_a_join_stay_where_they_are() -> None:
    kept = sides(clicks_and_orders)
    assert differences(kept, sides(lambda p: clicks_and_orders(p)[::-1])) == [
        "sides: 'orders' fed the right one, and feeds the left one"
    ]
    merged = sides(lambda p: (source(p, "clicks").merge(source(p, "orders")), source(p, "more")))
    assert differences(kept, merged) == ["sides: 'orders' fed the right one, and feeds the left one"]


@pytest.mark.parametrize(
    "build",
    [
        lambda p: (source(p, "renamed"), source(p, "orders")),
        lambda p: (source(p, "clicks").merge(source(p, "more")), source(p, "orders")),
        lambda p: (source(p, "clicks").map(doubled), source(p, "orders")),
        lambda p: (source(p, "clicks").partition_by(str, id="by", key_type=str), source(p, "orders")),
    ],
)
def test_what_is_before_a_join_may_change(build: Callable[[Pipeline], tuple[Any, Any]]) -> None:
    assert differences(sides(clicks_and_orders), sides(build)) == []


def added(number: int, row: int | None) -> int:
    return number + (row or 0)


def looking_up(*sides_with_table: str) -> Callable[[Pipeline], tuple[Any, Any]]:
    """Two streams, of which some look rows up in a table."""

    def build(pipeline: Pipeline) -> tuple[Any, Any]:
        rows = pipeline.table("rows", key=str, value=int)
        found: dict[str, Any] = {name: source(pipeline, name) for name in ("clicks", "orders")}
        looked_up = {name: found[name].join(rows, added, id="look", how="left") for name in sides_with_table}
        return tuple({**found, **looked_up}.values())

    return build


def test_a_table_that_is_looked_up_may_move_to_the_other_side() -> None:
    left, right = sides(looking_up("clicks")), sides(looking_up("orders"))
    assert differences(left, right) == []
    older = {name: fact for name, fact in left.facts.items() if not name.endswith(OWN)}
    assert differences(structs.replace(left, facts=older), right) == []
    swap = sides(lambda p: looking_up("orders")(p)[::-1])
    assert differences(left, swap) == ["sides: 'orders' fed the right one, and feeds the left one"]


def test_a_table_that_is_looked_up_tells_sides_of_one_stream_apart() -> None:
    def build(pipeline: Pipeline) -> tuple[Any, Any]:
        numbers, rows = source(pipeline, "numbers"), pipeline.table("rows", key=str, value=int)
        return numbers.join(rows, added, id="look", how="left"), numbers

    told = differences(sides(build), sides(lambda p: build(p)[::-1]))
    assert told == ["sides: 'look', 'rows' fed the left one, and feeds the right one"]


def test_sides_of_one_stream_are_named_by_their_functions() -> None:
    kept = sides(both_of_one(paid, still_open))
    assert differences(kept, sides(both_of_one(still_open, paid))) == [
        "sides: 'still_open' fed the right one, and feeds the left one"
    ]
    # A function that is on both sides, or moves while the streams stay, tells nothing.
    before = sides(lambda p: (source(p, "a").map(doubled), source(p, "b")))
    assert differences(before, sides(lambda p: (source(p, "a"), source(p, "b").map(doubled)))) == []


def test_a_list_of_bytes_stays_one() -> None:
    def listed(kind: Any) -> StateSchema:
        return process(n=ListState(kind))

    assert differences(listed(int), listed(int | None)) == []
    assert differences(listed(bytes), listed(bytes)) == []
    assert differences(listed(bytes), listed(bytes | None)) == [
        "values of state n: was bytes, is bytes | None (items of the type bytes are kept as they are, others encoded)"
    ]


def test_what_is_gone_is_carried_along() -> None:
    kept = {"c": process(n=ValueState(int), a=ValueState(int)), "gone": window()}
    between = carried(kept, {"c": process(n=ValueState(int))})
    assert between["gone"] == kept["gone"]
    assert differences(between["c"], process(n=ValueState(int), a=ValueState(int))) == []
    assert differences(between["c"], process(n=ValueState(int), a=ValueState(str))) == [
        "values of state a: was int, is str"
    ]
    assert differences(between["c"], process(n=ValueState(int), a=ValueState(int, ttl=minutes(1)))) == [
        "state a: was value, is value, with ttl"
    ]


def test_a_difference_says_more_where_the_types_are_called_the_same() -> None:
    one, other = (msgspec.defstruct("C", [("x", int)], array_like=flag) for flag in (True, False))
    assert differences(table(one), table(other)) == [
        "row: was C(x: int), is C(x: int) (was an array of its fields, is a map of its fields by name)"
    ]


def test_what_only_one_of_two_records_has_is_not_compared() -> None:
    now = window()
    before = StateSchema(kind="window", facts={"windows": now.facts["windows"], "colour": "green"})
    assert differences(before, now) == []


def test_what_has_another_meaning_now_is_carried_as_it_is() -> None:
    now = process(n=ValueState(str))
    assert carried({"c": process(n=ValueState(int), a=ValueState(int))}, {"c": now}) == {"c": now}


def test_what_functions_are_given_says_nothing_of_the_state_behind_them() -> None:
    """A client is no part of what a value means: another one goes on with the state that is there."""

    def made(factory: Callable[[], object]) -> Any:
        async def asked(number: int, client: object) -> list[int]:
            del client
            return [number]

        pipeline = Pipeline("p")
        asking = pipeline.stream("in", key=str, value=int).async_flat_map(asked, id="ask", resource=resource(factory))
        asking.window(tumbling(minutes(1)), count(), id="count").send_to("out")
        return plan(pipeline)

    one, other = made(dict), made(list)
    assert one.stores == other.stores
    assert one.fingerprint() == other.fingerprint()
