"""What type checkers must refuse. Behind BAD: the codes that mypy and pyright give on the line; no other line has any."""

from collections.abc import Sequence
from datetime import timedelta

import fluvial.runtime
from fluvial.dsl import (Batch, Cache, Context, KeyedProcessor, Message, Pipeline, Retry, Serde, Tag, Trigger, ValueState, resource, after, after_count, aggregate, any_of, collect, count, hopping, in_threads, reduce, repeat, session, skip, total, tumbling)
from fluvial.dsl import tumblin  # BAD attr-defined reportAttributeAccessIssue: no such name
from fluvial.planner import (Settings, draw, plan)
from fluvial.runtime import rnu  # BAD attr-defined reportAttributeAccessIssue: no such name
from fluvial.runtime import run
from fluvial.runtime.serdes import arvo  # BAD attr-defined reportAttributeAccessIssue: no such name
from fluvial.runtime.testing import PipelineDriver

MINUTE = timedelta(minutes=1)
p = Pipeline("p")
unkeyed = p.stream("unkeyed", value=int)
keyed = p.stream("keyed", key=str, value=int)
words = p.stream("words", key=str, value=str)
by_number = p.stream("by-number", key=int, value=int)
table = p.table("table", key=str, value=float)


async def fetch(number: int) -> list[str]:
    return [str(number)]


async def fetch_all(numbers: list[int]) -> list[list[str]]:
    return [[str(number)] for number in numbers]


async def ask(number: int, client: float) -> list[str]:
    return [str(number * client)]


async def look(key: str, client: float) -> str | None:
    return key * round(client)


@resource
def texts() -> str:
    return "no client"


# Names that do not exist, and what only keyed streams have.
unkeyed.window(tumbling(MINUTE), count(), id="w")  # BAD attr-defined reportAttributeAccessIssue: no key
unkeyed.join(table, lambda n, row: n, id="j")  # BAD attr-defined reportAttributeAccessIssue: no key
unkeyed.deduplicate(MINUTE, id="d")  # BAD attr-defined reportAttributeAccessIssue: no key
unkeyed.process(3, id="p")  # BAD attr-defined reportAttributeAccessIssue: no key
unkeyed.fliter(lambda n: n > 1).send_too("out")  # BAD attr-defined reportAttributeAccessIssue: no such methods
keyed.windwo(1)  # BAD attr-defined reportAttributeAccessIssue: no such method
keyed.map(str).flattMap(list)  # BAD attr-defined reportAttributeAccessIssue: no such method
unkeyed.map_messages(lambda m: m).window(tumbling(MINUTE), count(), id="m")  # BAD attr-defined reportAttributeAccessIssue: no key
unkeyed.broadcast(id="b").join  # BAD attr-defined reportAttributeAccessIssue: no key
keyed.merge(unkeyed).window  # BAD attr-defined reportAttributeAccessIssue: one of them has no key
unkeyed.send_to(table)  # BAD call-overload reportArgumentType: no key
by_number.send_to(table)  # BAD arg-type reportCallIssue,reportArgumentType: keys of another type
table.map(str)  # BAD attr-defined reportAttributeAccessIssue: a table is no stream
table.window  # BAD attr-defined reportAttributeAccessIssue: a table is no stream
unkeyed.send_to("out").map(str)  # BAD attr-defined reportAttributeAccessIssue: nothing follows
p.strem("in", value=int)  # BAD attr-defined reportAttributeAccessIssue: no such method
fluvial.runtime.rum(p)  # BAD attr-defined reportAttributeAccessIssue: no such name
unkeyed.asyncFlatMap  # fine: a wanted spelling

# Functions that do not fit the values.
unkeyed.filter(lambda n: n.upper()).send_to("out")  # BAD attr-defined reportAttributeAccessIssue: int has no upper
unkeyed.map(lambda n: str(n)).map(lambda text: text + 1)  # BAD operator reportOperatorIssue: a text and a number
unkeyed.flat_map(lambda n: n)  # BAD arg-type,return-value reportArgumentType: no iterable
unkeyed.map(3)  # BAD arg-type reportArgumentType: no function
unkeyed.map(str.upper)  # BAD arg-type reportArgumentType: takes a text
unkeyed.async_flat_map(lambda n: [n], id="plain")  # BAD arg-type,return-value reportArgumentType: no awaitable
unkeyed.async_flat_map(in_threads(str.split, threads=2), id="texts")  # BAD arg-type reportArgumentType: takes a text
unkeyed.merge(words)  # BAD arg-type reportArgumentType: values of another type
p.stream("times", value=str, timestamp=lambda text: text)  # BAD arg-type,return-value reportArgumentType,reportCallIssue: no number
unkeyed.send_to("out", value=str)  # BAD arg-type reportCallIssue,reportArgumentType: values of another type

