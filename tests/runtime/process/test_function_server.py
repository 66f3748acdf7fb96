"""What a process answers that makes the calls of a function for another one."""

import asyncio
import logging
import pickle
import sys
from multiprocessing import Pipe
from queue import SimpleQueue
from typing import Any

import pytest

from faults.pooled_functions import Unsayable, asked
from fluvial.dsl import UsageError
from fluvial.runtime.process import function_server
from fluvial.runtime.process.function_server import (
    END,
    ERROR,
    READY,
    RESULT,
    FunctionSetup,
    _make_calls,
    answer,
    refuse_while_serving,
)


class Silent(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError

    def __reduce__(self) -> str:
        raise Unsayable


def silent(_: str) -> None:
    raise Silent


def answered(fn: Any, call: bytes) -> Any:
    told = answer(fn, call)
    assert told[:1] in (RESULT, ERROR)
    return pickle.loads(told[1:])


def test_a_result_is_pickled_behind_its_kind() -> None:
    assert answered(len, pickle.dumps((("tea",), {}))) == 3


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        (pickle.dumps((("fail",), {})), LookupError, "fail"),
        (b"nothing", TypeError, "what asked is given cannot be unpickled in its process"),
        (pickle.dumps((("lambda",), {})), TypeError, "what asked returned cannot be pickled"),
        (pickle.dumps((("unsayable",), {})), RuntimeError, "Unsayable: what it says"),
        (pickle.dumps((("odd",), {})), RuntimeError, "Odd: ab"),
        (pickle.dumps((("quit",), {})), SystemExit, "4"),
    ],
)
def test_an_error_is_reported_as_itself_or_as_what_it_says(call: bytes, kind: type[BaseException], told: str) -> None:
    error = answered(asked, call)
    assert type(error) is kind
    assert told in str(error)


def test_an_error_without_a_text_has_its_name() -> None:
    said = str(answered(silent, pickle.dumps((("",), {}))))
    assert said.startswith("Silent, whose __str__ raises ValueError (the error itself cannot be pickled: U")


def test_only_a_process_that_serves_refuses_a_run() -> None:
    refuse_while_serving()
    function_server._serving.set()
    try:
        with pytest.raises(UsageError, match="as the script is loaded in a process of in_processes"):
            refuse_while_serving()
    finally:
        function_server._serving.clear()


class Ending:
    """Ends the process that unpickles it, as a script does that ends itself wherever it is loaded."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def test_a_process_that_is_to_end_as_it_is_made_ready_tells_an_error_that_ends_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    ours, theirs = Pipe()
    setup = FunctionSetup([*sys.path], [*sys.argv], None, None, {}, pickle.dumps(Ending()))
    with ours, theirs, asyncio.Runner() as runner:
        _make_calls(setup, theirs, SimpleQueue(), runner)
        error = pickle.loads(ours.recv_bytes()[1:])
    assert (type(error), str(error)) == (RuntimeError, "SystemExit: 3, raised in its process as that was made ready")


class Unclosed:
    """Cannot be closed."""

    def open(self) -> None:
        """It opens nothing."""

    async def close(self) -> None:
        raise ConnectionError("nobody is there")

    def ask(self, what: str) -> str:
        return what


def test_a_process_tells_what_does_not_close(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    ours, theirs = Pipe()
    calls: SimpleQueue[bytes] = SimpleQueue()
    calls.put(END)
    setup = FunctionSetup([*sys.path], [*sys.argv], None, None, {}, pickle.dumps(Unclosed().ask))
    try:
        with ours, theirs, asyncio.Runner() as runner, caplog.at_level(logging.WARNING):
            _make_calls(setup, theirs, calls, runner)
            assert ours.recv_bytes() == READY
    finally:
        function_server._loaded.clear()
    assert caplog.messages == ["Unclosed failed in closing, in its process: ConnectionError: nobody is there"]
