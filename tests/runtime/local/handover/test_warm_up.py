"""Tasks that are to come from a container with another version of the pipeline."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest

from engines.live_containers import LiveContainers, in_one_thread
from engines.sending import ProducingSystem
from engines.targets import contents, write
from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState
from fluvial.dsl.errors import PlanError
from fluvial.planner import Settings
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.handover import warm_up

KEYS = [b"a", b"b", b"c", b"d"]


def numbering(number: Any) -> Pipeline:
    """Numbers the messages of each key, with numbers of this type."""

    class Numbering(KeyedProcessor[str, str, str]):
        seen = ValueState(number, number(0))

        def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
            self.seen.value += 1
            yield f"{context.key} {self.seen.value:.0f}"

    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).process(Numbering(), id="n").send_to("out", value=str)
    return pipeline


@pytest.fixture
def live() -> Iterator[LiveContainers]:
    """Two containers of one version, which have numbered a message of each key."""
    system = ProducingSystem()
    send(system)
    made = LiveContainers(system, numbering(int), 2, Settings())
    with in_one_thread(system), patch.object(warm_up, "RETRY_SECONDS", 0.0), closing(made):
        made.start(0)
        made.start(1)
        made.rest()
        yield made


def upgrade(live: LiveContainers, number: int) -> None:
    """Start a container with the newer version, which keeps a wider type."""
    live.kill(number)
    live.pipeline = numbering(float)
    live.plan = checked_plan(live.pipeline, live.system, live.settings)
    live.start(number)


def send(system: ProducingSystem) -> None:
    write(system, {"in": [[(key, b"m", 0, ()) for key in half] for half in (KEYS[:2], KEYS[2:])]})


def check(live: LiveContainers, each: int) -> None:
    """Each key was counted so often, once each time."""
    expected = {b"%s %d" % (key, number + 1) for key in KEYS for number in range(each)}
    written = [value for _, value, _, _ in contents(live.system, "out")]
    assert ({*written}, len(written)) == (expected, len(expected))


def turns(live: LiveContainers, *numbers: int) -> None:
    """Let containers take so many turns that all would be settled."""
    for _ in range(100):
        for number in numbers:
            live.turn(number)


@pytest.mark.parametrize("elasticity", [1, 2])
def test_a_task_of_a_newer_version_goes_on_there_until_its_next_container_has_that_version_too(
    live: LiveContainers, elasticity: int, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade(live, 1)
    send(live.system)
    live.rest()
    live.scale(1, elasticity)
    send(live.system)
    turns(live, 0, 1)
    assert not live.settled
    assert (
        "'in/1' was in a container with another version of the pipeline: the stored state of process n" in caplog.text
    )
    assert "start it with the version of the others" in caplog.text
    check(live, 3)
    upgrade(live, 0)
    send(live.system)
    live.rest()
    assert live.settled
    check(live, 4)


def test_a_task_that_is_handed_over_to_an_older_version_waits_for_the_newer_one(
    live: LiveContainers, caplog: pytest.LogCaptureFixture
) -> None:
    live.kill(1)
    live.scale(1)
    turns(live, 0)  # it is ready for the task of before
    send(live.system)
    upgrade(live, 1)
    turns(live, 1, 0)
    assert "cannot read, which wait: task 'in/1' was in a container with another version" in caplog.text
    assert {b"a 2", b"b 2"} <= {value for _, value, _, _ in contents(live.system, "out")}  # its own task goes on
    live.kill(0)
    live.pipeline = numbering(int)
    live.plan = checked_plan(live.pipeline, live.system, live.settings)
    with pytest.raises(PlanError, match="the stored state of process n has another meaning"):
        live.start(0)
    upgrade(live, 0)
    live.rest()
    check(live, 2)
