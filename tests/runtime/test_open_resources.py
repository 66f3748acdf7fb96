"""What a process opens and closes: in which order, how often, in which loop, and what is told of what fails."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import NoProgressError, Pipeline, PipelineError, SystemProblem, UsageError, resource
from fluvial.planner import plan
from fluvial.runtime import open_resources
from fluvial.runtime.kernel.calls.cancellation import CallLoop
from fluvial.runtime.open_resources import OpenResources

SOON = timedelta(seconds=0.05)


class Told:
    """What happens to clients, in order; each has the name that it is made with."""

    def __init__(self) -> None:
        self.of: list[str] = []


class Methods(Told):
    """Opened and closed by methods, one of them asynchronous."""

    async def open(self) -> None:
        self.of.append("open")

    def close(self) -> None:
        self.of.append("close")


class Manager(Told):
    """Opened and closed as a context manager, in one task."""

    async def __aenter__(self) -> str:
        self._task = asyncio.current_task()
        self.of.append("open")
        return "entered"

    async def __aexit__(self, *_: object) -> None:
        assert asyncio.current_task() is self._task
        self.of.append("close")


class PlainManager(Told):
    """Opened and closed as a context manager that is not asynchronous."""

    def __enter__(self) -> str:
        self.of.append("open")
        return "entered"

    def __exit__(self, *_: object) -> None:
        self.of.append("close")


class Closing(Told):
    """Closed alone."""

    async def aclose(self) -> None:
        self.of.append("close")


async def asked(value: int, client: Any) -> list[int]:
    del client
    return [value]


def of(*things: Any, twice: bool = False) -> Any:
    """The plan of a pipeline whose operators use resources, or are objects of the user's."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    for number, thing in enumerate(things * (1 + twice)):
        if hasattr(thing, "factory"):
            numbers.async_flat_map(asked, id=f"c{number}", resource=thing).send_to("out")
        else:
            numbers.async_flat_map(thing, id=f"c{number}").send_to("out")
    return plan(pipeline)


@pytest.fixture
def loop() -> Iterator[CallLoop]:
    made = CallLoop()
    made.begin()
    yield made
    made.end()


def opened(loop: CallLoop, made: Any, timeout: timedelta = timedelta(minutes=1), **options: Any) -> OpenResources:
    resources = OpenResources(loop.run, timeout, **options)
    resources.open(made, {"in"})
    return resources


@pytest.mark.parametrize(
    ("kind", "given", "calls"),
    [
        (Methods, Methods, ["open", "close"]),
        (Manager, str, ["open", "close"]),
        (PlainManager, str, ["open", "close"]),
        (Closing, Closing, ["close"]),
        (Told, Told, []),
    ],
)
@pytest.mark.parametrize("awaited", [False, True])
def test_what_a_factory_gives_is_opened_as_it_allows(
    kind: type[Told], given: type, calls: list[str], awaited: bool, loop: CallLoop
) -> None:
    made: list[Told] = []

    def factory() -> Told:
        made.append(kind())
        return made[-1]

    async def later() -> Told:
        await asyncio.sleep(0)
        return factory()

    clients = resource(later if awaited else factory)
    resources = opened(loop, of(clients, twice=True))
    (one,) = made
    assert type(resources.clients[clients]) is given
    resources.close()
    assert one.of == calls
    assert not resources.are_open


def test_a_generator_may_be_a_context_manager_of_either_kind(loop: CallLoop) -> None:
    seen: list[str] = []

    @resource
    @asynccontextmanager
    async def asynchronous() -> AsyncIterator[int]:
        async with asyncio.timeout(60), asyncio.TaskGroup():  # they insist on their task
            yield 3
        seen.append("asynchronous")

    @resource
    @contextmanager
    def plain() -> Iterator[int]:
        yield 4
        seen.append("plain")

    resources = opened(loop, of(asynchronous, plain))
    assert list(resources.clients.values()) == [3, 4]
    resources.close()
    assert seen == ["plain", "asynchronous"]


NAME: ContextVar[str] = ContextVar("name", default="")


class Lookup(Methods):
    """An object of the user's that is called itself, or by its method."""

    async def __call__(self, value: int) -> list[int]:
        return [value]

    async def again(self, value: int) -> list[int]:
        return [value]

    async def open(self) -> None:
        NAME.set("mine")
        await super().open()


