"""Times that look wrong are told once a run, in the report and in the log."""

import logging
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Plan, plan
from fluvial.runtime import Settings, run
from fluvial.runtime.cli.display import summary
from fluvial.runtime.data_warnings.suspicious_times import LOGGER, SuspiciousTimes
from fluvial.runtime.report import Report
from fluvial.runtime.systems.log import LogSystem
from fluvial.runtime.systems.memory import MemorySystem

NOW = 1_800_000_000_000
YEAR = 365 * 86_400_000
SECOND = timedelta(seconds=1)


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def given_time(at: int) -> int:
    return at


def windows(*, timestamp: Any = given_time, time: Any = "event", **options: Any) -> Pipeline:
    pipeline = Pipeline("times")
    stream = pipeline.stream("in", key=str, value=int, timestamp=timestamp, **options)
    stream.window(tumbling(SECOND), count(), id="w", time=time).send_to("out")
    return pipeline


def planned(pipeline: Pipeline) -> Plan:
    return plan(pipeline, partitions={"in": 1})


def judged(pipeline: Pipeline) -> tuple[SuspiciousTimes, Clock]:
    clock = Clock()
    return SuspiciousTimes(planned(pipeline), clock, lambda: NOW), clock


@pytest.mark.parametrize(
    ("high", "told"),
    [
        (NOW, None),
        (NOW // 1000, "lie before 1980: the latest is 1800000000, which is 1970-01-21"),
        (315_532_799_999, "lie before 1980"),
        (315_532_800_000, None),
        (NOW + YEAR, None),
        (NOW + YEAR + 1, "more than a year ahead"),
        (NOW * 1000, "which is in no year that has a date"),
    ],
)
def test_times_that_lie_far_from_now_are_reported(high: int, told: str | None) -> None:
    times, _ = judged(windows())
    times.check({"in": high}, {}, {})
    assert [*times.warnings] == ([] if told is None else ["times of in"])
    if told is not None:
        assert told in times.warnings["times of in"]
        assert "test_suspicious_times.py" in times.warnings["times of in"]


def test_times_that_nobody_goes_by_are_not_looked_at() -> None:
    pipeline = Pipeline("copies")
    pipeline.stream("in", value=int).send_to("out")
    times, _ = judged(pipeline)
    times.check({"in": 1}, {}, {})
    assert times.warnings == {}


def test_times_by_which_duplicates_are_recognised_are_looked_at() -> None:
    pipeline = Pipeline("times")
    pipeline.stream("in", key=str, value=int).deduplicate(SECOND, id="once").send_to("out")
    times, _ = judged(pipeline)
    times.check({"in": NOW // 1000}, {}, {})
    assert [*times.warnings] == ["times of in"]


def test_more_than_a_tenth_late_within_a_minute_is_reported() -> None:
    times, clock = judged(windows())
    times.check({}, {"w": 100}, {"w": 50})
    assert times.warnings == {}  # the minute is not over
    clock.seconds = 60
    times.check({}, {"w": 1000}, {"w": 100})
    assert times.warnings == {}
    clock.seconds = 119
    times.check({}, {"w": 1100}, {"w": 200})
    assert times.warnings == {}
    clock.seconds = 120
    times.check({}, {"w": 1100}, {"w": 111})
    assert "window w: 11 of 100 messages were late within a minute" in times.warnings["late at w"]


def test_the_last_part_of_a_minute_counts_too_but_few_messages_say_nothing() -> None:
    times, _ = judged(windows())
    times.finish({}, {"w": 9}, {"w": 9})
    assert times.warnings == {}
    times, _ = judged(windows())
    times.finish({}, {"w": 10}, {"w": 2})
    assert [*times.warnings] == ["late at w"]


def test_a_source_without_timestamp_in_front_of_a_window_is_reported() -> None:
    assert [*judged(windows(timestamp=None))[0].warnings] == ["timestamp of in"]
    assert judged(windows())[0].warnings == judged(windows(timestamp=None, time="processing"))[0].warnings == {}
    moved = Pipeline("moved")
    keyed = moved.stream("in", value=int).partition_by(str, id="by", key_type=str)
    keyed.window(tumbling(SECOND), count(), id="w").send_to("out")
    assert [*judged(moved)[0].warnings] == ["timestamp of in"]


def test_a_source_whose_times_come_from_elsewhere_is_not_reported() -> None:
    made = plan(windows(timestamp=None))
    assert SuspiciousTimes(made, stamped={"in"}).warnings == {}
    assert [*SuspiciousTimes(made, stamped={"other"}).warnings] == ["timestamp of in"]


def test_a_source_without_timestamp_is_told_what_is_true_of_any_writer() -> None:
    """The writer may have given the times of events: no message tells."""
    text = judged(windows(timestamp=None))[0].warnings["timestamp of in"]
    assert "when its messages were written" not in text
    assert "stream 'in' has no timestamp=: the times of its messages are those that they were written with" in text
    assert "to do: nothing if they are; else give the stream timestamp=" in text


def test_each_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    times, _ = judged(windows(timestamp=None))
    for _ in range(3):
        times.finish({"in": 1}, {"w": 100}, {"w": 50})
    assert [*times.warnings] == ["timestamp of in", "times of in", "late at w"]
    assert [record.name for record in caplog.records] == [LOGGER] * 3


def test_a_summary_has_them_in_a_line_each() -> None:
    report = Report(pipeline="p", engine="local", seconds=1.0, warnings={"a": "this is odd\n  expected: that"})
    assert summary(report).endswith("\n  warning  this is odd")


def filled(system: Any) -> Any:
    """In seconds, and one in five comes late."""
    system.admin().create("in", 2)
    writing = system.producer().begin()
    for partition in range(2):
        times = [1_700_000_000 + number * (200 if number % 5 else -200) for number in range(40)]
        writing.append("in", partition, [(b"k", b"%d" % time, 0, ()) for time in times])
    writing.commit()
    return system


def on_local(_: Path) -> Report:
    return run(windows(), system=filled(MemorySystem()), until="end")


def test_a_run_tells_them_in_its_report_and_its_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report = on_local(tmp_path)
    assert [*report.warnings] == ["times of in", "late at w"]
    assert sum(record.name == LOGGER for record in caplog.records) == 2


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_run_on_spark_tells_the_same(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    system = filled(LogSystem(tmp_path / "log", fsync=False))
    settings = Settings(spark_buckets=1, spark_batch_records=5)
    with caplog.at_level(logging.WARNING):
        report = run(windows(), engine="spark", system=system, settings=settings, until="end", spark=spark)
    assert [*report.warnings] == ["times of in", "late at w"]
    assert sum(record.name == LOGGER for record in caplog.records) == 2