# Arguments.
unkeyed.partition_by(str)  # BAD call-overload reportCallIssue: an id is missing
keyed.window(tumbling(MINUTE), count())  # BAD call-arg reportCallIssue: an id is missing
keyed.window(tumbling(60), count(), id="s")  # BAD arg-type reportArgumentType: a duration is a timedelta
keyed.window(session, count(), id="c")  # BAD arg-type reportArgumentType: session is not called
keyed.window(tumbling(MINUTE), count, id="d")  # BAD arg-type reportArgumentType: count is not called
keyed.window(tumbling(MINUTE), total(len), id="e")  # BAD arg-type reportArgumentType: int has no length
keyed.window(tumbling(MINUTE), count(), id="f", trigger=3)  # BAD arg-type reportArgumentType: no trigger
keyed.window(tumbling(MINUTE), count(), id="g", time="arrival")  # BAD arg-type reportArgumentType: no such time
keyed.window(tumbling(MINUTE), count(), id="h", lateness=5)  # BAD arg-type reportArgumentType: a duration is a timedelta
keyed.deduplicate(MINUTE)  # BAD call-arg reportCallIssue: an id is missing
keyed.deduplicate(60, id="d1")  # BAD arg-type reportArgumentType: a duration is a timedelta
keyed.deduplicate(MINUTE, by=len, id="d2")  # BAD arg-type reportArgumentType: int has no length
keyed.deduplicate(MINUTE, by=str, by_type=3, id="d3")  # BAD arg-type reportArgumentType: no type
keyed.deduplicate(MINUTE, by=3, id="d4")  # BAD arg-type reportArgumentType: no function
keyed.deduplicate(MINUTE, id="d5").map(lambda n: n.upper())  # BAD attr-defined reportAttributeAccessIssue: int has no upper
keyed.async_flat_map(fetch, id="a", order="any")  # BAD call-overload reportArgumentType: no such order
keyed.async_flat_map(fetch, id="b", timeout=3.0)  # BAD call-overload reportArgumentType: a duration is a timedelta
keyed.async_flat_map(ask, id="g")  # BAD arg-type reportArgumentType: no resource
keyed.async_flat_map(ask, id="h", resource=texts)  # BAD arg-type reportArgumentType,reportCallIssue: another client
keyed.async_flat_map(fetch, id="i", resource=texts)  # BAD arg-type reportArgumentType,reportCallIssue: it takes no client
keyed.async_flat_map(fetch, id="k", batch=Batch())  # BAD arg-type reportArgumentType,reportCallIssue: it takes one value
keyed.async_flat_map(fetch_all, id="l")  # BAD arg-type reportArgumentType: it takes several values
keyed.async_flat_map(fetch_all, id="m", batch=9)  # BAD call-overload reportArgumentType,reportCallIssue: no batch
keyed.async_flat_map(ask, id="j", resource=float)  # BAD call-overload reportArgumentType,reportCallIssue: no resource
p.remote_table("other", read=look, resource=texts)  # BAD arg-type reportArgumentType,reportCallIssue: another client
p.remote_table("given", read=look)  # BAD arg-type reportArgumentType: no resource
resource(fetch)  # BAD type-var,arg-type reportArgumentType,reportCallIssue: it takes an argument
resource(3)  # BAD call-overload reportArgumentType,reportCallIssue: no function
p.stream("late", value=int, out_of_order=5)  # BAD call-overload reportArgumentType,reportCallIssue: a duration is a timedelta
p.stream("untyped")  # BAD call-overload reportCallIssue: no type of value
p.stream("number", value=3)  # BAD call-overload reportArgumentType,reportCallIssue: no type
p.table("half", key=str)  # BAD call-overload reportCallIssue: no type of value
p.remote_table("plain", read=len)  # BAD arg-type reportArgumentType: no awaitable
p.remote_table("one", read=fetch, batch=Batch(size=9))  # BAD arg-type reportArgumentType,reportCallIssue: with a batch it takes many keys
keyed.send_to(3)  # BAD call-overload reportCallIssue,reportArgumentType: no name
keyed.sink(print, id="print")  # BAD arg-type reportArgumentType: no sink
Serde("hex", int, str, int)  # BAD arg-type reportArgumentType: encode gives no bytes
Tag("high", int)("x")  # BAD arg-type reportArgumentType: no number
Cache(10, MINUTE)  # BAD call-arg reportCallIssue: size= and ttl=
Message("no time")  # BAD call-arg reportCallIssue: a value and a time are missing
hopping(MINUTE)  # BAD call-arg reportCallIssue: every is missing
session(5)  # BAD arg-type reportArgumentType: a duration is a timedelta
Pipeline("p", on_error="skip")  # BAD arg-type reportArgumentType: skip() is
Pipeline("p", on_error=skip)  # BAD arg-type reportArgumentType: skip is not called
Retry(tries=3)  # BAD call-arg reportCallIssue: attempts
after(MINUTE)  # BAD call-arg reportCallIssue: first= or last=
after_count("9")  # BAD arg-type reportArgumentType: no number
any_of(9)  # BAD arg-type reportArgumentType: no trigger
repeat(after_count)  # BAD arg-type reportArgumentType: after_count is not called
Trigger(count="9")  # BAD arg-type reportArgumentType: no number
Settings(state_dir=3)  # BAD arg-type reportArgumentType: no text
Settings(guarantee="always")  # BAD arg-type reportArgumentType: no such guarantee
Settings(comit_interval=MINUTE)  # BAD call-arg reportCallIssue: no such setting
plan(unkeyed)  # BAD arg-type reportArgumentType: no pipeline
draw(plan(p), "png")  # BAD arg-type reportArgumentType: no such format
run(p, engine="flink")  # BAD arg-type reportArgumentType: no such engine
run(p, until="later")  # BAD arg-type reportArgumentType: no such end
run(unkeyed)  # BAD arg-type reportArgumentType: no pipeline

