"""Mistakes of a beginner: each error says what is wrong, where in the file, what was expected, and what to do."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fluvial.dsl as dsl
from explained import assert_explains, error_of
from fluvial.dsl import FluvialError, Pipeline, Tag, UsageError
from fluvial.planner import Settings, draw, plan
from fluvial.runtime import KafkaSystem, Metrics, open_system, reset, run
from fluvial.runtime.testing import PipelineDriver, Recorder, draw_run

ROOT = Path(__file__).parents[2]
HOUR = timedelta(hours=1)
language: Any = dsl
"""The language as no type checker sees it."""
settings: Any = Settings
run_any: Any = run
plan_any: Any = plan
driver: Any = PipelineDriver
recorder: Any = Recorder
kafka: Any = KafkaSystem
metrics: Any = Metrics
opened: Any = open_system
reset_any: Any = reset
drawn: Any = draw_run
draw_any: Any = draw


@dataclass
class Order:
    """What is read."""

    item: str


def pipeline() -> Any:
    return Pipeline("p")


def words() -> Any:
    return pipeline().stream("words", value=str)


def keyed() -> Any:
    return pipeline().stream("orders", key=str, value=Order)


def table() -> Any:
    return pipeline().table("names", key=str, value=str)


def each(left: Any, right: Any) -> str:
    return f"{left} {right}"


def length(word: str) -> int:
    return len(word)


def shout(word: str) -> str:
    return word.upper()


def nothing(word: str) -> None:
    assert word


async def fetch(key: str) -> str:
    return key


def half(word: str) -> float:
    return len(word) / 2


def apart(one: int, other: int) -> str:
    return f"{one} {other}"


def joined(text: str, order: Order) -> str:
    return text + order.item


def longer(text: str, order: Order) -> int:
    return len(text + order.item)


async def items(word: str) -> list[str]:
    return [word]


class Single(dsl.KeyedProcessor[str, Order, Any]):
    """Returns a value where a list of values is expected."""

    def on_message(self, message: Any, context: Any) -> int:  # type: ignore[override]
        return len(f"{message} {context}")


class Quiet(dsl.KeyedProcessor[str, Order, str]):
    """Handles nothing."""


def copied() -> Any:
    """A pipeline with a plan."""
    made = Pipeline("p")
    made.stream("in", key=str, value=str).send_to("out")
    return made


def driven(act: Any) -> None:
    with PipelineDriver(copied()) as made:
        act(made)


def planned(written: Any) -> Any:
    """The plan of a stream's pipeline."""
    made = Pipeline("p")
    written(made)
    return plan(made)


def two_formats(made: Any) -> None:
    made.stream("a", value=int).send_to("o", value=dsl.INT64)
    made.stream("b", value=int).send_to("o", value=int)


