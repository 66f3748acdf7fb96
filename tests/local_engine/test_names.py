"""Streams between stages belong to one pipeline."""

import pytest

from engines.targets import contents, write
from fluvial.dsl import Pipeline, PlanError
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem


def copies(name: str, id: str) -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.stream("in", value=str).partition_by(str, id=id, key_type=str).send_to(f"out-{id}", value=str)
    return pipeline


def test_a_pipeline_does_not_take_the_messages_of_another_for_its_own() -> None:
    system = MemorySystem()
    write(system, {"in": [[(None, b"tea", 0, ())]]})
    run(copies("visits", "by-user"), system=system, until="end")
    with pytest.raises(PlanError, match="'visits-by-user' between stages of pipeline 'visits-by' holds another's"):
        run(copies("visits-by", "user"), system=system, until="end")
    run(copies("visits", "by-user"), system=system, until="end")
    assert [record[1] for record in contents(system, "out-by-user")] == [b"tea"]
