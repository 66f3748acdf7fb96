"""What Spark's connector reads from Kafka, on its way to records, without Spark."""

from collections.abc import Sequence

import pytest

pytest.importorskip("pyspark", reason="the source is one of Spark's")

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl.message import Record
from fluvial.runtime.spark.connectors.kafka_format import offsets_text, parse_offsets
from fluvial.runtime.spark.connectors.kafka_source import batch_of
from fluvial.runtime.systems.kafka.records import TIME_HEADER, headers_for

STREAMS = ("other", "in")
NOW = 1_700_000_000_000
SOME_BYTES = st.binary(max_size=5)
HEADERS = st.lists(st.tuples(st.sampled_from(["a", "\N{SNOWMAN}", "", TIME_HEADER]), SOME_BYTES), max_size=3)
RECORDS = st.lists(
    st.tuples(
        st.none() | SOME_BYTES,
        st.none() | SOME_BYTES,
        st.sampled_from([0, 1, NOW]),
        st.just(()) | HEADERS.map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def as_spark_writes(headers: Sequence[tuple[str, str | bytes | None]]) -> str:
    """Headers as Spark's `to_json` writes them."""
    told = [{"key": name} if value is None else {"key": name, "value": value} for name, value in headers]
    return msgspec.json.encode(told).decode()


def as_read(records: Sequence[Record], offsets: Sequence[int]) -> pa.RecordBatch:
    """The connector's columns for records that were written to partition 3 of `in`; Kafka's client takes 0 for now."""
    keys, values, times, _ = zip(*records, strict=True)
    headers = [headers_for(time, headers) for _, _, time, headers in records]
    told = [None if found is None else as_spark_writes(found) for found in headers]
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([(1 << 20) + 3] * len(records), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "time": pa.array([time or NOW for time in times], pa.int64()),
        "headers": pa.array(told, pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@given(RECORDS, st.integers(0, 3), st.data())
def test_records_come_back_as_they_were_written(records: list[Record], cut: int, data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 2), min_size=len(records), max_size=len(records)))
    offsets = [sum(gaps[: index + 1]) for index in range(len(records))]
    cut = min(cut, len(records) - 1)
    batch = batch_of(as_read(records, offsets).slice(cut), STREAMS)
    assert (batch.stream, batch.partition) == ("in", 3)
    assert batch.records == records[cut:]
    assert list(batch.offsets) == offsets[cut:]


def test_a_header_without_a_value_has_an_empty_one() -> None:
    found = as_read([(None, b"", 1, (("a", b"1"),))], [0])
    told = pa.array([as_spark_writes([("none", None)])], pa.string())
    changed = found.set_column(found.schema.get_field_index("headers"), "headers", told)
    assert batch_of(changed, STREAMS).records == [(None, b"", 1, (("none", b""),))]


@given(st.dictionaries(st.text(max_size=3), st.lists(st.integers(0, 9), min_size=1, max_size=12)))
def test_offsets_come_back_by_partition(offsets: dict[str, list[int]]) -> None:
    assert parse_offsets(["-", offsets_text(offsets), '{"ends": 1}']) == offsets


def test_lines_of_other_sources_are_left_out_and_one_that_is_cut_is_an_error() -> None:
    others = ['{"logOffset": 3}', "12", '{"shard": {"position": 3}}', '{"clicks": {"0": 9}}']
    assert parse_offsets(['{"clicks": {"0": 5, "10": 7, "9": 6}}', *others]) == {"clicks": [5, 6, 7]}
    with pytest.raises(msgspec.DecodeError):
        parse_offsets(['{"clicks": {"0": 5'])