MISTAKES: list[tuple[Any, str, str, str]] = [
    (lambda: pipeline().stream("orders"), "stream got no value", "stream(name, value=...)", "pass value="),
    (lambda: pipeline().stream("orders", Order), "stream got 2 arguments by position", "value=...", "by name"),
    (lambda: pipeline().stream("orders", value=3), "value=3 cannot be decoded", "a dataclass", "pass a class"),
    (lambda: pipeline().stream("orders", value=Order("tea")), "cannot be decoded", "a dataclass", "pass a class"),
    (lambda: pipeline().stream("my orders", value=Order), "stream name 'my orders'", "letters, digits", "'page-views'"),
    (lambda: pipeline().stream("o", value=str, key=float), "float is not a type of key", "str, bytes, int", "key=str"),
    (lambda: pipeline().stream("o", value=str, out_of_order=5), "is 5", "a timedelta", "timedelta(seconds=...)"),
    (lambda: pipeline().stream("o", value=str, keys=str), "stream has no keys=", "stream(name", "write key="),
    (lambda: pipeline().steram("o", value=str), "Pipeline has no 'steram'", "one of", "write .stream"),
    (lambda: pipeline().filter(len), "Pipeline has no 'filter'", "one of", "verbs are those of its streams"),
    (lambda: words().fliter(len), "MessageStream has no 'fliter'", "one of async_flat_map", "write .filter"),
    (lambda: words().reduce(max), "MessageStream has no 'reduce'", "one of async_flat_map", "write .window"),
    (lambda: words().foldl(max), "MessageStream has no 'foldl'", "one of async_flat_map", "map(fn)"),
    (lambda: words().window(1), "window on a stream without a key", "a keyed stream", ".partition_by("),
    (lambda: keyed().widnow(1), "KeyedStream has no 'widnow'", "one of async_flat_map", "write .window"),
    (lambda: table().map(len), "Table has no 'map'", "one of changes, join", ".changes()"),
    (lambda: words().map(), "map got no fn", "map(fn)", "pass fn="),
    (lambda: words().map(len("x")), "map got 1", "a function", "not its result"),
    (lambda: words().map(lambda: 1), "map got lambda", "fn(value)", "write lambda value: ..."),
    (lambda: words().map(fetch), "map got the asynchronous function fetch", "a plain function", "async_flat_map"),
    (lambda: words().partition_by(len), "partition_by got no id", "partition_by(fn, id=...)", "pass id=..."),
    (
        lambda: words().partition_by(str, id="k", key_type=object),
        "object is not a type of key",
        "str, ",
        "key_type=str",
    ),
    (lambda: words().partition_by(str, id="a b"), "id 'a b'", "letters, digits", "choose such a name"),
    (lambda: words().merge(words()), "merge got MessageStream", "the same pipeline", "one Pipeline"),
    (lambda: words().send_to("o", str), "send_to got 2 arguments by position", "send_to(name)", "key=..."),
    (lambda: words().sink(print, id="s"), "has no open, write, flush, close", "an object with open", "add them"),
    (lambda: keyed().join(keyed(), each, id="j", within=HOUR), "'j' got KeyedStream", "same pipeline", "one Pipeline"),
    (lambda: keyed().join(keyed(), each, id="j", witin=HOUR), "join has no witin=", "join(other, fn", "write within="),
    (lambda: keyed().join(table(), each, id="j"), "'j' got Table(names)", "same pipeline", "one Pipeline"),
    (lambda: keyed().window(dsl.tumbling(HOUR), dsl.count(), "w"), "window got 3 arguments", "id=...", "by name"),
    (lambda: keyed().window(dsl.tumbling(HOUR), dsl.count, id="w"), "<function count>", "an aggregate", "count()"),
    (
        lambda: keyed().window(dsl.tumbling(HOUR), dsl.count(), id="w", late_to=""),
        "stream name ''",
        "letters, digits",
        "choose such a name",
    ),
    (lambda: keyed().process(Quiet, id="q"), "got the class Quiet", "a KeyedProcessor", "pass an instance"),
    (lambda: keyed().process(Quiet(), id="q"), "Quiet has no on_message", "a method on_message", "write def"),
    (lambda: keyed().process(print, id="q"), "got <built-in function print>", "a KeyedProcessor", "write class"),
    (
        lambda: pipeline().remote_table("t", read=each),
        "read got the plain function each",
        "an async function",
        "async def",
    ),
    (lambda: language.tumbling(60), "tumbling: size is 60", "a timedelta", "timedelta(seconds=...)"),
    (lambda: language.Retry(attempts=0), "Retry: attempts=0", "1 or more", "a whole number"),
    (lambda: language.Pipeline("p", on_error="skip"), "on_error='skip'", "fail(), skip()", "on_error=skip()"),
    (lambda: language.ErrorPolicy("drop"), "action='drop'", '"fail", "skip" or "dead_letter"', 'action="fail"'),
    (lambda: language.ValueState(int, "x"), "default 'x'", "a value of that type", "correct the default"),
    (lambda: Tag("a b", int), "tag name 'a b'", "letters, digits", "choose such a name"),
    (
        lambda: planned(lambda p: p.stream("a", value=str)),
        "nothing reads what stream a emits",
        "a terminal",
        ".send_to",
    ),
    (
        lambda: planned(lambda p: p.stream("a", value=str).send_to("a")),
        "which the pipeline reads",
        "read or",
        "another",
    ),
    (lambda: words().partition_by(length, id="k", key_type=str), "returns int, and key_type=str", "keys", "correct"),
    (
        lambda: planned(lambda p: p.stream("a", value=str).map(length).send_to("o", value=str)),
        "gets int, and value=str",
        "the declared type",
        "correct value=",
    ),
    (
        lambda: planned(lambda p: p.stream("a", value=int).filter(length).send_to("o")),
        "gets int, and length takes str",
        "the values of the stream",
        "correct the annotation",
    ),
    (lambda: words().flat_map(length), "got length, which returns int", "a list of values", "return [value]"),
    (lambda: words().flat_map(shout), "got shout, which returns str", "a list of values", "return [value]"),
    (lambda: words().async_flat_map(fetch, id="f"), "got fetch, which returns str", "a list", "return [value]"),
    (lambda: words().filter(nothing), "got nothing, which returns None", "True or False", "return whether"),
    (lambda: words().split(nothing), "got nothing, which returns None", "True or False", "return whether"),
    (
        lambda: pipeline().stream("o", value=Order, timestamp=length),
        "timestamp gets Order, and length takes str",
        "the values of the stream",
        "correct the annotation",
    ),
    (
        lambda: pipeline().stream("o", value=str, timestamp=shout),
        "timestamp got shout, which returns str",
        "ms since epoch",
        "correct it",
    ),
    (lambda: words().map_messages(length), "length, which returns int", "returns a Message", "use map"),
    (lambda: words().send_to("o", key=half), "its function returns float", "str, bytes, int", "return str(...)"),
    (
        lambda: keyed().deduplicate(HOUR, by=length, by_type=str, id="d"),
        "its function returns int, and by_type=str",
        "keys of the declared type",
        "correct by_type=",
    ),
    (lambda: keyed().process(Single(), id="s"), "on_message, which returns int", "a list", "return [value]"),
    (lambda: language.total(shout), "total got shout, which returns str", "returns a number", "return a number"),
    (lambda: language.mean(nothing), "mean got nothing, which returns None", "returns a number", "return a number"),
    (lambda: language.reduce(apart), "apart returns str, and apart takes int", "of one type", "correct one"),
    (lambda: language.aggregate(int, joined), "init gives int, and add takes str", "of one type", "correct one"),
    (lambda: language.aggregate(str, longer), "add returns int, and add takes str", "of one type", "correct one"),
    (lambda: language.aggregate(str, joined, type=int), "add returns str, and type= is int", "one type", "correct"),
    (
        lambda: language.aggregate(str, joined, merge=apart),
        "add returns str, and merge takes int",
        "of one type",
        "correct one",
    ),
    (lambda: words().async_flat_map(items, id="a", timeout=None), "timeout is None", "a timedelta", "timedelta("),
    (lambda: language.Serde("hex"), "Serde got no type and no encode and no decode", "Serde(name", "pass type="),
    (lambda: driven(lambda d: d.sned("in", "a")), "PipelineDriver has no 'sned'", "one of", "write .send"),
    (lambda: driven(lambda d: d.state.rows), "DriverState has no 'rows'", "one of table, watermark", "use one"),
    (lambda: list(words()), "was iterated", "a verb, such as map(fn)", "PipelineDriver(pipeline).read"),
    (lambda: language.count(len), "count got 1 argument by position", "count()", "leave out"),
    (lambda: language.total(), "total got no fn", "total(fn)", "pass fn="),
    (lambda: language.maximum(len, tpye=int), "maximum has no tpye=", "options are type=", "write type="),
    (lambda: language.aggregate(int), "aggregate got no add", "aggregate(init, add)", "pass add=..."),
    (lambda: planned(lambda p: p.table("a", key=str, value=str)), "nobody uses the table 'a'", "looked up", "join a"),
]


