"""The least size of a run in which no container is busier than it should be."""

from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.autosize import RunSize, SizeBounds
from fluvial.runtime.autosize.size_search import SizeSearch

BOUNDS = SizeBounds((1, 6), (1, 8))
shares = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.dictionaries(st.integers(0, 3), st.tuples(st.floats(0, 2), st.just(0.0)), min_size=1).map(
        lambda numbers: dict(enumerate(numbers.values()))
    ),
    min_size=1,
)


def split(search: SizeSearch, containers: int) -> RunSize:
    return search.least(0.0, dict.fromkeys(search.shares, 1), containers)


@given(shares, st.floats(0.3, 0.95))
def test_it_is_within_the_bounds_and_no_smaller_one_is_enough(
    shares: dict[str, dict[int, tuple[float, float]]], utilization: float
) -> None:
    search, ones = SizeSearch(shares, 1.0, BOUNDS), dict.fromkeys(shares, 1)
    found = search.least(utilization, ones, 1)
    assert 1 <= found.containers <= 6
    assert set(found.elasticity.values()) <= {1, 2, 4, 8}
    total = sum(share for stage in shares.values() for share, _ in stage.values())
    if search.busiest(found) <= utilization:
        assert found.containers >= total / utilization - 1e-9
        halved = {stage: max(1, factor // 2) for stage, factor in found.elasticity.items()}
        for stage, factor in halved.items():
            less = RunSize(found.containers, {**found.elasticity, stage: factor})
            assert factor == found.elasticity[stage] or search.busiest(less) > utilization


@given(shares, st.floats(0.3, 0.95), st.integers(1, 6))
def test_it_has_no_fewer_containers_than_asked_and_merges_nothing(
    shares: dict[str, dict[int, tuple[float, float]]], utilization: float, fewest: int
) -> None:
    found = SizeSearch(shares, 1.0, BOUNDS).least(utilization, dict.fromkeys(shares, 2), fewest)
    assert found.containers >= fewest
    assert min(found.elasticity.values()) >= 2


def test_tasks_are_split_where_there_are_fewer_than_containers() -> None:
    search = SizeSearch({"in": {0: (1.2, 0.0)}}, 1.0, BOUNDS)
    assert search.least(0.7, {"in": 1}, 1) == RunSize(2, {"in": 2})


def test_stages_with_equal_tasks_are_split_one_after_the_other() -> None:
    search = SizeSearch({"a": {0: (1.0, 0.0)}, "b": {0: (1.0, 0.0)}}, 1.0, BOUNDS)
    assert search.least(0.7, {"a": 1, "b": 1}, 1) == RunSize(4, {"a": 2, "b": 2})


def test_a_key_that_is_too_hot_is_not_split_in_vain() -> None:
    search = SizeSearch({"in": {0: (1.0, 0.9), 1: (0.1, 0.0)}}, 1.0, BOUNDS)
    found = search.least(0.7, {"in": 1}, 1)
    assert found.containers <= 3
    assert search.busiest(found) == 0.9


def test_a_stage_that_cannot_be_split_stays_whole() -> None:
    search = SizeSearch({"all": {0: (1.0, 0.0)}, "in": {0: (1.0, 0.0)}}, 1.0, BOUNDS, frozenset({"all"}))
    assert search.least(0.7, {"all": 1, "in": 1}, 1).elasticity["all"] == 1


def test_containers_that_are_uneven_count_as_much_fuller() -> None:
    even, uneven = (SizeSearch({"in": {0: (0.5, 0.0), 1: (0.5, 0.0)}}, factor, BOUNDS) for factor in (1.0, 1.5))
    assert even.least(0.6, {"in": 1}, 1).containers == 2
    assert uneven.least(0.6, {"in": 1}, 1).containers > 2