def test_an_object_that_several_operators_use_is_opened_once_and_changes_no_context(loop: CallLoop) -> None:
    lookup = Lookup()
    resources = opened(loop, of(lookup, lookup.again, lookup))

    async def seen() -> str:
        return NAME.get()

    assert (lookup.of, loop.run(seen())) == (["open"], "")
    resources.open(of(lookup), {"in"})
    resources.close()
    assert lookup.of == ["open", "close"]


def test_what_is_given_is_neither_opened_nor_closed(loop: CallLoop) -> None:
    clients, fake = resource(Methods), Methods()
    resources = opened(loop, of(clients), given={clients: fake})
    resources.close()
    assert (resources.clients[clients], fake.of) == (fake, [])


def test_stages_that_do_not_run_here_open_nothing(loop: CallLoop) -> None:
    resources = OpenResources(loop.run, SOON)
    resources.open(of(resource(Methods)), {"another"})
    assert resources.clients == {}


class Away:
    """A service that cannot be reached."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def __aenter__(self) -> None:
        raise self.error

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("it was not entered")


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), TimeoutError("of mine"), TimeoutError()])
def test_what_cannot_be_opened_is_reported_with_its_line(error: Exception, loop: CallLoop) -> None:
    before, away = Methods(), resource(lambda: Away(error))
    resources = OpenResources(loop.run, timedelta(minutes=1))
    raised = error_of(lambda: resources.open(of(resource(lambda: before), away), {"in"}), SystemProblem)
    assert raised.exit_code == 4  # with which a supervisor starts a container again
    wrong = f"async_flat_map c1: resource(lambda) cannot be opened: {type(error).__name__}: {error}"
    assert_explains(raised, wrong, None, "a client that opens in each process", "mend what it connects to")
    assert f"test_open_resources.py:{away.origin.line}" in str(raised)
    resources.close()
    assert before.of == ["open", "close"]


def test_an_error_that_says_what_to_do_stays_as_it_is(loop: CallLoop) -> None:
    error_of(lambda: opened(loop, of(resource(lambda: Away(UsageError("mine"))))), UsageError)


def test_a_factory_that_is_cancelled_has_failed(loop: CallLoop) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    error = error_of(lambda: opened(loop, of(resource(cancelled))), SystemProblem)
    assert "cancelled" in str(error)


async def never() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    while True:
        try:
            await never()
        except asyncio.CancelledError:
            if asyncio.get_running_loop().time() > STUBBORN[0]:
                raise


async def rude() -> None:
    try:
        await never()
    except asyncio.CancelledError:
        raise ValueError("interrupted") from None


STUBBORN = [0.0]


@pytest.mark.parametrize("factory", [never, stubborn, rude])
def test_what_does_not_open_in_time_is_reported_with_its_line(
    factory: Callable[[], Any], loop: CallLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def now() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(open_resources, "GRACE_SECONDS", 0.05)
    STUBBORN[0] = loop.run(now()) + 0.2
    slow = resource(factory)
    resources = OpenResources(loop.run, SOON)
    raised = error_of(lambda: resources.open(of(slow), {"in"}), NoProgressError)
    wrong = f"resource({factory.__name__}) is not open after 0.05 s, the stall_timeout"
    assert_explains(raised, wrong, None, "a client that opens", "raise stall_timeout")
    assert f"test_open_resources.py:{slow.origin.line}" in str(raised)
    resources.close()


def test_what_was_opening_when_the_run_was_stopped_is_left_at_once(
    loop: CallLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def interrupted() -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        await never()

    def interrupt() -> None:
        raise KeyboardInterrupt

    resources = OpenResources(loop.run, timedelta(minutes=1))
    with pytest.raises(KeyboardInterrupt):
        resources.open(of(resource(interrupted)), {"in"})
    resources.close()
    assert not resources.are_open
    assert caplog.records == []


class Broken(Methods):
    """Does not close."""

    async def close(self) -> None:  # type: ignore[override]
        raise ConnectionResetError("gone")


class Lost(Methods):
    """Gives up as it closes, by an error that says nothing or by a cancellation of its own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def close(self) -> None:  # type: ignore[override]
        raise self.error


