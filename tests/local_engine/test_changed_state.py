"""State that is kept is gone on with under the meaning with which it was stored, or not at all."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engines.sending import KEEPING, ProducingSystem, stores_of, system_named
from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import Context, KeyedProcessor, ListState, Message, Pipeline, PlanError, ValueState, count, tumbling
from fluvial.runtime import Report, run
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, decode, encode
from fluvial.runtime.local.stores.store_keys import CHECKPOINT, META
from fluvial.runtime.systems import System


def counting(minutes: int, *, id: str = "w", output: str = "out") -> Pipeline:
    pipeline = Pipeline("p")
    window = tumbling(timedelta(minutes=minutes))
    pipeline.stream("in", key=str, value=int).window(window, count(), id=id).map(lambda pane: pane.value).send_to(
        output
    )
    return pipeline


def run_more(system: System, pipeline: Pipeline) -> Report:
    """Run a pipeline on one more message."""
    write(system, {"in": [[(b"k", b"1", 0, ())]]})
    with stores_of(system):
        return run(pipeline, system=system, until="end")


@pytest.fixture(params=KEEPING)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return system_named(request.param, tmp_path)


def test_another_meaning_is_refused_before_anything_starts(system: System) -> None:
    run_more(system, counting(1))
    error = error_of(lambda: run_more(system, counting(5, output="another")), PlanError)
    wrong = "the stored state of window w has another meaning: windows: was tumbling 1 min, is tumbling 5 min"
    expected = "the meaning with which it was stored"
    remedy = f"test_changed_state.py --system {system.url} --state w"
    assert_explains(error, wrong, counting, expected, remedy, below=3)
    assert system.admin().partitions("another") is None


def test_the_same_meaning_goes_on(system: System) -> None:
    run_more(system, counting(1))
    assert run_more(system, counting(1)).read == {"in": 1}


def test_another_id_begins_anew(system: System) -> None:
    run_more(system, counting(1))
    assert run_more(system, counting(5, id="v")).read == {"in": 1}


def test_an_operator_that_comes_back_is_refused_too(system: System) -> None:
    run_more(system, counting(1))
    run_more(system, counting(5, id="v"))
    assert run_more(system, counting(1)).read == {"in": 1}
    error_of(lambda: run_more(system, counting(5)), PlanError)


def numbering(**states: Any) -> Pipeline:
    def on_message(self: Any, message: Message[int], _: Context[str]) -> Iterable[int]:
        if states.get("a") is not None:
            self.a.append(message.value)
        yield message.value

    kind: Any = type("Numbering", (KeyedProcessor,), {**states, "n": ValueState(int), "on_message": on_message})
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).process(kind(), id="w").send_to("out")
    return pipeline


def test_a_state_that_comes_back_has_the_form_that_it_had(system: System) -> None:
    run_more(system, numbering(a=ListState(int)))
    run_more(system, numbering())
    error = error_of(lambda: run_more(system, numbering(a=ValueState(list[int]))), PlanError)
    assert "state a: was list, is value" in str(error)
    assert run_more(system, numbering(a=ListState(int))).read == {"in": 2}


def without_records(data: bytes) -> bytes:
    """A checkpoint as it was written before there were records."""
    return encode(replace(decode(data, "in/0"), states={}))


def test_what_has_no_record_is_adopted_once() -> None:
    system = ProducingSystem()
    run_more(system, counting(1))
    kept = system.admin().checkpoints("p")["in/0"]
    write(system, {"p-checkpoints": [[(b"in/0", without_records(kept), 0, ())]]})
    store = system.store("in/0")
    store.write([(META, CHECKPOINT, without_records(store.get(META, CHECKPOINT) or b""))])
    assert run_more(system, counting(5)).read == {"in": 1}
    error_of(lambda: run_more(system, counting(1)), PlanError)


def test_a_store_that_knows_more_than_the_checkpoints_counts() -> None:
    system = ProducingSystem()
    run_more(system, counting(1))
    kept = system.admin().checkpoints("p")["in/0"]
    write(system, {"p-checkpoints": [[(b"in/0", without_records(kept), 0, ())]]})
    error_of(lambda: run_more(system, counting(5)), PlanError)


def test_a_checkpoint_of_a_later_version_can_be_read() -> None:
    assert decode(b'{"version":1,"offsets":{"in":3},"colour":"green"}', "in/0") == Checkpoint(offsets={"in": 3})
