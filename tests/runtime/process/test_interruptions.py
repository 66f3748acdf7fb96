"""A run is stopped all the same where code in C has made another error of the interruption."""

import signal

import pytest

from engines.targets import write
from fluvial.dsl import Pipeline, skip
from fluvial.runtime import run
from fluvial.runtime.process.interruptions import interruption, interruptions_raised
from fluvial.runtime.process.signals import Stopped
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.memory import MemoryAdmin

WRAPPED = "<built-in method> returned a result with an exception set"


def stop_within_c(number: int) -> None:
    """What a function in C does that calls Python, and does not look at errors."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt as interrupted:
        raise SystemError(WRAPPED) from interrupted


def stopping(number: int, monkeypatch: pytest.MonkeyPatch) -> MemorySystem:
    """A system that is interrupted as streams are made, within a function in C."""
    system = MemorySystem()
    system.admin().create("in", 1)
    monkeypatch.setattr(MemoryAdmin, "create", lambda *_: stop_within_c(number))
    return system


def pipeline() -> Pipeline:
    words = Pipeline("words", on_error=skip())
    words.stream("in", value=str).send_to("out")
    return words


def test_a_run_that_has_not_begun_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(pipeline(), system=stopping(signal.SIGTERM, monkeypatch), until="end").read == {}


def test_a_run_that_has_not_begun_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupted:
        run(pipeline(), system=stopping(signal.SIGINT, monkeypatch), until="end")
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
