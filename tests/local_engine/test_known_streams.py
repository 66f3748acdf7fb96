"""Producers know what they write to before the event loop runs: nothing that they send waits for an answer."""

from datetime import timedelta
from typing import Any

import pytest

from engines.sending import MemorySender, ProducingSystem
from engines.targets import write
from fluvial.dsl import Pipeline, count, dead_letter, tumbling
from fluvial.planner import Settings
from fluvial.planner.stream_names import coordinator
from fluvial.runtime import run


def pipeline_of_all_outputs() -> Pipeline:
    """Writes outputs, late messages, dead letters, messages between stages, changelogs and checkpoints."""
    pipeline = Pipeline("p", on_error=dead_letter())
    keyed = pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str)
    keyed.deduplicate(timedelta(seconds=1), id="d").send_to("new")
    window = keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="w", late_to="late")
    window.map(lambda pane: 6 // pane.value).send_to("out")
    return pipeline


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_all_that_a_run_sends_to_is_known_before(guarantee: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: set[str] = set()
    unknown: set[str] = set()
    send = MemorySender.send

    def noted(sender: MemorySender, stream: str, *rest: Any) -> None:
        sent.add(stream)
        if stream not in sender.known:
            unknown.add(stream)
        send(sender, stream, *rest)

    monkeypatch.setattr(MemorySender, "send", noted)
    system = ProducingSystem()
    write(system, {"in": [[(None, value, time, ()) for value, time in ((b"1", 0), (b"1", 99), (b"1", 5), (b"x", 99))]]})
    run(pipeline_of_all_outputs(), system=system, until="end", settings=Settings(guarantee=guarantee))
    changelogs = {"p-d-changelog", "p-w-changelog"}
    assert sent - unknown == {"p-by", "new", "out", "late", "p-dead-letters", "p-checkpoints", *changelogs}
    assert unknown <= {coordinator("p")}  # sent to before the event loop runs
