"""A key that its Serde wrote and does not read as a window or a timer fires: that firing fails alone, and is named."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import (
    Context,
    ErrorPolicy,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageError,
    Pipeline,
    Serde,
    Timer,
    after_count,
    count,
    dead_letter,
    fail,
    repeat,
    session,
    tumbling,
)
from fluvial.runtime.testing import PipelineDriver

WIDTH = timedelta(milliseconds=10)


class Later(KeyedProcessor[str, int, int]):
    """Emits when its timer fires."""

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[int]:  # noqa: ARG002
        context.timers.set("later", 9)
        return ()

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[int]:  # noqa: ARG002
        return [timer.time]


Build = Callable[[KeyedStream[str, int]], Any]
WINDOW, TIMER = r"window w failed on the pane of key b'k1', window \[", "process w failed on timer 'later' of key 'k1'"
BUILDS: dict[str, tuple[Build, str]] = {
    "tumbling": (lambda keyed: keyed.window(tumbling(WIDTH), count(), id="w"), WINDOW),
    "session": (lambda keyed: keyed.window(session(WIDTH), count(), id="w"), WINDOW),
    "triggered": (lambda keyed: keyed.window(tumbling(WIDTH), count(), id="w", trigger=repeat(after_count(2))), WINDOW),
    "timer": (lambda keyed: keyed.process(Later(), id="w"), TIMER),
}


def outcome(build: Build, policy: ErrorPolicy) -> tuple[int, dict[str, int], list[dict[str, str]]]:
    """How many outputs came of three keys, what failed, and the headers of dead letters."""
    refused: set[bytes] = set()

    def decode(data: bytes) -> str:
        if data in refused:
            raise LookupError(data)
        return data.decode()

    pipeline = Pipeline("p", on_error=policy)
    keyed = pipeline.stream("in", value=int, key=Serde("odd", str, str.encode, decode))
    build(keyed).map(lambda _: 1).send_to("out", value=int)
    with PipelineDriver(pipeline) as driver:
        for number in range(3):
            driver.send("in", number, key=f"k{number}", timestamp=number)
        refused.add(b"k1")
        report = driver.end()
        letters = driver.dead_letters if policy.action == "dead_letter" else []
    headers = [{name: value.decode() for name, value in letter.headers} for letter in letters]
    return report.written.get("out", 0), dict(report.failed), headers


@pytest.mark.parametrize("kind", BUILDS)
def test_the_firings_of_other_keys_are_kept(kind: str) -> None:
    written, failed, (letter,) = outcome(BUILDS[kind][0], dead_letter())
    assert (written, failed) == (2, {"w": 1})
    assert letter["fluvial-firing"] == letter["fluvial-operator"] == "w"


@pytest.mark.parametrize("kind", BUILDS)
def test_the_error_names_the_firing_and_the_operator(kind: str) -> None:
    build, wrong = BUILDS[kind]
    with pytest.raises(MessageError, match=wrong):
        outcome(build, fail())
