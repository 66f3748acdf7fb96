"""Where outputs go: both engines ask the same routes."""

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from errno import ECONNREFUSED, ENOSPC
from pathlib import Path

import pytest

from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import (
    BatchPart,
    Message,
    MessageError,
    NoProgressError,
    Pipeline,
    Sink,
    SystemProblem,
    UsageError,
    count,
    dead_letter,
    skip,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.runtime import output_routes, run
from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS
from fluvial.runtime.launch import EngineName
from fluvial.runtime.output_routes import ExplainedSink, OutputRoute, OutputRoutes
from fluvial.runtime.systems import LogSystem

MINUTE = timedelta(minutes=1)


class Unreachable:
    """Opens a connection that is refused."""

    def __init__(self, number: int = ECONNREFUSED) -> None:
        self._number = number

    def open(self) -> None:
        """Fails."""
        raise OSError(self._number, os.strerror(self._number))

    def write(self, messages: Sequence[Message[str]]) -> None:
        """Is never called."""

    def flush(self) -> None:
        """Is never called."""

    def close(self) -> None:
        """Is never called."""


class Nowhere(Sink[object]):
    """Drops everything."""

    def open(self) -> None:
        """Nothing to open."""

    def write(self, messages: Sequence[Message[object]]) -> None:
        """Nothing to write."""

    def flush(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        """Nothing to close."""


def test_each_operator_that_writes_has_a_route() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    words = pipeline.stream("in", value=str)
    keyed = words.partition_by(str, id="by-word", key_type=str)
    words.broadcast(id="all").send_to("copies")
    words.send_to("out")
    words.sink(Nowhere(), id="nowhere")
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="window", late_to="late").send_to("counts")
    made = plan(pipeline, partitions={"in": 3, "out": 2})
    routes = OutputRoutes(made, "in")
    assert routes["by-word"] == OutputRoute("p-by-word", 3, is_border=True)
    assert routes["all"] == OutputRoute("p-all", 1, to_all=True, is_border=True)
    assert routes["send_to-5"] == OutputRoute("out", 2)
    assert routes["nowhere"] == OutputRoute("nowhere", sink=ExplainedSink(pipeline.sinks[0]))
    assert routes[DEAD_LETTERS] == OutputRoute("p-dead-letters", 1)
    assert (routes.sinks, list(routes.borders)) == ([ExplainedSink(pipeline.sinks[0])], ["by-word", "all"])
    assert OutputRoutes(made, "p-by-word")["window"] == OutputRoute("late", 3)


def test_messages_without_key_keep_the_order_of_their_task_and_cross_a_border_together() -> None:
    assert [OutputRoute("out", 3).keyless_partition(task) for task in (0, 1, 4)] == [0, 1, 1]
    assert [OutputRoute("p-by-word", 3, is_border=True).keyless_partition(task) for task in (0, 1, 4)] == [0, 0, 0]


def test_what_goes_each_way_is_counted() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    routes = OutputRoutes(plan(pipeline), "in")
    for messages in (2, 3):
        routes.count(routes["send_to-2"], messages)
    assert routes.written == {"out": 5}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_sink_that_cannot_be_opened_is_reported_with_its_line(engine: EngineName, tmp_path: Path) -> None:
    log = LogSystem(tmp_path / "log", fsync=False)
    write(log, {"words": [[(None, b"tea", 0, ())]]})
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).sink(Unreachable(), id="archive")
    line = pipeline.sinks[0].origin.line
    error = error_of(lambda: run(pipeline, engine=engine, system=log, until="end"), SystemProblem)
    assert error.exit_code == 4
    wrong, at, *_ = str(error).splitlines()
    assert wrong == "sink archive cannot be opened: ConnectionRefusedError: [Errno 111] Connection refused"
    assert at.endswith(f"test_output_routes.py:{line}")


def test_a_sink_that_the_machine_has_no_room_for_says_what_to_do() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).sink(Unreachable(ENOSPC), id="archive")
    error = error_of(lambda: ExplainedSink(pipeline.sinks[0]).open(asyncio.run, MINUTE), SystemProblem)
    assert_explains(error, "sink archive cannot be opened: OSError", None, "an open() that succeeds", "free space")


def test_a_sink_is_started_again_whatever_error_its_service_has() -> None:
    class Refused(Nowhere):
        def open(self) -> None:
            raise LookupError("no such table")

    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).sink(Refused(), id="archive")
    error = error_of(lambda: ExplainedSink(pipeline.sinks[0]).open(asyncio.run, MINUTE), SystemProblem)
    assert_explains(
        error, "sink archive cannot be opened: LookupError: no such table", None, "an open() that succeeds", "mend"
    )