USAGE: list[tuple[Any, str, str, str]] = [
    (lambda: settings(nope=1), "Settings has no nope=", "options are guarantee=", "leave out nope="),
    (lambda: settings("exactly_once"), "Settings got 1 argument by position", "Settings()", "by name"),
    (lambda: plan_any(pipeline(), partition={}), "plan has no partition=", "partitions=", "write partitions="),
    (lambda: driver(), "PipelineDriver got no pipeline", "PipelineDriver(pipeline)", "pass pipeline=..."),
    (
        lambda: plan_any(plan(copied())),
        "a plan of an object of type Plan",
        "a Pipeline",
        "pass what Pipeline(...) made",
    ),
    (lambda: plan_any("visits.py"), "a plan of 'visits.py'", "a Pipeline", "import the Pipeline from its file"),
    (lambda: plan_any(words()), "a plan of MessageStream(stream words)", "a Pipeline", "not one of its streams"),
    (lambda: driven(lambda d: d.send("in")), "send got no value", "send(stream, value)", "pass value=..."),
    (lambda: driven(lambda d: d.send("in", "a", "k")), "got 3 arguments by position", "options are key=", "by name"),
    (lambda: driven(lambda d: d.advance()), "advance got no duration", "advance(duration)", "pass duration="),
    (lambda: driven(lambda d: d.advance(30)), "advance is 30", "a timedelta", "timedelta(seconds=...)"),
    (lambda: driven(lambda d: d.send("in", "a", key=5)), "key=5 is of type int", "of type str", "key= of the stream"),
    (lambda: driven(lambda d: d.records.send("in", ["x"])), "the record 'x'", "tuples of key", 'write (b"key"'),
    (lambda: driven(lambda d: d.records.read()), "read got no stream", "read(stream)", "pass stream="),
    (lambda: driven(lambda d: d.state.table(nmae=1)), "table has no nmae=", "table(id)", "leave out nmae="),
    (lambda: recorder(3), "Recorder got 3", "a PipelineDriver", "Recorder(driver)"),
    (lambda: recorder(), "Recorder got no driver", "Recorder(driver)", "pass driver="),
    (lambda: kafka(), "KafkaSystem got no servers", "KafkaSystem(servers)", "pass servers="),
    (lambda: metrics(prot=1), "Metrics has no prot=", "options are port=", "write port="),
    (lambda: metrics(port="x"), "port='x'", "the number of a port", "write port=9100"),
    (lambda: opened(), "open_system got no target", "open_system(target)", "pass target="),
    (lambda: reset_any(pipeline(), dry=True), "reset has no dry=", "dry_run=", "write dry_run="),
    (lambda: drawn(), "draw_run got no run", "draw_run(run)", "pass run="),
    (lambda: draw_any(), "draw got no plan", "draw(plan)", "pass plan="),
    (lambda: run_any(pipeline(), "memory:"), "run got 2 arguments by position", "options are engine=", "by name"),
]
"""Mistakes in what a run is told besides its pipeline."""


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), MISTAKES, ids=[case[1] for case in MISTAKES])
def test_a_mistake_is_explained(place: Any, wrong: str, expected: str, remedy: str) -> None:
    with pytest.raises(FluvialError) as raised:
        place()
    assert raised.value.exit_code == 3
    assert_explains(raised.value, wrong, place, expected, remedy)


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), USAGE, ids=[case[1] for case in USAGE])
def test_wrong_usage_is_explained(place: Any, wrong: str, expected: str, remedy: str) -> None:
    raised = error_of(place, UsageError)
    assert raised.exit_code == 2
    assert_explains(raised, wrong, place, expected, remedy)


def raisers() -> Iterator[Any]:
    """The calls of `explain` and `require` in the language and the planner: (place, call, arguments with a remedy)."""
    for path in (*(ROOT / "dsl").rglob("*.py"), *(ROOT / "planner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("explain", "require")
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node, 3 if node.func.id == "explain" else 5


def test_each_error_of_the_language_and_the_planner_says_what_to_do() -> None:
    found = list(raisers())
    assert len(found) > 100
    told = [
        len(call.args) >= needed or any(word.arg == "remedy" for word in call.keywords) for _, call, needed in found
    ]
    assert [place for (place, _, _), good in zip(found, told, strict=True) if not good] == []
