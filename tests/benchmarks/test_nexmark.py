"""The queries of Nexmark come to what plain Python does, on both engines."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from benchmarks.nexmark.__main__ import filled, written
from benchmarks.nexmark.events import PARTITIONS, events, records
from benchmarks.nexmark.oracles import ORACLES, comparable, expected
from benchmarks.nexmark.queries import QUERIES, RESULT, pipeline
from engines.spark_in_process import queries
from fluvial.planner import Settings
from fluvial.planner.planner import plan_on
from fluvial.runtime import run
from fluvial.runtime.systems.contract import RecordBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND = events(3_000)


@pytest.mark.parametrize("query", QUERIES)
def test_the_local_engine_comes_to_the_oracle_s_results(query: str, tmp_path: Path) -> None:
    system = filled(tmp_path, records(FOUND))
    run(pipeline(query), system=system, until="end")
    wanted = expected(query, FOUND)
    assert wanted
    assert comparable(query, written(system)) == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_so_do_the_levels_of_spark(query: str) -> None:
    made = plan_on(pipeline(query), dict.fromkeys(("persons", "auctions", "bids"), PARTITIONS))
    found = records(FOUND)
    values: list[bytes] = []
    for part in queries(made):
        for start in range(0, 3_000, 500):
            ranges = [
                RecordBatch(
                    name, number, range(start, start + len(records_of[start : start + 500])), records_of[start:][:500]
                )
                for name in sorted(part.sources, reverse=True)
                for number, records_of in enumerate(found[name])
                if start < len(records_of)
            ]
            part.now += 1_000
            part.batch(ranges)
        part.batch([], end=True)
        values += [message.value or b"" for message in part.written.get(RESULT, [])]
    assert comparable(query, map(msgspec.json.decode, values)) == expected(query, FOUND)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_so_does_spark(query: str, tmp_path: Path, spark: "SparkSession") -> None:
    system = filled(tmp_path, records(FOUND))
    settings = Settings(spark_buckets=2)
    run(pipeline(query), engine="spark", system=system, until="end", settings=settings, spark=spark)
    assert comparable(query, written(system)) == expected(query, FOUND)


def test_each_query_has_an_oracle_and_each_kind_of_event_comes() -> None:
    assert QUERIES.keys() == ORACLES.keys()
    assert {type(event).__name__ for event in FOUND} == {"Person", "Auction", "Bid"}
    times = [event.at for event in FOUND]
    assert times == sorted(times)