def test_a_sink_that_does_not_open_for_an_error_that_is_reported_already_or_for_a_signal() -> None:
    class Refused(Nowhere):
        def __init__(self, error: BaseException) -> None:
            self._error = error

        def open(self) -> None:
            raise self._error

    interrupted = SystemError("of an extension module")
    interrupted.__cause__ = KeyboardInterrupt()
    for raised in (UsageError("mine"), interrupted):
        pipeline = Pipeline("p")
        pipeline.stream("words", value=str).sink(Refused(raised), id="archive")
        with pytest.raises(type(raised)) as caught:
            ExplainedSink(pipeline.sinks[0]).open(asyncio.run, MINUTE)
        assert caught.value is raised


class Lost(Nowhere):
    """Loses its connection in one of its methods, by an error of a client's own."""

    def __init__(self, method: str) -> None:
        self._method = method

    def write(self, messages: Sequence[Message[object]]) -> None:
        del messages
        self._lose("write")

    def flush(self) -> None:
        self._lose("flush")

    def close(self) -> None:
        self._lose("close")

    def _lose(self, method: str) -> None:
        if method == self._method:
            raise RuntimeError("connection lost")


@pytest.mark.parametrize("method", ["write", "flush", "close"])
def test_a_sink_that_fails_is_reported_with_its_line_and_started_again(method: str, tmp_path: Path) -> None:
    log = LogSystem(tmp_path / "log", fsync=False)
    write(log, {"words": [[(None, b"tea", 0, ())]]})
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("words", value=str).sink(Lost(method), id="archive")
    error = error_of(lambda: run(pipeline, system=log, until="end"), SystemProblem)
    assert error.exit_code == 4  # with which a supervisor starts a container again
    assert_explains(
        error,
        f"sink archive failed in {method}(): RuntimeError: connection lost",
        None,
        f"a {method}() that",
        "mend the",
    )
    assert f"test_output_routes.py:{pipeline.sinks[0].origin.line}" in str(error)


def test_a_sink_is_told_its_part_if_it_asks_for_that() -> None:
    class InParts(Nowhere):
        def __init__(self) -> None:
            self.parts: list[BatchPart] = []

        def begin(self, part: BatchPart) -> None:
            if self.parts:
                raise RuntimeError("told twice")
            self.parts.append(part)

    part, asking = BatchPart("query", 7, 3, "archive"), InParts()
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    words.sink(Lost("none"), id="other")
    words.sink(asking, id="archive")
    other, archive = map(ExplainedSink, pipeline.sinks)
    other.begin(part)
    archive.begin(part)
    assert asking.parts == [part]
    error = error_of(lambda: archive.begin(part), SystemProblem)
    assert_explains(error, "sink archive failed in begin(): RuntimeError: told twice", None, "a begin() that", "mend")


def test_what_a_sink_raises_as_it_closes_does_not_hide_why_the_run_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogSystem(tmp_path / "log", fsync=False)
    write(log, {"words": [[(None, b"tea", 0, ())]]})
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).map(int).sink(Lost("close"), id="archive")
    error = error_of(lambda: run(pipeline, system=log, until="end"), MessageError)
    assert error.exit_code == 5  # with which no supervisor starts a container again
    assert any(record.getMessage().startswith("sink archive failed in close(): ") for record in caplog.records)


class Hanging(Lost):
    """Never comes to the end of an asynchronous method."""

    def __init__(self, method: str) -> None:
        super().__init__("none")
        self._hangs = method

    async def open(self) -> None:  # type: ignore[override]
        await self._hang("open")

    async def close(self) -> None:  # type: ignore[override]
        await self._hang("close")

    async def _hang(self, method: str) -> None:
        if method == self._hangs:
            await asyncio.Event().wait()


def archived(tmp_path: Path, method: str) -> Callable[[], object]:
    log = LogSystem(tmp_path / "log", fsync=False)
    write(log, {"words": [[(None, b"tea", 0, ())]]})
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).sink(Hanging(method), id="archive")
    settings = Settings(stall_timeout=timedelta(seconds=0.2))
    return lambda: run(pipeline, system=log, until="end", settings=settings)


def test_a_sink_that_does_not_open_ends_the_run(tmp_path: Path) -> None:
    error = error_of(archived(tmp_path, "open"), NoProgressError)
    wrong = "sink archive is not open after 0.2 s, the stall_timeout"
    assert_explains(error, wrong, archived, "an open() that ends", "raise stall_timeout", 4)


def test_a_sink_that_does_not_close_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_routes, "CLOSE_SECONDS", 0.2)
    error = error_of(archived(tmp_path, "close"), SystemProblem)
    assert "sink archive failed in close(): TimeoutError: it has not ended after 0.2 s" in str(error)
