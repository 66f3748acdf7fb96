"""Threads for users' blocking calls: how many there are, what they return, and how they end."""

import asyncio
import threading

import pytest

from fluvial.runtime.kernel.calls.threads import CallThreads
from waiting import wait_until


def test_a_call_returns_its_result_or_its_error_from_a_thread_of_its_own() -> None:
    calls = CallThreads()
    assert calls.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        calls.submit(divmod, 7, 0).result()
    assert calls.submit(threading.current_thread).result().daemon
    calls.shutdown()


def test_calls_run_at_once_in_as_many_threads_as_there_may_be() -> None:
    calls, together = CallThreads(2), threading.Barrier(2, timeout=60)
    futures = [calls.submit(together.wait) for _ in range(4)]
    assert sorted(future.result() for future in futures) == [0, 0, 1, 1]
    assert len({calls.submit(threading.get_ident).result() for _ in range(8)}) <= 2
    calls.shutdown()


def test_a_call_is_open_until_it_has_returned() -> None:
    calls, go_on = CallThreads(), threading.Event()
    future = calls.submit(go_on.wait, 60)
    assert calls.open == 1
    go_on.set()
    assert future.result()
    wait_until(lambda: calls.open == 0, "no call is open")
    calls.shutdown()


def test_a_call_that_was_cancelled_before_it_began_is_not_made() -> None:
    calls, go_on = CallThreads(1), threading.Event()
    made: list[int] = []
    first = calls.submit(go_on.wait, 60)
    second = calls.submit(made.append, 1)
    assert second.cancel()
    go_on.set()
    first.result()
    calls.shutdown()
    assert made == []


def test_no_call_is_taken_after_the_end_and_those_before_it_are_made() -> None:
    calls, made = CallThreads(), list[int]()
    futures = [calls.submit(made.append, number) for number in range(20)]
    calls.shutdown()
    assert all(future.done() for future in futures)
    assert sorted(made) == list(range(20))
    with pytest.raises(RuntimeError, match="the run is over"):
        calls.submit(made.append, 1)
    calls.shutdown()  # once more is nothing


def test_a_stop_iteration_reaches_whoever_awaits_the_call() -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(CallThreads())
        with pytest.raises(RuntimeError, match=r"raised StopIteration\(3\)") as raised:
            await asyncio.wait_for(asyncio.to_thread(stop), 60)
        assert isinstance(raised.value.__cause__, StopIteration)

    def stop() -> None:
        raise StopIteration(3)

    asyncio.run(main())


def test_a_thread_that_cannot_be_started_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container may have no more of them at the moment."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = CallThreads(2)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            calls.submit(abs, -1)
    assert calls.open == 0
    assert calls.submit(abs, -1).result(60) == 1
    go_on = threading.Event()
    first = calls.submit(go_on.wait, 60)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        second = calls.submit(abs, -2)  # the thread that there is makes it
    go_on.set()
    assert (first.result(60), second.result(60)) == (True, 2)
    calls.shutdown()
