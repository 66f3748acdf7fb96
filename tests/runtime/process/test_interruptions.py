"""A run is stopped all the same where code in C has made another error of the interruption."""

import signal
from typing import Any

import pytest

from engines.targets import write
from fluvial.dsl import Pipeline, skip
from fluvial.runtime import run
from fluvial.runtime.process.interruptions import interruption, interruptions_raised
from fluvial.runtime.process.stop_request import Stopped
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import StreamUse
from fluvial.runtime.systems.memory import MemoryAdmin

WRAPPED = "<built-in method> returned a result with an exception set"


def stop_within_c(number: int) -> None:
    """What a function in C does that calls Python, and does not look at errors."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt as interrupted:
        raise SystemError(WRAPPED) from interrupted


class Stopping(MemorySystem):
    """Interrupted as streams are made, within a function in C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        super().admin().create("in", 1)
        self._number = number

    def admin(self) -> MemoryAdmin:
        return _StoppingAdmin(self._memory, self._number)


class _StoppingAdmin(MemoryAdmin):
    def __init__(self, memory: Any, number: int) -> None:
        super().__init__(memory)
        self._number = number

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        del stream, partitions, use
        stop_within_c(self._number)


def pipeline() -> Pipeline:
    words = Pipeline("words", on_error=skip())
    words.stream("in", value=str).send_to("out")
    return words


def test_a_run_that_has_not_begun_is_stopped() -> None:
    assert run(pipeline(), system=Stopping(signal.SIGTERM), until="end").read == {}


def test_a_run_that_has_not_begun_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        run(pipeline(), system=Stopping(signal.SIGINT), until="end")
    assert not isinstance(interrupted.value, Stopped)


def test_no_message_fails_by_it() -> None:
    def wrapped(_: str) -> str:
        raise SystemError(WRAPPED) from KeyboardInterrupt()

    words = Pipeline("words", on_error=skip())
    words.stream("in", value=str).map(wrapped).send_to("out", value=str)
    system = MemorySystem()
    write(system, {"in": [[(None, b"word", 0, ())]]})
    with pytest.raises(KeyboardInterrupt):
        run(words, system=system, until="end")


def test_other_errors_stay() -> None:
    other = SystemError("no interruption")
    with pytest.raises(SystemError) as raised, interruptions_raised():
        raise other
    assert raised.value is other
    assert interruption(ValueError()) is None
