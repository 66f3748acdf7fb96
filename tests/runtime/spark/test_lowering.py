"""The lowering to Spark, judged in process by random pipelines: see `spark_in_process`."""

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the lowering is tested where pyspark is installed")

from cases import Case, cases, judge
from spark_in_process import lowered


@tries(max_examples=80)
@given(cases(mode="on_time"), st.integers(1, 40))
def test_any_batching_gives_what_the_oracle_does(case: Case, batch_records: int) -> None:
    judge(case, lambda case: lowered(case, batch_records))


@tries(max_examples=40)
@given(cases(mode="late"))
def test_one_message_a_batch_judges_late_ones_as_the_rulings_do(case: Case) -> None:
    judge(case, lambda case: lowered(case, 1))
