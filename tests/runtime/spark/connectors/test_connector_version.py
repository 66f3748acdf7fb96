"""Spark and its connector to Kafka are to be of one version."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")
import pyspark

from fluvial.runtime.spark.connectors.connector_version import connector_version, warn_of_mix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_mix_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_mix("4.3.0", "4.2.0")
    assert "Spark is 4.3.0, and its connector to Kafka is 4.2.0" in caplog.text
    assert "token provider of 4.3.0" in caplog.text


@pytest.mark.parametrize("connector", ["4.2.0", None])
def test_one_version_is_no_mix(caplog: pytest.LogCaptureFixture, connector: str | None) -> None:
    warn_of_mix("4.2.0", connector)
    assert caplog.text == ""


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
def test_these_tests_have_one_version(spark: "SparkSession") -> None:
    assert connector_version(spark) == pyspark.__version__
