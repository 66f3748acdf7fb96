"""Fixtures and settings that every test shares."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from engines.spark_home import java_options, spark_home
from engines.standalone_cluster import StandaloneCluster
from fluvial.runtime.preflight.requirements import missing
from generators.how_many import AT_LENGTH, FEW, MANY, QUICK, SOME
from kafka.broker import Broker
from kafka.broker_jars import SHORT_LIVED, connector_jars, lacking
from parts import part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# "dev" tries new examples in each run; "ci" the same ones every time, so that a red run is red again, and fewer, as the
# same ones find little that they have not found before.
settings.register_profile("dev", deadline=None, print_blob=True, max_examples=MANY)
settings.register_profile(
    "ci",
    deadline=None,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=SOME,
)
USUAL = "ci" if os.environ.get("CI") else "dev"
settings.register_profile("quick", settings.get_profile(USUAL), max_examples=FEW)
settings.register_profile("at length", settings.get_profile(USUAL), max_examples=MANY)
settings.load_profile(USUAL)

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
os.environ.setdefault("KAFKA_OPTS", SHORT_LIVED)
if (home := spark_home()) is not None:
    os.environ.setdefault("SPARK_HOME", str(home))  # for programs that tests start, too


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests that take minutes, too")
    parser.addoption("--quick", action="store_true", help="try few examples of each property")
    parser.addoption("--part", type=part, help="run one part of the tests alone, as 2/4 for the second of four")


def pytest_configure(config: pytest.Config) -> None:
    """Say so before tests are read: they ask how many examples to try."""
    if config.getoption("--long"):
        os.environ[AT_LENGTH] = "1"
        settings.load_profile("at length")
    if config.getoption("--quick"):
        os.environ[QUICK] = "1"
        settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what takes minutes, unless it is asked for. Files with tests on the shared broker come last: it is
    started by the first of them, and computes for as long as it is there."""
    refuse_what_no_lane_reads(items)
    long = {item for item in items if item.get_closest_marker("long")}
    if long and not config.getoption("--long"):
        leave_out(long, items, config)
    if chosen := config.getoption("--part"):
        leave_out({item for item in items if not chosen.has(item.nodeid)}, items, config)
    yield  # to `-m`, which leaves out others
    on_broker = {item.path for item in items if item.get_closest_marker("kafka")}
    items.sort(key=lambda item: item.path in on_broker)


def leave_out(those: set[pytest.Item], items: list[pytest.Item], config: pytest.Config) -> None:
    """Run all but those."""
    config.hook.pytest_deselected(items=[*those])
    items[:] = [item for item in items if item not in those]


SAYS = {"spark": "mark.spark", "hypothesis": "hypothesis"}
"""What a file says that has tests with a mark: the Makefile finds the files of a lane by it."""
READ_AS_A_WHOLE = ("conformance", "examples")


def refuse_what_no_lane_reads(items: list[pytest.Item]) -> None:
    """Raise UsageError for a test whose mark the text of its file does not tell."""
    marked = {(item.path, mark) for item in items for mark in SAYS if item.get_closest_marker(mark)}
    for path, mark in sorted(marked):
        if path.parent.name not in READ_AS_A_WHOLE and SAYS[mark] not in path.read_text():
            raise pytest.UsageError(f"{path} has tests marked {mark}: write {SAYS[mark]} in it, or no lane finds them")


ERRORS_ONLY = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Two Spark cores in this process, shared by all tests that ask."""
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    folder = tmp_path_factory.mktemp("spark")
    quiet = folder / "log4j2.properties"
    quiet.write_text(ERRORS_ONLY)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("fluvial-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet} -Dderby.system.home={folder}")
        .config("spark.jars", ",".join(connector_jars()))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.daemon.module", "tests.support.engines.worker_daemon")  # from where tests are started
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A standalone cluster of Spark's with two workers of two cores, shared by all tests that ask. One that kills a
    worker mends it."""
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, shared by all tests that ask."""
    if reason := lacking():
        pytest.skip(reason)
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> Callable[..., str]:
    """Makes a topic of so many partitions, 1 unless told; gives its name, which no other has."""
    return broker.make_topic
