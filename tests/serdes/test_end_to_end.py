"""Pipelines whose messages name their schemas: from Avro to Protobuf, through outages of the registry."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from fluvial.dsl import MessageError, Pipeline, SystemProblem, dead_letter
from fluvial.runtime import Report, run
from fluvial.runtime.serdes import Registry, avro, protobuf
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.contract import System
from fluvial.runtime.systems.memory import MemorySystem
from generators.shop import CLICK, Click, record
from generators.shop_pipelines import Total, append, counts, encoded, impatient, read
from kafka.schema_registry import SchemaRegistry

Start = Callable[[Pipeline], Report]


@pytest.fixture
def system(tmp_path: Path) -> System:
    return LogSystem(tmp_path / "log", fsync=False)


@pytest.fixture
def start(system: System) -> Start:
    """Run a pipeline to the end of its inputs."""
    return lambda pipeline: run(pipeline, system=system, until="end")


def test_avro_in_and_protobuf_out(registry: Registry, system: System, start: Start) -> None:
    append(system, "clicks", encoded(registry))
    start(counts(registry))
    totals = protobuf(Total, registry=registry, subject="totals-value")
    found = {total.id: total.price.cents for total in (totals.decode(data or b"") for data in read(system, "totals"))}
    assert found == {"ada": 2, "bob": 1}


def test_only_what_is_written_is_registered(
    registry: Registry, server: SchemaRegistry, system: System, start: Start
) -> None:
    append(system, "clicks", encoded(registry))
    start(counts(registry))
    assert server.subjects == {"clicks-value": [1], "shop/money.proto": [2], "totals-value": [3]}


def test_what_is_no_message_is_set_aside(registry: Registry, system: System, start: Start) -> None:
    good, *_ = encoded(registry)
    bad = [b'{"user":"ada"}', b"\x00\x00\x00\x00\x63ada", good[:6], good + b"!"]
    append(system, "clicks", [good, *bad])
    report = start(counts(registry, dead_letter()))
    assert (report.written["totals"], read(system, "counts-dead-letters")) == (1, bad)


def test_a_registry_that_is_away_is_no_fault_of_a_message(server: SchemaRegistry, system: System, start: Start) -> None:
    registry = impatient(server)
    append(system, "clicks", encoded(registry))
    server.unwell = 1000
    with pytest.raises(SystemProblem, match=f"the schema registry at {server.url} is out of reach") as raised:
        start(counts(impatient(server), dead_letter()))
    assert raised.value.exit_code == 4
    assert read(system, "counts-dead-letters") == []
    server.unwell = 0
    assert start(counts(registry, dead_letter())).written["totals"] == 2


def test_a_registry_that_goes_away_is_missed_where_it_is_needed(server: SchemaRegistry, system: System) -> None:
    pipeline = Pipeline("copy", on_error=dead_letter())
    registry = impatient(server)
    clicks = avro(CLICK, type=Click, registry=registry, subject="clicks-value")
    copies = avro(CLICK, type=Click, registry=registry, subject="copies")
    pipeline.stream("clicks", value=clicks).send_to("copies", value=copies)
    append(system, "clicks", encoded(registry))
    clicks.decode(encoded(registry)[0])
    server.unwell = 1000  # it is needed to write
    with pytest.raises(SystemProblem, match="out of reach"):
        run(pipeline, system=system, until="end")
    assert read(system, "copy-dead-letters") == []


@pytest.mark.slow
def test_it_is_missed_behind_asynchronous_calls_too(server: SchemaRegistry, registry: Registry, system: System) -> None:
    async def same(click: Click) -> list[Click]:
        return [click]

    pipeline = Pipeline("copy", on_error=dead_letter())
    copies = avro(CLICK, type=Click, registry=impatient(server), subject="copies")
    plain = avro(CLICK, type=Click)
    pipeline.stream("clicks", value=plain).async_flat_map(same, id="same").send_to("copies", value=copies)
    append(system, "clicks", [message[5:] for message in encoded(registry)])
    server.unwell = 1000
    with pytest.raises(SystemProblem, match="out of reach"):
        run(pipeline, system=system, until="end")
    assert read(system, "copy-dead-letters") == []


def test_a_registry_that_comes_back_is_waited_for(server: SchemaRegistry, registry: Registry) -> None:
    system = MemorySystem()
    append(system, "clicks", encoded(registry))
    server.unwell = 2
    fresh = Registry(server.url, give_up_after=timedelta(seconds=5))
    assert run(counts(fresh), system=system, until="end").written["totals"] == 2


def test_a_pipeline_goes_on_without_a_registry_that_it_needs_no_more(server: SchemaRegistry, system: System) -> None:
    registry = impatient(server)
    pipeline, messages = counts(registry), encoded(registry)
    append(system, "clicks", messages)
    assert run(pipeline, system=system, until="end").written["totals"] == 2
    server.unwell = 1000
    append(system, "clicks", messages)
    assert run(pipeline, system=system, until="end").read["clicks"] == 3


def test_a_schema_that_the_registry_refuses_ends_the_run(
    server: SchemaRegistry, registry: Registry, system: System, start: Start
) -> None:
    server.add("copies", record("Click", agent="string"))
    pipeline = Pipeline("copy", on_error=dead_letter())
    clicks = avro(CLICK, type=Click, registry=registry, subject="clicks-value")
    narrower = avro(CLICK, type=Click, registry=registry, subject="copies")
    pipeline.stream("clicks", value=clicks).send_to("copies", value=narrower)
    append(system, "clicks", encoded(registry))
    with pytest.raises(SystemProblem, match="would not take the schema for subject 'copies'"):
        start(pipeline)


def test_a_message_that_fails_names_its_place(registry: Registry, system: System, start: Start) -> None:
    append(system, "clicks", [b"\x00\x00\x00\x00\x63ada"])
    with pytest.raises(MessageError, match=r"clicks, partition 0, offset 0.*names schema 99, which .* does not have"):
        start(counts(registry))
