"""What an engine cannot run is known beforehand."""

from datetime import timedelta

import pytest
from rich.console import Console

from fluvial.dsl import Limit, Pipeline, count, tumbling
from fluvial.planner import Plan, Settings, plan
from fluvial.runtime.cli.commands.plan import tables
from fluvial.runtime.preflight.unsupported import Limitation, caveats, limitations


@pytest.fixture
def words() -> Plan:
    pipeline = Pipeline("words")
    pipeline.stream("lines", value=str).flat_map(str.split).send_to("out")
    return plan(pipeline)


def test_spark_cannot_see_the_memory(words: Plan) -> None:
    reason = "Spark's workers are other processes and cannot see it"
    assert limitations(words, "spark", "memory:") == [Limitation("spark", "the system memory:", reason)]


@pytest.mark.parametrize(("engine", "system"), [("local", "memory:"), ("local", ""), ("spark", "log:x"), ("spark", "")])
def test_everything_else_runs(words: Plan, engine: str, system: str) -> None:
    assert limitations(words, engine, system) == []


@pytest.mark.parametrize(
    ("engine", "system", "noted"),
    [("spark", "kafka://one:9092", ["out", "lines"]), ("spark", "log:x", []), ("local", "kafka://one:9092", [])],
)
def test_on_kafka_spark_promises_less_of_what_it_writes(
    words: Plan, engine: str, system: str, noted: list[str]
) -> None:
    found = caveats(words, engine, system)
    assert [one.subject for one in found] == noted
    reasons = ("at least once", "goes on with no other number")
    assert all(reason in note.reason for reason, note in zip(reasons, found, strict=False))


def test_a_grouping_is_of_no_effect_on_spark() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("a", value=str).merge(pipeline.stream("b", value=str)).send_to("out")
    made = plan(pipeline, settings=Settings(group_by="stream-partition"))
    assert [one.subject for one in caveats(made, "spark")] == ["group_by of stage 'a'"]
    assert not caveats(made, "local")


def test_the_plan_shows_what_is_promised(words: Plan) -> None:
    console = Console(width=400)
    with console.capture() as shown:
        console.print(tables(words, "kafka://one:9092"))
    assert "runs all of it; out: written at least once unless the guarantee is exactly_once" in shown.get()


@pytest.mark.parametrize(
    ("system", "others", "found"), [("kafka://a:1", True, 1), ("kafka://a:1", False, 0), ("log:x", True, 0)]
)
def test_no_stream_comes_first_on_spark_and_kafka_without_state(system: str, others: bool, found: int) -> None:
    pipeline = Pipeline("p")
    rates = pipeline.stream("rates", value=str, bootstrap=True)
    orders = pipeline.stream("orders", value=str)
    (rates.merge(orders) if others else rates).send_to("out")
    orders.send_to("orders-out")
    assert [one.subject for one in limitations(plan(pipeline), "spark", system)] == ["rates"] * found


def test_priority_counts_for_nothing_on_spark() -> None:
    pipeline = Pipeline("p")
    urgent = pipeline.stream("urgent", value=str, priority=1)
    words = urgent.merge(pipeline.stream("usual", value=str))
    words.partition_by(len, id="lengths", key_type=int, priority=-1).send_to("out")
    found = {one.subject: one.reason for one in caveats(plan(pipeline), "spark", "log:x")}
    for stream in ("urgent", "p-lengths"):
        assert found[f"priority of stream {stream}"] == "of no effect: a batch has messages of all inputs"
    assert not [one for one in caveats(plan(pipeline), "local", "log:x") if "priority" in one.subject]


def test_turns_count_for_nothing_on_spark(words: Plan) -> None:
    turns, console = Settings(turn_messages=2), Console(width=400)
    (found,) = caveats(words, "spark", "log:x", turns)
    assert (found.subject, found.reason[:12]) == ("turn_messages=2", "of no effect")
    (found,) = caveats(words, "spark", "log:x", Settings(stop_timeout=timedelta(minutes=1)))
    assert (found.subject, found.reason[:12]) == ("stop_timeout=0:01:00", "of no effect")
    assert caveats(words, "spark", "log:x", Settings()) == caveats(words, "local", "log:x", turns) == []
    with console.capture() as shown:
        console.print(tables(words, "log:x", turns))
    assert "runs all of it; turn_messages=2: of no effect" in shown.get()


async def priced(value: object) -> list[str]:
    return [str(value)]


@pytest.mark.parametrize(
    ("system", "before", "behind", "border", "noted"),
    [
        ("kafka://a:1", True, True, False, ["window counts"]),
        ("kafka://a:1", True, True, True, []),
        ("kafka://a:1", True, False, False, []),
        ("kafka://a:1", False, True, False, []),
        ("log:x", True, True, False, []),
    ],
)
def test_what_fires_between_calls_is_committed_as_a_whole(
    system: str, before: bool, behind: bool, border: bool, noted: list[str]
) -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", key=str, value=str)
    words = words.async_flat_map(priced, id="before") if before else words
    words = words.partition_by(str, id="border", key_type=str) if border else words
    panes = words.window(tumbling(timedelta(seconds=1)), count(), id="counts")
    (panes.async_flat_map(priced, id="behind") if behind else panes.map(str)).send_to("out")
    found = caveats(plan(pipeline), "local", system)
    assert [one.subject for one in found] == noted
    assert all("partition_by" in one.reason for one in found)


def test_tables_come_first_on_spark_and_kafka_too() -> None:
    pipeline = Pipeline("p")
    rates = pipeline.table("rates", key=str, value=str)
    pipeline.stream("orders", key=str, value=str).join(rates, max, id="join").send_to("out")
    assert limitations(plan(pipeline), "spark", "kafka://a:1") == []


async def ask(value: str) -> list[str]:
    return [value]


def test_spark_has_no_budgets_of_limits() -> None:
    pipeline = Pipeline("p")
    for id, limit in (("one", Limit("rate", calls=1)), ("two", Limit("money", budget=1))):
        pipeline.stream(f"in-{id}", value=str).async_flat_map(ask, id=id, limit=limit).send_to(f"out-{id}")
    made = plan(pipeline)
    assert [one.subject for one in limitations(made, "spark", "log:x")] == ["the budget of limit 'money'"]
    assert limitations(made, "local", "log:x") == []
