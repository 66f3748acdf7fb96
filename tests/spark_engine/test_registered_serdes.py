"""Serdes with a registry in Spark's workers: both are sent there, and ask for themselves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fluvial.dsl import SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.serdes import Registry, protobuf
from fluvial.runtime.systems import LogSystem
from generators.shop import MESSAGES
from generators.shop_pipelines import CLICKS, append, counts, encoded, impatient, read
from kafka.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
SMALL = Settings(spark_buckets=2)


def test_avro_in_and_protobuf_out(spark: "SparkSession", tmp_path: Path, registry: Registry) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    append(system, "clicks", encoded(registry))
    run(counts(registry), engine="spark", spark=spark, system=system, settings=SMALL, until="end")
    decode: Any = protobuf(MESSAGES["shop.Order"], registry=registry, subject="totals-value").decode
    found = {total.id: total.price.cents for total in map(decode, read(system, "totals"))}
    assert (found, len(CLICKS)) == ({"ada": 2, "bob": 1}, 3)


def test_a_registry_that_is_away_is_no_fault_of_a_message(
    spark: "SparkSession", tmp_path: Path, server: SchemaRegistry, registry: Registry
) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    append(system, "clicks", encoded(registry))
    server.unwell = 1000
    with pytest.raises(SystemProblem, match=f"the schema registry at {server.url} is out of reach"):
        run(counts(impatient(server)), engine="spark", spark=spark, system=system, settings=SMALL, until="end")
