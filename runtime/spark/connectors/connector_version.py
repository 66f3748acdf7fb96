"""The version of Spark's connector to Kafka, which comes in a package of its own."""

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_log = logging.getLogger(__name__)


def connector_version(session: "SparkSession") -> str | None:
    """The version of the connector that a session has loaded; None if it does not say."""
    jvm: Any = session._jvm
    try:
        version = jvm.org.apache.spark.util.Utils.classForName(_PROVIDER, True, False).getPackage()
        return None if version is None else version.getImplementationVersion()
    except Py4JError:
        return None


def warn_of_mix(spark: str, connector: str | None) -> None:
    """Warn if Spark and its connector are of different versions: they call each other's internal classes."""
    if connector is not None and connector != spark:
        _log.warning(
            "Spark is %s, and its connector to Kafka is %s: they are made for each other in one version only; let "
            "spark.jars or spark.jars.packages name the connector and its token provider of %s",
            spark,
            connector,
            spark,
        )
