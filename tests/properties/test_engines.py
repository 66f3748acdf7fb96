"""Random pipelines with random inputs: the driver, the engines and the oracle write the same messages."""

from functools import partial
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, without_repeats
from engines.spark_in_process import BUCKETS, lowered
from engines.targets import (
    PATIENT,
    on_driver,
    on_driver_in_pieces,
    on_driver_with_restarts,
    on_local_kafka,
    on_local_log,
    on_local_memory,
    on_spark,
)
from generators.cases import Case, Pieces, cases, cases_of, expected, pieces_of
from generators.described_steps import Border, Filter, Lookup, Map, Merge, Put, Source, WindowStep
from generators.described_tables import TableSource
from generators.descriptions import Description, Mode
from generators.draft import Extra, Windows
from generators.early_panes import crossing_early
from generators.how_many import examples
from kafka.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = settings(max_examples=examples(200), deadline=None, suppress_health_check=PATIENT)
FEW = settings(MANY, max_examples=examples(15, least=6))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["on_time", "late"])
def test_the_driver_and_the_local_engine_write_what_the_oracle_does(mode: Mode) -> None:
    @MANY
    @given(cases(mode))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["counts", "triggers"])
def test_triggers_show_what_the_oracle_s_do(windows: Windows) -> None:
    @settings(MANY, max_examples=examples(100))
    @given(cases("late", windows=windows))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("windows", ["counts", "triggers"])
def test_early_panes_of_windows_without_end_cross_borders_with_their_time(windows: Windows) -> None:
    @settings(MANY, max_examples=examples(100))
    @given(crossing_early(windows))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)

    check()


@pytest.mark.slow
def test_so_they_do_in_the_levels_of_spark_where_all_comes_in_order() -> None:
    @settings(MANY, max_examples=examples(100))
    @given(crossing_early("counts", in_order=True), st.integers(1, 20))
    def check(case: Case, batch: int) -> None:
        assert_same(lowered(case, batch), expected(case, BUCKETS))

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "most"), [("on_time", 100), ("late", 300)])
def test_joins_join_what_the_oracle_s_do(mode: Mode, most: int) -> None:
    @settings(MANY, max_examples=examples(most))
    @given(cases(mode, extras=["joins"]))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["on_time", "late"])
def test_rows_are_looked_up_as_the_oracle_does(mode: Mode) -> None:
    @settings(MANY, max_examples=examples(100))
    @given(cases(mode, extras=["tables", "joins"]))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        if mode == "on_time":  # Spark's batches may take what is late in
            assert_same(lowered(case), wanted)

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "most"), [("on_time", 100), ("late", 200)])
def test_processors_do_what_the_oracle_s_do(mode: Mode, most: int) -> None:
    @settings(MANY, max_examples=examples(most))
    @given(cases(mode, extras=["processors"]))
    def check(case: Case) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "most"), [("on_time", 100), ("late", 200)])
def test_duplicates_are_left_out_as_the_oracle_does(mode: Mode, most: int) -> None:
    @settings(MANY, max_examples=examples(most))
    @given(cases(mode, extras=["duplicates"]), st.integers(1, 20))
    def check(case: Case, batch: int) -> None:
        wanted = expected(case)
        assert_same(on_driver(case), wanted)
        assert_same(on_local_memory(case), wanted)
        assert_same(lowered(case, batch if mode == "on_time" else 1), wanted)

    check()


FILLED = Description(
    (Source("a", key="str"),),
    (
        Lookup(0, 0, "left", "first_word", 1),
        Put(1, 0),
        Filter(1, "above", 0),
        Lookup(3, 0, "inner", "minus", 1),
        WindowStep(4, "tumbling", 10, "count", panes="panes"),
    ),
    tables=(TableSource("latest", "str", filled=True),),
)
"""A message looks up what the one before it has left, and leaves a row itself; also behind that lookup."""


@MANY
@given(cases_of(FILLED, max_records=20))
def test_messages_see_the_rows_that_those_before_them_have_sent(case: Case) -> None:
    wanted = expected(case)
    assert_same(on_driver(case), wanted)
    assert_same(on_local_memory(case), wanted)
    assert_same(lowered(case), wanted)


