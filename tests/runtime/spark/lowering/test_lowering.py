"""The lowering to Spark, judged in process by random pipelines: see `spark_in_process`."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from generators.how_many import examples

pytest.importorskip("pyspark", reason="the lowering is tested where pyspark is installed")

from engines.spark_in_process import lowered, queries
from engines.targets import run_on
from faults.mutants import Rewritten, planted
from fluvial.dsl import Pane, Pipeline, collect, count, dead_letter, skip, tumbling
from fluvial.dsl.message import Message, Record
from fluvial.planner import plan
from fluvial.runtime.spark.worker.inbox import Inbox
from fluvial.runtime.spark.worker.worker_process import this_process
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch
from generators.cases import Case, cases, judge

TEN = tumbling(timedelta(milliseconds=10))
LETTERS = "p-dead-letters"


@tries(max_examples=examples(320))
@given(cases(mode="on_time", extras=["tables", "duplicates"]), st.integers(1, 40))
def test_any_batching_gives_what_the_oracle_does(case: Case, batch_records: int) -> None:
    judge(case, lambda case: lowered(case, batch_records))


@pytest.mark.slow
@tries(max_examples=examples(160))
@given(cases(mode="late", extras=["tables", "duplicates"]))
def test_one_message_a_batch_judges_late_ones_as_the_rulings_do(case: Case) -> None:
    judge(case, lambda case: lowered(case, 1))


def test_buckets_run_if_they_have_messages_or_something_due_alone() -> None:
    """Watermarks take no rows: their number does not depend on that of the buckets."""
    pipeline, keys = Pipeline("p"), 2000
    counted = pipeline.stream("in", key=str, value=int).window(TEN, count(), id="first").map(lambda pane: pane.value)
    again = counted.partition_by(str, id="by-count", key_type=str, value=int)
    again.window(TEN, count(), id="second").send_to("out")
    (query,) = queries(plan(pipeline, partitions={"in": 2}), buckets=512)

    def messages(partition: int, offset: int, time: int, some: int) -> RecordBatch:
        records: list[Record] = [(b"%d/%d" % (partition, key), b"1", time, ()) for key in range(some)]
        return RecordBatch("in", partition, range(offset, offset + some), records)

    query.one_batch([messages(0, 0, 5, keys), messages(1, 0, 5, 1)])
    assert query.entered[2] == 0
    buckets = len({bucket for level, bucket in query.state if level == 1})
    assert buckets > 480
    query.one_batch([])
    assert query.entered == {1: 0, 2: 0}
    query.one_batch([messages(0, keys, 15, 1), messages(1, 1, 15, 1)])
    assert query.asked.since == 0
    query.one_batch([])
    assert query.entered == {1: buckets, 2: buckets}  # each was due, and fires a row for the next level
    query.one_batch([])
    assert query.entered == {1: 0, 2: 0}


def test_time_behind_a_border_does_not_wait_for_sources_that_do_not_lead_there() -> None:
    pipeline = Pipeline("p")
    one, other = pipeline.stream("one", value=int), pipeline.stream("other", value=int)
    one.partition_by(str, id="by-value", key_type=str).window(TEN, count(), id="window").send_to("out")
    one.merge(other).send_to("both")
    (query,) = queries(plan(pipeline, partitions={"one": 1, "other": 3}))
    query.batch([RecordBatch("one", 0, range(3), [(None, b"1", time, ()) for time in (0, 5, 50)])])
    assert [message.timestamp for message in query.written["out"]] == [9]


@pytest.mark.parametrize(
    "bad",
    [
        (b"a", b"no number", 99, ()),
        (b"\xff", b"1", 99, ()),
        (b"a", b"1", 2**63 - 1, ()),
        (b"a", b"1", -(2**63), ()),
    ],
)
def test_a_message_that_fails_at_its_source_does_not_move_time(bad: Record) -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int, key=str).window(TEN, count(), id="window").send_to("out")
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    query.batch([RecordBatch("in", 0, range(1), [bad])])
    query.batch([RecordBatch("in", 0, range(1, 2), [(b"a", b"1", 5, ())])])
    query.batch([], end=True)
    assert [message.timestamp for message in query.written["out"]] == [9]


def test_messages_are_counted_once_and_time_is_reported() -> None:
    pipeline = Pipeline("p")
    lines = pipeline.stream("in", value=int, key=str, out_of_order=timedelta(milliseconds=2))
    lines.window(TEN, count(), id="window").send_to("out")
    lines.partition_by(str, id="by-value", key_type=str).send_to("again")
    pipeline.stream("other", value=int).merge(lines).send_to("both")
    (query,) = queries(plan(pipeline, partitions={"in": 2, "other": 1}))
    ranges = [RecordBatch("in", 0, range(3), [(b"a", b"1", time, ()) for time in (0, 5, 50)])]
    query.batch([*ranges, RecordBatch("other", 0, range(1), [(None, b"1", 7, ())])])
    assert query.counts.by_kind["read"] == {"in": 3, "other": 1, "p-by-value": 3}
    assert query.counts.by_kind["written"] == {"p-by-value": 3, "again": 3, "both": 4}
    assert query.counts.watermarks == {"in/0": 48, "other/0": 7}


def broken_times(value: int) -> int:
    """Times of events, but for a message without one."""
    return {1: 40, 2: 2**63}[value % 4] if value % 4 in (1, 2) else value


def share(number: int) -> int:
    return 12 // (number % 8)


def per_other(pane: Pane[str, int]) -> float:
    return 1 / (pane.value - 1)


@pytest.mark.parametrize("border", [False, True])
def test_a_dead_letter_is_the_record_as_it_came(border: bool) -> None:
    """With its own time, whichever stage it fails in, and whatever time the pipeline takes from it."""
    pipeline = Pipeline("p", on_error=dead_letter())
    numbers = pipeline.stream("in", value=int, key=str, timestamp=broken_times).map(share)
    moved = numbers.partition_by(str, id="moved", key_type=str) if border else numbers
    moved.filter(lambda share: 6 % (share - 12) >= 0).window(TEN, count(), id="window").map(per_other).send_to("out")
    values = [b"1", b"2", b"no number", b"8", b"9", b"16", b"3", b"4"]
    records: list[Record] = [(b"a", value, 7, (("h", b"1"),)) for value in values]
    local = run_on(MemorySystem(), pipeline, {"in": [records]})
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    query.batch([RecordBatch("in", 0, range(len(records)), records)])
    query.batch([], end=True)
    local_letters, letters = (
        sorted((letter.value or b"", letter.timestamp, letter.key, letter.headers[:3]) for letter in outputs[LETTERS])
        for outputs in (local, query.written)
    )
    assert letters == local_letters
    assert [time for value, time, *_ in letters if value in (b"2", b"no number", b"8", b"16")] == [7] * 4


def collected() -> list[list[bytes]]:
    """The values of the windows that have fired after each of two batches and the end, each in its order."""
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int, key=str).window(TEN, collect(), id="window").map(in_order).send_to("out")
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    found = []
    for first in (0, 9):
        records: list[Record] = [(b"a", b"%d" % time, time, ()) for time in range(first, first + 9)]
        query.batch([RecordBatch("in", 0, range(first, first + 9), records)])
        found.append([message.value or b"" for message in query.written.get("out", ())])
    query.batch([], end=True)
    return [*found, [message.value or b"" for message in query.written["out"]]]


def in_order(pane: Pane[str, list[int]]) -> list[int]:
    return pane.value


WINDOWS = [b"[0,1,2,3,4,5,6,7,8,9]", b"[10,11,12,13,14,15,16,17]"]


def test_a_window_holds_messages_in_their_order_and_fires_in_its_batch() -> None:
    assert collected() == [[], WINDOWS[:1], WINDOWS]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("messages", "sorted(self._blocks, key=_ORDER)", "self._blocks"), ("extend", "self.ended = True", "pass")],
)
def test_what_a_bucket_forgets_is_seen(name: str, right: str, wrong: str) -> None:
    with planted(Rewritten("a bucket forgets", Inbox, name, right, wrong)):
        assert collected() != [[], WINDOWS[:1], WINDOWS]


class Noting:
    """A sink that notes what is done to it."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def open(self) -> None:
        self._calls.append("open")

    def write(self, messages: Sequence[Message[int]]) -> None:
        self._calls += [str(message.value) for message in messages]

    def flush(self) -> None:
        self._calls.append("flush")

    def close(self) -> None:
        self._calls.append("close")

    def __reduce__(self) -> str:
        return "NOTING"


CALLS: list[str] = []
NOTING = Noting(CALLS)


@pytest.mark.parametrize("crosses", [False, True])
def test_a_sink_is_opened_once_for_all_batches_of_a_process(crosses: bool) -> None:
    CALLS.clear()
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int, key=str)
    (numbers.partition_by(in_one, id="by", key_type=str) if crosses else numbers).sink(NOTING, id="sink")
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    for start in (0, 5):
        records: list[Record] = [(b"a", b"%d" % time, time, ()) for time in range(start, start + 5)]
        query.batch([RecordBatch("in", 0, range(start, start + 5), records)])
    this_process().close()
    assert ["open", *"01234", "flush", *"56789", "flush", "close"] == CALLS


def in_one(_: int) -> str:
    return "one"
