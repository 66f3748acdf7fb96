"""`deduplicate` over several runs: what one has passed on, later ones leave out, wherever the state comes from."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents, namespace, write
from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import reset, run
from fluvial.runtime.launch import EngineName
from fluvial.runtime.systems import LogSystem, System
from kafka.broker import Broker
from programs import ENGINES

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
BY_GUARANTEE = pytest.mark.parametrize(
    ("engine", "guarantee"),
    [
        ("local", "at_least_once"),
        ("local", "exactly_once"),
        # To the log it does the same by either; test_bucket_split.py runs an operator four times on Spark, each time.
        pytest.param("spark", "exactly_once", marks=[pytest.mark.spark, pytest.mark.long]),
    ],
)


def number(order: str) -> str:
    return order[:1]


def pipeline() -> Pipeline:
    """Orders, each number of a customer once in ten ms; behind a border, so that keys spread over tasks."""
    made = Pipeline("p")
    orders = made.stream("orders", value=str).partition_by(lambda order: order[-1], id="by", key_type=str)
    orders.deduplicate(timedelta(milliseconds=10), by=number, id="once").send_to("out")
    return made


PORTIONS: list[list[tuple[str, int]]] = [
    [("1 of a", 0), ("1 of b", 1), ("2 of a", 2), ("1 of a", 3)],
    [("1 of a", 9), ("2 of b", 9), ("1 of b", 10)],
    [("1 of a", 10), ("2 of b", 11), ("2 of a", 13)],
]
"""What is there for each run; event time goes on over all."""

PASSED = [b"1 of a", b"1 of a", b"1 of b", b"2 of a", b"2 of a", b"2 of b"]


def feed(system: System, portion: list[tuple[str, int]]) -> None:
    known = system.admin().streams()
    records = [(None, order.encode(), time, ()) for order, time in portion]
    if "orders" in known:
        writing = system.producer().begin()
        writing.append("orders", 0, records)
        writing.commit()
    else:
        write(system, {"orders": [records]})


def passed(system: System) -> list[Any]:
    return sorted(record[1] or b"" for record in contents(system, "out"))


@BY_GUARANTEE
def test_a_run_leaves_out_what_earlier_runs_have_passed_on(
    engine: EngineName, guarantee: Guarantee, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    system = LogSystem(tmp_path, fsync=False)
    settings = Settings(guarantee=guarantee, intermediate_partitions=2, spark_buckets=2)
    for portion in PORTIONS:
        feed(system, portion)
        run(pipeline(), engine=engine, system=system, settings=settings, until="end", spark=spark)
    assert passed(system) == PASSED


@pytest.mark.kafka
@pytest.mark.slow
@GUARANTEES
def test_so_it_does_where_the_state_is_restored_from_its_changelog(
    broker: Broker, guarantee: Guarantee, tmp_path: Path
) -> None:
    system, restored = namespace(broker), []
    for count, portion in enumerate(PORTIONS):
        feed(system, portion)
        settings = Settings(guarantee=guarantee, intermediate_partitions=2, state_dir=str(tmp_path / str(count)))
        restored.append(run(pipeline(), system=system, settings=settings, until="end").restored)
    assert passed(system) == PASSED
    assert restored[0] == 0 < restored[1] < restored[2]


# On Spark tests/command_line/test_reset.py resets an operator each time.
@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_removed_by_a_reset_is_passed_on_again(
    engine: EngineName, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    system = LogSystem(tmp_path, fsync=False)
    for order in ("1 of a", "1 of a"):
        feed(system, [(order, 5)])
        run(pipeline(), engine=engine, system=system, until="end", spark=spark)
        reset(pipeline(), states=["once"], engine=engine, system=system)
    assert passed(system) == [b"1 of a", b"1 of a"]
