"""A query that gets more key buckets between two runs, at any place of its input, writes what one run writes: nothing
is lost, written twice or fired twice, whatever its operators keep."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.spark_in_process import BUCKETS, lowered
from engines.targets import PATIENT
from fluvial.planner import plan
from fluvial.runtime.spark.lowering.lowering import has_loop
from generators.building import build
from generators.cases import Case, cases, expected
from generators.draft import Extra
from generators.how_many import examples


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["joins", "tables", "processors", "duplicates"])
def test_a_query_whose_buckets_are_split_writes_what_one_run_does(extra: Extra) -> None:
    @settings(max_examples=examples(150), deadline=None, suppress_health_check=PATIENT)
    @given(cases("on_time", extras=[extra]), st.integers(1, 5), st.integers(1, 6), st.sampled_from([2, 5, 8]))
    def check(case: Case, batch: int, batches: int, factor: int) -> None:
        made = plan(build(case.description), partitions=case.partitions)
        assume(not has_loop(made) and not any(border.to_all for border in made.pipeline.borders))
        splits = {batch * batches: factor, batch * (batches + 2): 2}
        assert_same(lowered(case, batch, splits), expected(case, BUCKETS))

    check()
