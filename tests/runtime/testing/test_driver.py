"""The pipeline driver: virtual time, commits, crashes, and the order in which calls end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import MessageError, NoProgressError, Pane, Pipeline, Retry, UsageError, count, dead_letter, tumbling
from fluvial.planner import Settings
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)


async def half_a_minute(word: str) -> list[str]:
    await asyncio.sleep(30)
    return [word]


async def in_a_thread(word: str) -> list[str]:
    return [await asyncio.to_thread(str.upper, word)]


def calling(fn: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("calling")
    pipeline.stream("in", value=str).async_flat_map(fn, id="call", **options).send_to("out", value=str)
    return pipeline


def values(driver: PipelineDriver, stream: str = "out") -> list[Any]:
    return [message.value for message in driver.read(stream)]


def test_sleeping_takes_virtual_time() -> None:
    with PipelineDriver(calling(half_a_minute), start=1000) as driver:
        driver.send("in", "a")
        driver.advance(29 * SECOND)
        assert values(driver) == []
        driver.advance(SECOND)
        assert (values(driver), driver.now) == (["a"], 31_000)


def test_retries_pause_in_virtual_time() -> None:
    tries: list[float] = []

    async def fail_twice(word: str) -> list[str]:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 3:
            raise OSError
        return [word]

    with PipelineDriver(calling(fail_twice, retry=Retry(attempts=3, delay=SECOND))) as driver:
        driver.send("in", "a")
        driver.end()
        assert (tries, values(driver)) == ([0, 1, 3], ["a"])


def test_threads_are_run_in_place() -> None:
    with PipelineDriver(calling(in_a_thread)) as driver:
        driver.send("in", "a")
        assert values(driver) == ["A"]


@pytest.mark.parametrize(
    ("order", "expected"), [("input", "abc"), ("reverse", "cba"), (lambda calls: len(calls) // 2, "bca")]
)
def test_calls_end_in_the_order_asked_for(order: Any, expected: str) -> None:
    with PipelineDriver(calling(in_a_thread, order="none"), async_results=order) as driver:
        driver.records.send("in", [(None, word.encode(), 0, ()) for word in "abc"])
        assert "".join(values(driver)) == expected.upper()


def test_timed_commits_come_with_the_interval_and_a_crash_loses_the_rest() -> None:
    with PipelineDriver(calling(in_a_thread), commits="timed") as driver:
        driver.send("in", "a")
        driver.advance(SECOND)
        driver.send("in", "b")
        assert values(driver) == ["A"]
        driver.crash()
        driver.restart()
        driver.commit()
        assert values(driver) == ["A", "B"]


def test_calls_for_what_fires_when_the_last_call_has_landed_are_made() -> None:
    async def told(pane: Pane[str, int]) -> list[str]:
        return [f"{pane.key} {pane.value}"]

    pipeline = Pipeline("counted")
    pipeline.stream("in", key=str, value=str).async_flat_map(half_a_minute, id="call").window(
        tumbling(timedelta(hours=1)), count(), id="hourly"
    ).async_flat_map(told, id="tell").send_to("out", value=str)
    with PipelineDriver(pipeline, commits="timed") as driver:
        driver.send("in", "tea", key="ann")
        driver.end()
        assert values(driver) == ["ann 1"]


def test_take_gives_what_is_new() -> None:
    with PipelineDriver(calling(in_a_thread)) as driver:
        taken = []
        for word in ("a", "b"):
            driver.send("in", word)
            taken.append([message.value for message in driver.take("out")])
        assert taken == [["A"], ["B"]]


def test_dead_letters_can_be_read() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("in", value=int).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [(b"k", b"bad", 0, ())])
        assert [(message.key, message.value) for message in driver.dead_letters] == [(b"k", b"bad")]


def test_an_output_of_another_type_than_declared_is_named_by_its_stream() -> None:
    def wrong(text: str) -> int:
        return text  # type: ignore[return-value]

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).map(wrong).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "x")
        with pytest.raises(MessageError, match="a message of 'out' cannot be read as its declared type"):
            driver.read("out")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda d: d.send("other", "x"), "the pipeline reads no stream 'other'"),
        (lambda d: d.read("other"), "the pipeline writes no stream 'other'"),
        (lambda d: (d.end(), d.send("in", "x")), "the input has ended"),
        (lambda d: (d.crash(), d.commit()), "the pipeline is crashed"),
    ],
)
def test_wrong_use_is_refused(wrong: Any, text: str) -> None:
    with PipelineDriver(calling(in_a_thread)) as driver, pytest.raises(UsageError) as raised:
        wrong(driver)
    assert text in str(raised.value)
    assert f"at {__file__.rpartition('/tests/')[0]}" in str(raised.value) or "at tests/" in str(raised.value)


def test_a_call_that_never_ends_stalls_the_run() -> None:
    async def for_ever(word: str) -> list[str]:
        await asyncio.Event().wait()
        return [word]

    with PipelineDriver(calling(for_ever, timeout=timedelta(days=1))) as driver:
        driver.send("in", "a")
        with pytest.raises(NoProgressError, match="nothing has moved for 300 s"):
            driver.end()


@pytest.mark.parametrize(
    "use",
    [
        lambda driver: driver.send("in", "x"),
        lambda driver: driver.end(),
        lambda driver: driver.advance(SECOND),
        lambda driver: driver.restart(),
    ],
    ids=["send", "end", "advance", "restart"],
)
def test_a_closed_driver_says_so(use: Any) -> None:
    driver = PipelineDriver(calling(half_a_minute))
    driver.close()
    with pytest.raises(UsageError, match="the driver is closed"):
        use(driver)


def test_partitions_of_a_stream_that_the_pipeline_does_not_have_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"partitions= names 'inn'\n.*\n  expected: streams of the pipeline: 'in', 'out'"
    ):
        PipelineDriver(calling(half_a_minute), partitions={"inn": 2})


def test_a_driver_may_be_closed_twice() -> None:
    driver = PipelineDriver(calling(half_a_minute))
    driver.close()
    driver.close()


def test_calls_end_in_an_order_that_there_is() -> None:
    order: Any = "sideways"
    with pytest.raises(
        UsageError, match=r"async_results='sideways'\n.*\n  expected: \"input\", \"reverse\" or a function"
    ):
        PipelineDriver(calling(half_a_minute), async_results=order)


def test_calls_that_are_held_back_end_with_the_input() -> None:
    with PipelineDriver(calling(half_a_minute), async_results=lambda _: None) as driver:
        driver.send("in", "a")
        driver.advance(10 * SECOND)
        assert values(driver) == []
        driver.end()
        assert values(driver) == ["a"]


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda driver: driver.send("inn", "a"), "send to one"),
        (lambda driver: driver.send("in", "a", partition=3), 'PipelineDriver(pipeline, partitions={"in": ...})'),
        (lambda driver: driver.send("in", "a", key=1.5), "correct it, or key= of the stream"),
        (lambda driver: driver.send("in", "a", timestamp="now"), "write a whole number"),
        (lambda driver: driver.send("in", "a", headers={}), "write headers="),
        (lambda driver: driver.state.table("call"), "name one of them"),
        (lambda driver: driver.state.watermark("calls"), "name one of them"),
    ],
)
def test_each_wrong_argument_is_told_what_to_do(call: Any, remedy: str) -> None:
    with PipelineDriver(calling(half_a_minute)) as driver, pytest.raises(UsageError) as raised:
        call(driver)
    assert remedy in str(raised.value).rpartition("\n  to do: ")[2]


def test_the_elasticity_changes_between_two_steps() -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str, key=str)
    counted = keyed.window(tumbling(SECOND), count(), id="n")
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    with PipelineDriver(pipeline, partitions=2) as driver:
        for elasticity in (4, 2, 1, 8):
            for key in "abcdef":
                driver.send("in", "m", key=key, timestamp=0)
            driver.rescale(elasticity)
        driver.end()
        assert sorted(values(driver)) == [f"{key} 4" for key in "abcdef"]


def test_tasks_with_calls_in_flight_are_not_merged() -> None:
    async def call(user: str) -> list[str]:
        await asyncio.sleep(60 if user == "a" else 0)
        return [user]

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).async_flat_map(call, id="call", timeout=timedelta(hours=1)).send_to("out")
    with PipelineDriver(pipeline, settings=Settings(elasticity=2)) as driver:
        for key in "abcdef":
            driver.send("in", key, key=key)
        with pytest.raises(UsageError, match="rescale: calls are in flight"):
            driver.rescale(1)
        driver.restart()
        driver.advance(timedelta(minutes=1))
        driver.rescale(1)
        driver.end()
        assert {*values(driver)} == {*"abcdef"}