# What comes out of windows, joins and tables.
panes = keyed.window(tumbling(MINUTE), collect(), id="panes")
panes.map(lambda pane: pane.value + 1)  # BAD operator reportOperatorIssue: a list and a number
panes.map(lambda pane: pane.key + 1)  # BAD operator reportOperatorIssue: a text and a number
panes.map(lambda pane: pane.end)  # BAD attr-defined reportAttributeAccessIssue: it is in pane.window
keyed.window(tumbling(MINUTE), reduce(lambda a, b: a.upper()), id="r")  # BAD attr-defined reportAttributeAccessIssue: int has no upper
keyed.join(words, lambda n, word: n.upper(), id="j1", within=MINUTE)  # BAD attr-defined reportAttributeAccessIssue: int has no upper
keyed.join(words, lambda n, word: word.upper(), id="j2", within=MINUTE, how="left")  # BAD call-overload reportOptionalMemberAccess: the right may be missing
keyed.join(words, lambda n, word: (n + 1, word), id="j3", within=MINUTE, how="outer")  # BAD call-overload reportOptionalOperand: both may be missing
keyed.join(words, lambda n, word: n, id="j4")  # BAD call-overload reportArgumentType: no time
keyed.join(table, lambda n, row: row.upper(), id="j5")  # BAD attr-defined reportAttributeAccessIssue: float has no upper
keyed.join(table, lambda n, row: n + row, id="j6", how="left")  # BAD call-overload reportOperatorIssue: the row may be missing
keyed.join(table, lambda n, row: n, id="j7", how="outer")  # BAD call-overload reportArgumentType,reportCallIssue: rows wait for no message
keyed.join(unkeyed, lambda n, other: n, id="j8", within=MINUTE)  # BAD call-overload reportArgumentType: the other has no key
keyed.join(by_number, lambda n, other: n, id="j9", within=MINUTE)  # BAD arg-type reportArgumentType: keys of another type
keyed.join(words, len, id="j10", within=MINUTE)  # BAD arg-type reportArgumentType: it takes one
keyed.join(words, lambda n, word: n, id="j11", within=5)  # BAD call-overload reportArgumentType: a duration is a timedelta
table.join(table, lambda row, other: other + 1, id="j12", how="left")  # BAD call-overload reportOptionalOperand: the right may be missing
table.join(keyed, lambda row, n: row, id="j13")  # BAD call-overload reportArgumentType: no table
table.changes().map(lambda row: row + 1)  # BAD operator reportOptionalOperand: a deleted row is None


class Counter(KeyedProcessor[str, int, str]):
    """A processor that is wrong in several ways."""

    total = ValueState(int, 0)
    high = Tag("high", int)

    def on_message(self, message: Message[int], context: Context[str]) -> list[str]:
        self.total.value = "1"  # BAD assignment reportAttributeAccessIssue: no number
        context.timer.set("x", 1)  # BAD attr-defined reportAttributeAccessIssue: timers
        self.high("x")  # BAD arg-type reportArgumentType: no number
        return [message.value]  # BAD list-item reportReturnType: no text


keyed.process(Counter, id="p1")  # BAD arg-type reportArgumentType: the class is not called
words.process(Counter(), id="p2")  # BAD arg-type reportArgumentType: values of another type
keyed.process(Counter(), id="p3").tagged("high")  # BAD arg-type reportArgumentType: no tag
keyed.process(Counter(), id="p4").map(lambda text: text + 1)  # BAD operator reportOperatorIssue: a text and a number


class Lines:
    """A sink of texts, without flush."""

    def open(self) -> None: ...
    def write(self, messages: Sequence[Message[str]]) -> None: ...
    def close(self) -> None: ...


words.sink(Lines(), id="lines")  # BAD arg-type reportArgumentType: it has no flush
aggregate(int, lambda total: total)  # BAD arg-type,misc reportArgumentType: add takes two
PipelineDriver(p).advance(5)  # BAD arg-type reportArgumentType: a duration is a timedelta
PipelineDriver(p).sned("in", 1)  # BAD attr-defined reportAttributeAccessIssue: no such method