MIXED = pytest.mark.parametrize(("mode", "windows"), [("on_time", "plain"), ("late", "triggers")])
"""All that random pipelines have, in one."""


def mixed(mode: Mode, windows: Windows, max_records: int = 20) -> st.SearchStrategy[tuple[Case, Pieces]]:
    """Cases of all operators together, with an order in which their inputs come."""
    drawn = cases(mode, max_records=max_records, negative=False, windows=windows, extras=get_args(Extra))
    return drawn.flatmap(lambda case: st.tuples(st.just(case), pieces_of(case.inputs, case.first)))


@pytest.mark.slow
@MIXED
def test_all_operators_together_do_what_the_oracle_s_do(mode: Mode, windows: Windows) -> None:
    @settings(MANY, max_examples=examples(100))
    @given(mixed(mode, windows), st.integers(1, 20))
    def check(given_so: tuple[Case, Pieces], batch: int) -> None:
        case, pieces = given_so
        wanted = expected(case)
        assert_same(on_driver_in_pieces(case, pieces), wanted)
        assert_same(on_local_memory(case), wanted)
        assert_same(on_local_log(case, batch), wanted)
        if mode == "on_time":  # Spark's batches may take what is late in
            assert_same(lowered(case, batch), expected(case, BUCKETS))

    check()


@pytest.mark.slow
@MIXED
def test_all_operators_together_survive_restarts(mode: Mode, windows: Windows) -> None:
    @settings(MANY, max_examples=examples(100))
    @given(mixed(mode, windows, max_records=12))
    def check(given_so: tuple[Case, Pieces]) -> None:
        # What was written to a remote table and not committed is written again.
        written, wanted = on_driver_with_restarts(*given_so), expected(given_so[0])
        assert_same(without_repeats(written), without_repeats(wanted))

    check()


KINDS = pytest.mark.parametrize("kind", ["tables", "processors", "duplicates"])
"""What random pipelines have besides joins."""


@KINDS
@pytest.mark.parametrize("mode", ["on_time", "late"])
def test_the_local_engine_writes_the_same_to_the_log(mode: Mode, kind: Extra) -> None:
    @FEW
    @given(cases(mode, negative=False, extras=["joins", kind]))
    def check(case: Case) -> None:
        assert_same(on_local_log(case), expected(case))

    check()


@pytest.mark.kafka
@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("mode", ["on_time", pytest.param("late", marks=pytest.mark.long)])
def test_the_local_engine_writes_the_same_to_kafka(mode: Mode, kind: Extra, broker: Broker) -> None:
    @settings(FEW, max_examples=examples(8, least=3))
    @given(cases(mode, max_steps=5, extras=["joins", kind]))
    def check(case: Case) -> None:
        assert_same(on_local_kafka(case, broker), expected(case))

    check()


def test_a_late_pane_follows_all_else_that_its_message_gives_rise_to() -> None:
    count = partial(WindowStep, kind="session", size=10, aggregate="count")
    to_border = partial(Border, key="str", fn="word", number=0)
    steps = (count(of=0, lateness=50), Map(of=0, fn="plus", number=0), Merge(of=2, others=(1,)), to_border(of=3))
    described = Description((Source("a", "str", "record", 0),), (*steps, count(of=4)), "fail", "late")
    values = [(0, b'{"k":"a","n":0,"at":0}')] * 4 + [(-11, b'{"k":"a","n":0,"at":-11}')]
    inputs = {"a": [[(b"a", value, time, ()) for time, value in values]]}
    case = Case(described, inputs, {"a": 1})
    wanted = expected(case)
    assert [message.value for message in wanted["out-5"]] == [b'{"k":"a","n":6,"at":21}']
    assert_same(on_driver(case), wanted)
    assert_same(on_local_memory(case), wanted)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["processors", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("tables", "duplicates"))]
)
def test_spark_writes_what_the_oracle_does(kind: Extra, spark: "SparkSession") -> None:
    @settings(FEW, max_examples=examples(30, least=3))
    @given(
        cases(
            "on_time",
            negative=False,
            max_steps=5,
            max_borders=1,
            extras=["joins", kind],
        )
    )
    def check(case: Case) -> None:
        assert_same(on_spark(case, spark), expected(case))

    check()
