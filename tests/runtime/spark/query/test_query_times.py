"""The times that the driver of a query keeps, without Spark."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the driver is one of Spark's")

from engines.spark_in_process import Asked
from faults.mutants import Mutant, Rewritten, planted
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Plan, plan
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.spark.batch_report import BatchReport, Due
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.lowering.lowering import components, levels
from fluvial.runtime.spark.query.query_times import QueryTimes, TimesRecord, first_record

MINUTE = timedelta(minutes=1)


def windows_of_windows(idle_after: timedelta | None = None) -> Plan:
    """A window behind a window, and a border between them."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int, idle_after=idle_after)
    counted = numbers.window(tumbling(MINUTE), count(), id="first").map(lambda pane: pane.value)
    again = counted.partition_by(str, id="by", key_type=str, value=int)
    again.window(tumbling(MINUTE), count(), id="second").send_to("out")
    return plan(pipeline, partitions={"in": 2})


class Driver:
    """The driver of a query, whose file and clock are here."""

    def __init__(self, made: Plan, record: TimesRecord | None = None) -> None:
        self.plan, self.asked, self.now = made, Asked(), 1_000_000
        self.file = msgspec.json.encode(record or TimesRecord())
        self.restart()

    def restart(self, *, catches_up: bool = False) -> None:
        (stages,) = components(self.plan)
        told = levels(self.plan, stages, 4)
        record = msgspec.json.decode(self.file, type=TimesRecord)
        self.times = QueryTimes(
            self.plan, told, record, self._save, self.asked, lambda: self.now, catches_up=catches_up
        )
        self.times.start()

    def _save(self, record: TimesRecord) -> None:
        self.file = msgspec.json.encode(record)

    @property
    def wants_batch(self) -> bool:
        return self.asked.since <= 0


def report(*watermarks: int, level: int = 1, **due: Due) -> BatchReport:
    """A report of these watermarks of the partitions, and of when buckets b0, b1 ... of a level are due."""
    times = {f"in/{number}": watermark for number, watermark in enumerate(watermarks)}
    counts = Counts({"read": {"in": 1}} if watermarks else {}, times)
    return BatchReport(counts, {level: {int(name[1:]): at for name, at in due.items()}} if due else {})


def test_a_new_query_has_no_time_and_wants_no_batch() -> None:
    driver = Driver(windows_of_windows())
    assert not driver.wants_batch
    times = driver.times.begin(0)
    assert (times.before, times.after, times.clock, times.due) == ({}, {}, START, {})


def test_the_times_of_a_batch_are_those_of_the_batches_before_it() -> None:
    driver = Driver(windows_of_windows())
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, 90_000, b0=(60_000, END)))
    assert driver.wants_batch
    times = driver.times.begin(1)
    # What the first level fires must not be late at the second.
    assert times.before == {"in": (70_000, False)}
    assert times.after == {"in": (70_000, False), "p-by": (70_000, False)}
    assert times.due == {1: [0]}
    driver.times.finish(1, report(b0=(END, END)))
    assert not driver.wants_batch
    assert driver.times.begin(2).before == times.after


def test_time_waits_for_a_partition_that_had_no_message() -> None:
    driver = Driver(windows_of_windows())
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, b0=(60_000, END)))
    assert not driver.wants_batch
    assert driver.times.begin(1).after == {}


def test_a_bucket_runs_without_messages_if_it_is_due_and_once_for_a_time() -> None:
    driver = Driver(windows_of_windows())
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, 90_000, b0=(60_000, END), b1=(120_000, END), b3=(65_000, END)))
    assert driver.times.begin(1).due == {1: [0, 3]}
    # It says that it is due still: nothing more comes of it before time moves.
    driver.times.finish(1, report(b0=(60_000, END)))
    assert driver.times.begin(2).due == {1: [3]}
    driver.times.finish(2, report(120_000, 120_000, b3=(END, END)))
    assert driver.times.begin(3).due == {1: [0, 1]}


def test_a_later_run_wakes_all_buckets_that_have_state() -> None:
    driver = Driver(windows_of_windows())
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, 90_000, b1=(END, END), b2=(500_000, END)))
    driver.restart()
    assert driver.wants_batch
    assert driver.times.begin(1).due == {1: [1, 2]}


def test_a_query_of_an_earlier_version_wakes_all_its_buckets_at_the_watermarks_that_were_counted() -> None:
    made = windows_of_windows()
    (stages,) = components(made)
    driver = Driver(made, first_record(levels(made, stages, 4), 4, {"in/0": 5, "in/1": 7}, begun=True))
    times = driver.times.begin(12)
    assert times.after == {"in": (5, False), "p-by": (5, False)}
    assert times.due == {1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}


def test_a_partition_that_is_idle_is_not_waited_for() -> None:
    driver = Driver(windows_of_windows(timedelta(seconds=10)))
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, b0=(60_000, END)))
    assert driver.asked.since == 1_010_000
    driver.now += 10_000
    assert driver.times.begin(1).due == {}
    driver.times.finish(1, report())  # it had no message
    assert driver.wants_batch
    assert driver.times.begin(2).due == {1: [0]}


def test_a_partition_is_not_idle_whose_messages_wait_for_a_batch_that_takes_long() -> None:
    driver = Driver(windows_of_windows(timedelta(seconds=10)))
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, 50_000, b0=(60_000, END)))
    for batch in (1, 2):
        driver.now += 60_000
        assert driver.times.begin(batch).before == {"in": (50_000, False), "p-by": (50_000, False)}
        driver.times.finish(batch, report(70_000, 50_000))
    driver.now += 60_000
    driver.times.begin(3)
    driver.times.finish(3, report(70_000))
    assert driver.times.begin(4).before["in"] == (70_000, False)


