"""Messages without a key that a table is given: counted, and the first one warned of, on either engine."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engines.targets import write
from fluvial.dsl import Pipeline
from fluvial.runtime import Progress, Report, run
from fluvial.runtime.cli.display import summary
from fluvial.runtime.data_warnings.keyless import KeylessWarning
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.testing import PipelineDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def named() -> Pipeline:
    pipeline = Pipeline("named")
    names = pipeline.table("names", key=str, value=str)
    logins = pipeline.stream("logins", key=str, value=str)
    logins.join(names, lambda login, name: f"{login} {name}", id="named").send_to("named")
    latest = pipeline.table("latest", key=str, value=str)
    logins.send_to(latest)
    return pipeline


def filled(system: System) -> System:
    names = [(b"a", b"Ada", 0, ()), (None, b"Bob", 0, ()), (None, b"Cyd", 0, ())]
    write(system, {"names": [names, names], "logins": [[(b"a", b"1", 0, ())], [(None, b"2", 0, ())]]})
    return system


def check(report: Report, told: list[Progress], caplog: pytest.LogCaptureFixture) -> None:
    assert report.keyless == {"names": 4, "latest": 1}
    assert ["keyless", "names", "4"] in [line.split() for line in summary(report).splitlines()]
    facts = [fact for fact in told[-1].facts if fact.metric == "dropped_messages" and fact.labels[-1] == "keyless"]
    found = {table: sum(fact.value for fact in facts if fact.labels[2] == table) for table in report.keyless}  # type: ignore[misc]
    assert found == report.keyless
    warned = [line.message for line in caplog.records if line.levelno == logging.WARNING]
    assert len([text for text in warned if "'names' was given messages without a key" in text]) == 1
    assert len([text for text in warned if "'latest' was given messages without a key" in text]) == 1


def test_on_the_local_engine(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Progress] = []
    report = run(named(), system=filled(MemorySystem()), until="end", progress=told.append)
    check(report, told, caplog)


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: "SparkSession", caplog: pytest.LogCaptureFixture) -> None:
    told: list[Progress] = []
    system: Any = filled(LogSystem(tmp_path, fsync=False))
    report = run(named(), engine="spark", system=system, until="end", progress=told.append, spark=spark)
    check(report, told, caplog)
    state = tmp_path / "spark"
    assert {path.stat().st_mode & 0o777 for path in (state, *state.glob("named/*"), *state.glob("named/*/*"))} == {
        0o700
    }


def test_a_table_whose_rows_have_keys_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    with PipelineDriver(named()) as driver:
        driver.send("names", "Ada", key="a")
        assert driver.end().keyless == {}
    assert caplog.records == []


def test_a_table_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    warning = KeylessWarning(named())
    looks: list[list[dict[str, int]]] = [[{}], [{"names": 1}, {"names": 2}], [{"names": 7}]]
    for counts in looks:
        warning.check(counts)
    assert [line.message.partition(",")[0] for line in caplog.records] == [
        "table 'names' was given messages without a key"
    ]
