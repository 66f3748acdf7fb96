"""Progress and reports of several containers, as one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime import Progress, Report
from fluvial.runtime.containers.merged_reports import merged_progress, merged_report
from fluvial.runtime.report import HotKey, Sample, sums

NAMES = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))
HOT_KEYS = st.builds(HotKey, st.sampled_from(["in/0-0-2", "in/0-1-2"]), st.just("in"), st.just("1"), st.floats(0, 1))
MAYBE = st.none() | st.integers(0, 9)
progresses = st.builds(
    Progress, phase=st.just("running"), seconds=st.floats(0, 9), read=st.integers(0, 9), written=st.integers(0, 9),
    lag=st.just(0), watermark=MAYBE, in_flight=st.integers(0, 9), keyless=NAMES,
)  # fmt: skip
reports = st.builds(
    Report, pipeline=st.just("p"), engine=st.just("local"), seconds=st.floats(0, 9), read=NAMES, written=NAMES,
    late=NAMES, failed=NAMES, checkpoints=st.integers(0, 9), restored=st.integers(0, 9),
    restore_seconds=st.floats(0, 9), hot_keys=st.tuples() | st.tuples(HOT_KEYS) | st.tuples(HOT_KEYS, HOT_KEYS),
)  # fmt: skip


@given(st.lists(progresses))
def test_progress_is_the_sum_and_time_the_least(parts: list[Progress]) -> None:
    found = merged_progress(parts, "2 of 2", 3.0)
    assert (found.phase, found.seconds) == ("2 of 2", 3.0)
    for name in ("read", "written", "in_flight"):
        assert getattr(found, name) == sum(getattr(part, name) for part in parts)
    assert found.keyless == sums(part.keyless for part in parts)
    assert found.watermark == min((part.watermark for part in parts if part.watermark is not None), default=None)


def behind(container: int, **lags: int) -> Progress:
    """A container with key buckets of partitions of `in`, by the number of the partition behind an underscore."""
    facts = [Sample("lag_messages", lag, ("in", f"in/0-{container}-2", "in", name[1:])) for name, lag in lags.items()]
    return Progress(phase="running", seconds=1.0, read=0, written=0, lag=sum(lags.values()), facts=(*facts,))


def test_the_lag_of_a_partition_that_several_containers_read_counts_once() -> None:
    assert merged_progress([behind(0, _0=5, _1=2), behind(1, _0=7), behind(2, _2=1)], "3 of 3", 1.0).lag == 10


def test_a_lag_that_one_container_does_not_know_is_not_known() -> None:
    restoring = Progress(phase="restoring", seconds=1.0, read=0, written=0)
    assert merged_progress([behind(0, _0=5), restoring], "2 of 2", 1.0).lag is None


@given(st.lists(reports))
def test_a_report_is_the_sum_by_name(parts: list[Report]) -> None:
    found = merged_report("p", parts, 3.0)
    assert (found.pipeline, found.engine, found.seconds) == ("p", "local", 3.0)
    assert found.checkpoints == sum(part.checkpoints for part in parts)
    assert found.restored == sum(part.restored for part in parts)
    assert [key.share for key in found.hot_keys] == sorted(
        (k.share for part in parts for k in part.hot_keys), reverse=True
    )
    assert found.restore_seconds == max((part.restore_seconds for part in parts), default=0)  # all at the same time
    for kind in ("read", "written", "late", "failed"):
        wanted: dict[str, Any] = {}
        for name, number in ((name, number) for part in parts for name, number in getattr(part, kind).items()):
            wanted[name] = wanted.get(name, 0) + number
        assert getattr(found, kind) == wanted
