"""Calls in processes: what is ended and replaced, what fails, and that nothing is left behind."""

import asyncio
import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.call_loops import in_loop
from explained import assert_explains, error_of
from faults.pooled_functions import Opened, Short, asked
from fluvial.dsl import Pipeline, PipelineError, SystemProblem, UsageError, in_processes, resource, skip
from fluvial.planner import plan
from fluvial.runtime import KeyedExecutor, run
from fluvial.runtime.kernel.calls.pool_work import STARTS, ProcessWork
from fluvial.runtime.preflight.unsupported import limitations
from fluvial.runtime.process import function_server
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver
from waiting import wait_until


def children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    found = set[int]()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        state, parent = rest.split()[:2]
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(name.split()[0]))
    return found


def fed(*values: str) -> MemorySystem:
    streams = MemorySystem()
    streams.admin().create("in", 1)
    writing = streams.producer().begin()
    writing.append("in", 0, [(None, value.encode(), 1, ()) for value in values])
    writing.commit()
    return streams


def asking(fn: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("asking", on_error=skip())
    pipeline.stream("in", value=str).async_flat_map(fn, id="ask", **options).send_to("out", value=int | str)
    return pipeline


def local(text: str) -> Callable[[str], list[str]]:
    def inner(other: str) -> list[str]:
        return [text, other]

    return inner


@pytest.mark.parametrize(("fn", "name"), [(lambda text: [text], "lambda"), (local("a"), "inner")])
def test_a_function_that_no_process_can_import_is_refused_where_it_is_written(fn: Any, name: str) -> None:
    def write() -> None:
        in_processes(fn, processes=2)

    expected = "a function at the top level of a module"
    error = error_of(write, PipelineError)
    assert_explains(error, f"in_processes got {name}, which cannot be pickled", write, expected, "with def", below=1)


def test_processes_have_no_client_of_this_one() -> None:
    pooled: Any = in_processes(asked, processes=2)
    fn, pipeline = pooled, Pipeline("p")
    error = error_of(
        lambda: pipeline.stream("in", value=str).async_flat_map(fn, id="a", resource=resource(dict)),
        PipelineError,
    )
    assert_explains(error, "resource= and in_processes(asked)", None, "a function in processes, or", "open() and close")
    table: Callable[[], object] = lambda: pipeline.remote_table("t", read=fn, resource=resource(dict))  # noqa: E731
    assert "resource= and in_processes(asked)" in str(error_of(table, PipelineError))


def test_spark_refuses_processes_with_the_reason() -> None:
    (found,) = limitations(plan(asking(in_processes(asked, processes=2))), "spark")
    assert found.subject == "in_processes of async_flat_map ask"
    assert "in_threads" in found.reason


def test_a_call_that_was_given_up_before_it_began_is_not_made() -> None:
    work, outcome = ProcessWork(in_processes(asked, processes=1)), Future[Any]()
    job = work.job(("exit",), {})
    try:
        job.cancel()
        job.run(outcome)
        assert isinstance(outcome.exception(), CancelledError)
        assert len(children()) == 1
    finally:
        work.dismiss()
        work.kill()
    assert work.ended()


def test_what_cannot_be_pickled_is_not_sent() -> None:
    outcome = Future[Any]()
    ProcessWork(in_processes(asked, processes=1)).job((lambda: 3,), {}).run(outcome)
    assert "what asked is given cannot be pickled" in str(outcome.exception())


def test_no_process_is_started_behind_the_end() -> None:
    work = ProcessWork(in_processes(asked, processes=1))
    work.dismiss()
    with pytest.raises(BrokenExecutor, match="the run is over"):
        work.prepare()


@pytest.mark.parametrize("winds_down", [True, False])
def test_where_the_pool_is_about_to_end_a_lost_process_is_not_replaced(*, winds_down: bool) -> None:
    before, work, outcome = children(), ProcessWork(in_processes(asked, processes=1)), Future[Any]()
    try:
        work.prepare()
        if winds_down:
            work.wind_down()
        work.job(("kill",), {}).run(outcome)
        assert isinstance(outcome.exception(), BrokenExecutor)
        assert len(children() - before) == (0 if winds_down else 1)
    finally:
        work.dismiss()
        work.kill()


@pytest.mark.parametrize("deaths", [1, pytest.param(STARTS, marks=pytest.mark.slow)])
def test_a_process_that_dies_as_it_starts_is_started_again_so_often(tmp_path: Path, deaths: int) -> None:
    short, outcome = Short(tmp_path / "log", deaths), Future[Any]()
    work = ProcessWork(in_processes(short.ask, processes=1))
    try:
        work.job(("tea",), {}).run(outcome)
    finally:
        work.dismiss()
        work.kill()
    if deaths < STARTS:
        assert outcome.result() == "tea"
    else:
        assert "the process of ask has ended: signal SIGKILL" in str(outcome.exception())
    assert len(short.log.read_text()) == min(deaths + 1, STARTS)


def test_a_process_starts_none_as_it_loads_the_script() -> None:
    before, work = children(), ProcessWork(in_processes(asked, processes=1))
    function_server._serving.set()
    try:
        error = error_of(work.prepare, UsageError)
    finally:
        function_server._serving.clear()
    assert "in_processes starts processes as the script is loaded in one of them" in str(error)
    assert 'under if __name__ == "__main__":' in str(error)
    assert children() <= before


@pytest.mark.slow
def test_a_death_fails_its_call_alone_and_a_process_that_was_killed_is_replaced() -> None:
    pooled = in_processes(asked, processes=2)

    async def main() -> list[Any]:
        before = children()
        await pooled.open()
        assert len(children() - before) == 2
        hanging, dying = (asyncio.ensure_future(pooled(what)) for what in ("hang", "kill"))
        with pytest.raises(BrokenExecutor, match="SIGKILL"):
            await dying
        replaced = await pooled("tea")
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        idle = await pooled("tea")
        os.kill(idle[1], signal.SIGKILL)  # while it has nothing to do
        wait_until(lambda: idle[1] not in children(), "its end")
        again = await asyncio.gather(*(pooled("tea") for _ in range(4)))
        return [replaced, idle, *again]

    before = children()
    answers = in_loop(main())
    assert [what for what, _ in answers] == ["tea"] * 6
    assert children() <= before


@pytest.mark.slow
def test_a_run_goes_on_behind_what_hangs_dies_and_cannot_travel() -> None:
    values = ("a", "kill", "b", "hang", "lambda", "c", "exit", "odd", "fail", "d")
    before, fn = children(), in_processes(asked, processes=2)
    pipeline = asking(fn, timeout=timedelta(seconds=3), order="input")
    report = run(pipeline, system=fed(*values), until="end")
    assert (report.written, report.failed) == ({"out": 8}, {"ask": 6})  # two for each message
    assert children() <= before


@pytest.mark.slow
def test_objects_are_opened_in_each_process_and_closed(tmp_path: Path) -> None:
    owner = Opened(tmp_path / "log")
    run(asking(in_processes(owner.ask, processes=2)), system=fed("a", "b"), until="end")
    words = owner.log.read_text().split()
    assert (words.count("open"), words.count("close"), len(set(words))) == (2, 2, 4)


@pytest.mark.slow
def test_what_cannot_be_opened_ends_the_run_before_its_first_message(tmp_path: Path) -> None:
    before = children()
    pipeline = asking(in_processes(Opened(tmp_path / "log", fails=True).ask, processes=2))
    error = error_of(lambda: run(pipeline, system=fed("a"), until="end"), SystemProblem)
    assert "in_processes(ask) cannot be opened: ConnectionError: nobody is there" in str(error)
    assert children() <= before


@pytest.mark.slow
def test_a_driver_and_an_executor_use_processes_too(tmp_path: Path) -> None:
    before = children()
    with PipelineDriver(asking(in_processes(asked, processes=3))) as driver:
        driver.send("in", "a")
        driver.send("in", "exit")
        driver.send("in", "b")
        assert [message.value for message in driver.read("out")][::2] == ["a", "b"]
        assert len(children() - before) == 1
    assert children() <= before
    owner = Opened(tmp_path / "log")
    with PipelineDriver(asking(in_processes(owner.ask, processes=2))) as driver:
        driver.send("in", "a")
    assert [word for word in owner.log.read_text().split() if word.isalpha()] == ["open", "close"]

    async def main() -> list[Any]:
        got = list[Any]()
        pooled = in_processes(asked, processes=1)
        async with KeyedExecutor(pooled, on_result=lambda _, result: got.append(result[0])) as executor:
            for value in ("a", "b"):
                await executor.submit(value)
        return got

    assert asyncio.run(main()) == ["a", "b"]
    assert children() <= before


def test_a_function_is_pickled_where_it_is_written() -> None:
    assert pickle.loads(in_processes(asked, processes=2).pickled) is asked