@pytest.mark.parametrize("error", [TimeoutError(), asyncio.CancelledError(), OSError("\x1b[2Jgone")])
def test_an_error_in_closing_is_reported_as_that_of_the_client(
    error: BaseException, loop: CallLoop, caplog: pytest.LogCaptureFixture
) -> None:
    resources = opened(loop, of(resource(lambda: Lost(error))))
    resources.close()
    (record,) = caplog.records
    assert f"failed in closing: {type(error).__name__}: " in record.getMessage()
    assert "\x1b" not in record.getMessage()


def test_what_ended_while_the_run_used_it_is_reported_with_its_error(
    loop: CallLoop, caplog: pytest.LogCaptureFixture
) -> None:
    @resource
    @asynccontextmanager
    async def connected() -> AsyncIterator[int]:
        async with asyncio.timeout(0.01):
            yield 3

    async def later() -> None:
        await asyncio.sleep(0.05)

    resources = opened(loop, of(connected))
    loop.run(later())
    resources.close()
    (record,) = caplog.records
    assert record.getMessage().endswith("failed in closing: TimeoutError: ")


def test_what_was_given_up_as_it_opened_is_not_waited_for_as_long_again(
    loop: CallLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def now() -> float:
        return asyncio.get_running_loop().time()

    monkeypatch.setattr(open_resources, "GRACE_SECONDS", 0.05)
    begun = loop.run(now())
    STUBBORN[0] = begun + 5
    resources = OpenResources(loop.run, SOON)
    error_of(lambda: resources.open(of(resource(stubborn)), {"in"}), NoProgressError)
    resources.close()
    assert loop.run(now()) < begun + 5
    assert caplog.records[0].getMessage().endswith("is not closed in time: it is left behind")
    STUBBORN[0] = 0.0


def test_a_signal_within_a_close_is_reported_once(loop: CallLoop, caplog: pytest.LogCaptureFixture) -> None:
    resources = opened(loop, of(resource(lambda: Lost(KeyboardInterrupt()))))
    with pytest.raises(KeyboardInterrupt):
        resources.close()
    loop.run(asyncio.sleep(0))
    del resources
    gc.collect()
    assert caplog.records == []


class Forgetful(Methods):
    """A context manager that gives nothing."""

    open = None  # type: ignore[assignment]

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("factory", [lambda: None, Forgetful])
def test_nothing_in_place_of_a_client_is_refused(factory: Callable[[], object], loop: CallLoop) -> None:
    part = resource(factory)
    error = error_of(lambda: opened(loop, of(part)), PipelineError)
    assert f"{part!r} gives None" in str(error)
    assert "return the client from the factory" in str(error)


class Stuck(Methods):
    """Never closes."""

    async def close(self) -> None:  # type: ignore[override]
        await never()


@pytest.mark.parametrize("stopping", [False, True])
def test_what_does_not_close_is_reported_and_keeps_nothing_else_open(
    stopping: bool, loop: CallLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_resources, "CLOSE_SECONDS", 1000 if stopping else 0.05)
    monkeypatch.setattr(open_resources, "STOPPING_SECONDS", 0.05 if stopping else 1000)
    last = Methods()
    # What hangs leaves time to what was opened before it.
    parts = [resource(lambda: last), resource(Stuck), resource(Broken)]
    resources = opened(loop, of(*parts), stopping=lambda: stopping)
    with caplog.at_level(logging.WARNING):
        resources.close()
    assert last.of == ["open", "close"]
    broken, stuck = (record.getMessage() for record in caplog.records)
    assert broken.startswith("async_flat_map c2: resource(Broken), at ")
    assert broken.endswith("failed in closing: ConnectionResetError: gone")
    assert stuck.endswith("is not closed in time: it is left behind")


def test_a_client_is_closed_once_the_calls_that_were_cancelled_have_ended(loop: CallLoop) -> None:
    client = Methods()

    async def call() -> None:
        try:
            await never()
        finally:
            await asyncio.sleep(0.01)
            client.of.append("last call")

    async def begun() -> "asyncio.Task[None]":
        task = asyncio.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
        return task

    resources = opened(loop, of(resource(lambda: client)))
    task = loop.run(begun())
    resources.close()
    assert (client.of, task.cancelled()) == (["open", "last call", "close"], True)