def test_watermarks_that_messages_do_not_report_are_those_of_borders_and_of_idle_partitions() -> None:
    driver = Driver(windows_of_windows(timedelta(seconds=10)))
    driver.times.begin(0)
    driver.times.finish(0, report(70_000, 50_000, b0=(60_000, END)))
    assert driver.times.watermarks == {"p-by/": 50_000}
    driver.now += 10_000
    driver.times.begin(1)
    driver.times.finish(1, report())
    assert driver.times.watermarks == {"p-by/": 80_000, "in/0": 80_000, "in/1": 60_000}
    driver.times.begin(2)
    driver.restart()
    assert driver.times.watermarks == {"p-by/": 80_000, "in/0": 80_000, "in/1": 60_000}


def test_the_time_without_a_run_counts_as_silence_for_a_run_that_catches_up() -> None:
    for catches_up, due in ((False, 0), (True, 70_000)):
        driver = Driver(windows_of_windows(timedelta(seconds=10)))
        driver.times.begin(0)
        driver.times.finish(0, report(70_000, 1_000, b0=(60_000, END)))
        driver.now += 1000
        driver.times.begin(1)
        driver.times.finish(1, report(70_000))
        driver.now += 9000
        driver.restart(catches_up=catches_up)
        driver.times.begin(2)
        driver.times.finish(2, report())
        watermark, _ = driver.times.begin(3).after["in"]
        assert (watermark >= 11_000) == bool(due)


def test_processing_time_goes_by_whole_seconds_and_never_back() -> None:
    driver = Driver(windows_of_windows(timedelta(seconds=10)))
    driver.now += 1234
    assert driver.times.begin(0).clock == 1_001_000
    driver.times.finish(0, report(1))
    driver.now -= 5000
    driver.restart()
    assert driver.times.begin(1).clock == 1_001_000


def test_a_clock_that_was_set_back_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits for a window would see nothing, and no reason."""
    driver = Driver(windows_of_windows(timedelta(seconds=10)))
    driver.times.begin(0)
    driver.times.finish(0, report(1))
    driver.now -= 59_000
    driver.restart()
    driver.times.begin(1)
    assert caplog.messages == []
    driver.times.finish(1, report(1))
    driver.now -= 3_541_000
    for batch in (2, 3):
        driver.times.begin(batch)
        driver.times.finish(batch, report(1))
    (warning,) = caplog.messages
    assert warning.startswith("this machine's clock is 3600 s behind")


Step = tuple[str, Sequence[int]]
REPORTS = st.lists(st.integers(0, 300_000), max_size=2)


def assert_the_same_times(crashes: Sequence[Step], clocked: bool) -> None:
    """The driver dies behind the begin of a batch, behind its end before Spark has noted it, or between batches."""
    driver = Driver(windows_of_windows(timedelta(seconds=10) if clocked else None))
    for batch, (where, watermarks) in enumerate(crashes):
        first = driver.times.begin(batch)
        told = report(*watermarks, b0=(watermarks[0] if watermarks else END, END))
        if where != "begin":
            driver.times.finish(batch, told)
        driver.now += 2500
        if where != "both":
            driver.restart()
            again = driver.times.begin(batch)
            assert (again.before, again.after, again.clock) == (first.before, first.after, first.clock)
            driver.times.finish(batch, told)


@given(st.lists(st.tuples(st.sampled_from(["begin", "finish", "both"]), REPORTS), max_size=20), st.booleans())
def test_a_batch_that_is_run_again_has_the_same_times(crashes: list[Step], clocked: bool) -> None:
    assert_the_same_times(crashes, clocked)


MISTAKES: list[tuple[Mutant, Callable[[], None]]] = [
    (
        Rewritten(
            "what a level fires is late at the next",
            QueryTimes,
            "_before",
            "if not waits",
            "if True",
        ),
        test_the_times_of_a_batch_are_those_of_the_batches_before_it,
    ),
    (
        Rewritten(
            "a bucket runs again though time stands still",
            QueryTimes,
            "_due",
            "self._run_at.get((level, bucket)) != self._moves",
            "True",
        ),
        test_a_bucket_runs_without_messages_if_it_is_due_and_once_for_a_time,
    ),
    (
        Rewritten(
            "a bucket is not woken if it was due before",
            QueryTimes,
            "finish",
            "self._run_at.update",
            "dict.fromkeys",
        ),
        test_a_bucket_runs_without_messages_if_it_is_due_and_once_for_a_time,
    ),
    (
        Rewritten(
            "a later run wakes no bucket",
            QueryTimes,
            "__init__",
            "dict.fromkeys(of_level, _AT_ONCE)",
            "dict(of_level)",
        ),
        test_a_later_run_wakes_all_buckets_that_have_state,
    ),
    (
        Rewritten(
            "the time without a run counts as silence",
            QueryTimes,
            "__init__",
            "not catches_up",
            "False",
        ),
        test_the_time_without_a_run_counts_as_silence_for_a_run_that_catches_up,
    ),
    (
        Rewritten(
            "a batch that is run again has other times",
            QueryTimes,
            "begin",
            "record.batch == batch",
            "False",
        ),
        partial(assert_the_same_times, [("begin", [])], clocked=True),
    ),
    (
        Rewritten(
            "the clock goes back",
            QueryTimes,
            "begin",
            "max(self._now(), record.times.clock if record.times else START)",
            "self._now()",
        ),
        test_processing_time_goes_by_whole_seconds_and_never_back,
    ),
]


@pytest.mark.parametrize(("mistake", "test"), MISTAKES, ids=[str(mistake) for mistake, _ in MISTAKES])
def test_a_mistake_is_found(mistake: Mutant, test: Callable[[], None]) -> None:
    with planted(mistake), pytest.raises(AssertionError):
        test()
