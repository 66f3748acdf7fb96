"""Rows of outputs reach the task of their partition, in an order that does not depend on tasks."""

from collections import defaultdict
from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains
from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.spark.batch_report import BatchReport, Failure
from fluvial.runtime.spark.connectors.kafka_transactions import TransactionsRecord
from fluvial.runtime.spark.key_buckets import partition_of
from fluvial.runtime.spark.rows import OUTPUT, Messages, Row, TaskReport, messages_of
from fluvial.runtime.spark.worker.output_partitions import OutputBlock, OutputPartitions
from fluvial.runtime.spark.worker.outputs import report_row
from fluvial.runtime.systems.partitioner import partition_for

STREAMS = {"visits": 5, "late": 2, "errors": 1}
KEYS = st.one_of(st.none(), st.binary(max_size=2))
SENT = st.lists(st.tuples(st.sampled_from(sorted(STREAMS)), st.integers(0, 3), st.integers(0, 600), st.lists(KEYS)))


def blocks_of_tasks(partitions: OutputPartitions, rows: list[Row]) -> Iterator[tuple[int, OutputBlock]]:
    """What each task of the sink gets, as Spark shuffles and sorts the rows."""
    ends = partitions.end_rows()
    packed_rows = sorted([*((level, packed) for level, _, packed in rows), *ends])
    for task in range(partitions.tasks):
        own = [row for row in packed_rows if partition_of(row[0], partitions.tasks) == task]
        assert own[-1] in ends
        for block in partitions.blocks(own):
            yield task, block


@given(sent=SENT, tasks=st.integers(1, 12), seed=st.integers())
def test_each_partition_gets_its_messages_in_the_order_of_each_producer(
    sent: list[tuple[str, int, int, list[bytes | None]]], tasks: int, seed: int
) -> None:
    partitions = OutputPartitions.of(STREAMS, tasks)
    expected: dict[tuple[str, int], dict[tuple[int, int], list[bytes]]] = defaultdict(lambda: defaultdict(list))
    positions: dict[tuple[int, int], int] = defaultdict(int)
    rows: list[Row] = []
    for stream, stage, producer, keys in sent:
        if not keys:
            continue
        first = positions[stage, producer]
        positions[stage, producer] += len(keys)
        values = [f"{stage} {producer} {first + index}".encode() for index in range(len(keys))]
        records: list[Record] = [(key, value, 0, ()) for key, value in zip(keys, values, strict=True)]
        with partitions() as output:
            rows += output(messages_of(stream, producer, range(first, first + len(keys)), records), stage, 7)
        for key, value in zip(keys, values, strict=True):
            count = STREAMS[stream]
            number = producer % count if key is None else partition_for(key, count)
            expected[stream, number][stage, producer].append(value)
    Random(seed).shuffle(rows)

    found: dict[tuple[str, int], dict[tuple[int, int], list[bytes]]] = defaultdict(lambda: defaultdict(list))
    seen: list[tuple[str, int]] = []
    assert {label for _, label, _ in rows} <= {7}
    for task, (place, block) in blocks_of_tasks(partitions, rows):
        assert place is not None
        assert place in partitions.of_task(task)
        assert isinstance(block, Messages)
        for content in block.values:
            assert content is not None
            stage, producer, _ = map(int, content.split())
            found[place][stage, producer].append(content)
        seen += [place] if not seen or seen[-1] != place else []
    assert found == expected
    assert len(seen) == len(set(seen)), "the messages of a partition are not together"


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_a_failure_reaches_every_task_before_any_message(tasks: int) -> None:
    partitions = OutputPartitions.of({"out": 16}, tasks)
    report = BatchReport(failure=Failure("MessageError", "why", "trace"))
    with partitions() as output:
        rows = list(output(messages_of("out", 0, [0], [(b"k", b"v", 0, ())]), 0, 0))
    failures = partitions.failure_rows(report)
    assert sorted(partition_of(level, tasks) for level, _, _ in failures) == list(range(tasks))
    own = partition_of(rows[0][0], tasks)
    blocks = blocks_of_tasks(partitions, [*rows, *failures])
    (place, block), *others = (block for task, block in blocks if task == own)
    assert (place, block) == (None, TaskReport(report))
    assert [place for place, _ in others] == [("out", partition_for(b"k", 16))]


def test_reports_come_before_messages() -> None:
    partitions = OutputPartitions.of({"out": 1}, 1)
    report = BatchReport(due={1: {0: (1, 2)}})
    row = report_row(3, report)
    assert row[0] == OUTPUT < partitions.failure_rows(report)[0][0]
    assert [block for _, block in blocks_of_tasks(partitions, [row])] == [(None, TaskReport(report))]


def test_a_large_message_set_is_split_and_stays_in_order() -> None:
    partitions = OutputPartitions.of({"out": 1}, 1)
    records: list[Record] = [(b"k", b"%04d" % number + bytes(300_000), 0, ()) for number in range(10)]
    with partitions() as output:
        rows = list(output(messages_of("out", 0, range(10), records), 0, 0))
    assert len(rows) > 2
    blocks = blocks_of_tasks(partitions, rows[::-1])
    messages = [block for _, (_, block) in blocks if isinstance(block, Messages)]
    assert [record for part in messages for record in part.records()] == records


def test_partitions_keep_their_order_when_there_are_more() -> None:
    first = OutputPartitions.of({"b": 2}, 2)
    later = OutputPartitions.of({"a": 1, "b": 3}, 2, first.in_order)
    assert later.in_order == (("b", 0), ("b", 1), ("a", 0), ("b", 2))
    assert [later.of_task(task)[: len(first.of_task(task))] for task in range(2)] == [
        first.of_task(0),
        first.of_task(1),
    ]


def test_their_order_is_stored_as_earlier_versions_have_stored_it() -> None:
    stored = b'{"places":[["out",0],["out",1]],"tasks":2,"streams":{"out":2}}'
    record = msgspec.json.decode(stored, type=TransactionsRecord)
    assert record == TransactionsRecord([("out", 0), ("out", 1)], 2, {"out": 2})
    assert msgspec.json.encode(record) == stored


def test_a_task_whose_input_ends_early_does_not_take_it_for_all_rows() -> None:
    partitions = OutputPartitions.of({"out": 1}, 1)
    with partitions() as output:
        rows = list(output(messages_of("out", 0, [0], [(b"k", b"v", 0, ())]), 0, 0))
    taken = partitions.blocks((level, packed) for level, _, packed in rows)
    assert next(taken).partition == ("out", 0)
    with pytest.raises(SystemProblem) as raised:
        next(taken)
    assert_explains(raised.value, "has got a part of its rows", None, "all rows of the task")
