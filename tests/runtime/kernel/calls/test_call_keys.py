"""Keys of calls: the same each time a call is made, also after a crash, and no two calls have the same."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import (
    AsyncStreamTask,
    Batch,
    MessageError,
    Pane,
    Pipeline,
    Retry,
    UsageError,
    Window,
    after_count,
    count,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.runtime import call_key, call_keys
from fluvial.runtime.kernel.calls.async_calls import CallPool
from fluvial.runtime.kernel.calls.call import Call
from fluvial.runtime.kernel.calls.call_keys import origins
from fluvial.runtime.kernel.calls.in_flight import InFlightMessage, InFlightQueue
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

SECOND = timedelta(seconds=1)
ms = timedelta(milliseconds=1)
STEPS = st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["crash", "advance", "commit"])), max_size=20)


class Service:
    """Does what it is asked, and notes under which keys. A call takes as many seconds as its value says, up to 2."""

    def __init__(self) -> None:
        self.done: defaultdict[Any, set[str]] = defaultdict(set)

    async def one(self, value: str) -> list[str]:
        key = call_key()
        await asyncio.sleep(len(value) % 3)
        assert call_key() == key
        self.done[value].add(key)
        return [value, f"{value}+"]

    async def each(self, values: list[str]) -> list[list[str]]:
        keys = call_keys()
        await asyncio.sleep(1)
        for value, key in zip(values, keys, strict=True):
            self.done[value].add(key)
        return [[value] for value in values]

    async def pane(self, pane: Pane[str, int]) -> list[str]:
        self.done[pane.key, pane.window.start].add(call_key())
        return [pane.key]

    async def no_row(self, _: str) -> str | None:
        return None

    async def keep(self, _: str, row: str | None) -> None:
        key = call_key()
        await asyncio.sleep(len(row or "") % 3)
        assert call_key() == key
        self.done[row].add(key)

    async def no_rows(self, _: Sequence[str]) -> Mapping[str, str]:
        return {}

    async def keep_each(self, rows: Mapping[str, str | None]) -> None:
        keys = call_keys()
        await asyncio.sleep(1)
        for row, key in zip(rows.values(), keys, strict=True):
            self.done[row].add(key)

    def is_exact(self) -> bool:
        """Whether each thing that was done has one key, and no two have the same."""
        keys = [key for keys in self.done.values() for key in keys]
        return all(len(keys) == 1 for keys in self.done.values()) and len({*keys}) == len(keys)


def twice(value: str) -> list[str]:
    return [f"{value}a", f"{value}bb"]


def alone(service: Service) -> Pipeline:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=str)
    stream.async_flat_map(service.one, id="one", order="none", max_in_flight=3).send_to("out", value=str)
    return pipeline


def several(service: Service) -> Pipeline:
    """Several calls of a message, and calls behind calls, whose order is chance."""
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=str)
    halves = stream.map(lambda value: f"{value}c").merge(stream.flat_map(twice))
    first = halves.async_flat_map(service.one, id="one", order="none").map(lambda value: f"{value}!")
    first.async_flat_map(service.one, id="two", order="none").send_to("out", value=str)
    return pipeline


def batched(service: Service) -> Pipeline:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=str)
    calls = stream.async_flat_map(service.each, id="each", batch=Batch(size=3, delay=SECOND), retry=Retry())
    calls.send_to("out", value=str)
    return pipeline


def written(service: Service) -> Pipeline:
    pipeline = Pipeline("p")
    rows = pipeline.remote_table("rows", read=service.no_row, write=service.keep, max_in_flight=3)
    pipeline.stream("in", key=str, value=str).send_to(rows)
    return pipeline


def written_in_batches(service: Service) -> Pipeline:
    pipeline = Pipeline("p")
    batch = Batch(size=3, delay=SECOND)
    rows = pipeline.remote_table("rows", read=service.no_rows, write=service.keep_each, batch=batch)
    pipeline.stream("in", key=str, value=str).send_to(rows)
    return pipeline


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, st.sampled_from([alone, several, batched, written, written_in_batches]), st.integers(1, 2))
def test_a_call_has_one_key_whenever_it_is_made(
    steps: list[Any], build: Callable[[Service], Pipeline], partitions: int
) -> None:
    service, sent = Service(), 0
    with PipelineDriver(build(service), partitions=partitions, commits="timed") as driver:
        for number, step in enumerate(steps):
            if step == "crash":
                driver.crash()
                driver.restart()
            elif step == "advance":
                driver.advance(SECOND)
            elif step == "commit":
                driver.commit()
            else:
                driver.send("in", f"{number}-{'x' * step}", key=f"k{step % 4}")
                sent += 1
        driver.crash()
        driver.restart()
        driver.end()
    assert service.is_exact()
    assert len(service.done) == sent * (9 if build is several else 1)


def test_the_key_is_the_same_at_any_elasticity() -> None:
    service = Service()
    for elasticity in (1, 4):
        with PipelineDriver(alone(service), settings=Settings(elasticity=elasticity)) as driver:
            for number in range(8):
                driver.send("in", f"{number}", key=f"k{number}")
            driver.end()
    assert (len(service.done), service.is_exact()) == (8, True)


def test_each_attempt_has_the_same_key_and_the_name_of_the_operator_counts() -> None:
    keys: list[str] = []

    async def fails(value: str) -> list[str]:
        keys.append(call_key())
        if len(keys) < 3:
            raise OSError
        return [value]

    for id in ("one", "two"):
        pipeline = Pipeline("p")
        pipeline.stream("in", value=str).async_flat_map(fails, id=id, retry=Retry(attempts=3)).send_to("out")
        with PipelineDriver(pipeline) as driver:
            driver.send("in", "x")
            driver.end()
    assert (len({*keys[:3]}), len({*keys})) == (1, 2)


def window(service: Service, **options: Any) -> Pipeline:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", value=str).partition_by(lambda word: word, id="by", key_type=str)
    panes = stream.window(tumbling(10 * ms), count(), id="w", **options)
    panes.async_flat_map(service.pane, id="pane").send_to("out", value=str)
    return pipeline


def test_a_pane_has_the_key_of_its_window_before_and_after_a_crash() -> None:
    service = Service()
    with PipelineDriver(window(service), commits="timed") as driver:
        for at in range(0, 50, 5):
            driver.send("in", "ab"[at % 2], timestamp=at)
        driver.crash()
        driver.restart()
        driver.end()
    assert (len(service.done), service.is_exact()) == (10, True)


def test_a_window_that_fires_again_in_another_run_has_another_key() -> None:
    service = Service()
    with PipelineDriver(window(service)) as driver:
        for _ in range(2):
            driver.send("in", "a", timestamp=5)
            driver.end()
            driver.restart()
    assert [len(keys) for keys in service.done.values()] == [2]


def test_what_nothing_names_the_same_after_a_crash_has_no_key() -> None:
    service = Service()
    refused = "one of a source that is read by the same stage, or an on-time pane"
    with PipelineDriver(window(service, trigger=after_count(1))) as driver, pytest.raises(MessageError, match=refused):
        driver.send("in", "a", timestamp=5)
    pipeline = Pipeline("p")
    behind = pipeline.stream("in", value=str).partition_by(lambda word: word, id="by", key_type=str)
    behind.async_flat_map(service.one, id="one").send_to("out")
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError, match=refused):
        driver.send("in", "a")


def test_there_is_no_key_outside_of_a_call() -> None:
    with pytest.raises(UsageError, match="outside of the call of an async_flat_map"):
        call_key()

    async def later() -> str:
        return call_key()

    async def in_a_task(_: str) -> list[str]:
        return [await asyncio.ensure_future(later())]

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(in_a_task, id="call").send_to("out")
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError, match="outside of the call"):
        driver.send("in", "a")


def test_there_is_no_key_in_a_thread() -> None:
    async def in_a_thread(_: str) -> list[str]:
        return [await asyncio.to_thread(call_key)]

    async def work() -> BaseException | None:
        operator: Any = Pipeline("p").stream("in", value=str).async_flat_map(in_a_thread, id="call").operator
        found = asyncio.get_running_loop().create_future()
        CallPool(operator, operator.call, found.set_result).submit(Call(None, "x", None))
        call: Call = await found
        return call.error

    assert "outside of the call" in str(asyncio.run(work()))


class Keyed(AsyncStreamTask[Any, str, str]):
    """Sends the key of each call."""

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        del envelope, coordinator
        await asyncio.sleep(0)
        collector.send(call_key())


def test_each_message_of_an_asynchronous_stream_task_has_a_key_of_its_own() -> None:
    def keys() -> list[str]:
        pipeline = Pipeline("p")
        pipeline.task(Keyed, pipeline.stream("in", value=str), id="keyed").send_to("out", value=str)
        with PipelineDriver(pipeline) as driver:
            for word in ("tea", "tea"):
                driver.send("in", word)
            return [message.value for message in driver.read("out")]

    first, second = keys()
    assert (len(first), len(second)) == (32, 32)
    assert first != second
    assert keys() == [first, second]


def test_a_batch_has_no_single_key() -> None:
    async def each(values: list[str]) -> list[list[str]]:
        return [[call_key()] for _ in values]

    pipeline = Pipeline("p")
    stream = pipeline.stream("in", value=str)
    stream.async_flat_map(each, id="each", batch=Batch(size=2, delay=SECOND)).send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "a")
        with pytest.raises(MessageError, match="in the function of a batch"):
            driver.send("in", "b")


def looked_up(**options: Any) -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.remote_table("table", retry=Retry(attempts=2, delay=ms), **options)
    pipeline.stream("in", key=str, value=str).join(table, lambda _, row: row, id="row").send_to("out", value=str)
    return pipeline


def test_what_reads_a_row_has_the_key_of_its_message_in_each_attempt() -> None:
    keys: list[str] = []

    async def read(_: str) -> str:
        keys.append(call_key())
        await asyncio.sleep(0)
        if len(keys) == 1:
            raise OSError
        return await asyncio.ensure_future(later())

    async def later() -> str:
        return call_key()

    with PipelineDriver(looked_up(read=read)) as driver:
        for value in ("x", "y"):
            driver.send("in", value, key="tea")
            driver.advance(SECOND)
        assert [message.value for message in driver.read("out")] == keys[1:]
    assert (keys[0] == keys[1], len({*keys})) == (True, 2)


def test_a_batch_of_rows_has_a_key_for_each_also_where_messages_ask_for_one() -> None:
    batches: list[list[str]] = []

    async def read(keys: Sequence[str]) -> Mapping[str, str]:
        batches.append(call_keys())
        return dict(zip(keys, call_keys(), strict=True))

    with PipelineDriver(looked_up(read=read, batch=Batch(size=2, delay=SECOND))) as driver:
        for key in ("tea", "tea", "milk"):
            driver.send("in", "x", key=key)
        driver.advance(SECOND)
        assert {message.value for message in driver.read("out")} == {*batches[0]}
    assert [len({*keys}) for keys in batches] == [2]


def test_what_is_written_has_the_key_of_its_table_wherever_it_stands_in_the_pipeline() -> None:
    keys: list[str] = []

    async def keep(_: str, __: str | None) -> None:
        keys.append(call_key())

    for table in ("rows", "rows", "others"):
        pipeline = Pipeline("p")
        rows = pipeline.remote_table(table, read=Service().no_row, write=keep)
        stream = pipeline.stream("in", key=str, value=str)
        (stream.filter(bool) if keys else stream).send_to(rows)
        with PipelineDriver(pipeline) as driver:
            driver.send("in", "x", key="tea")
            driver.end()
    assert (keys[0] == keys[1], len({*keys})) == (True, 2)


def test_a_row_that_nothing_names_the_same_after_a_crash_has_no_key() -> None:
    pipeline = Pipeline("p")
    rows = pipeline.remote_table("rows", read=Service().no_row, write=Service().keep, retry=Retry(attempts=1))
    pipeline.stream("in", value=str).partition_by(lambda word: word, id="by", key_type=str).send_to(rows)
    refused = "one of a source that is read by the same stage"
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError, match=refused):
        driver.send("in", "x")


def fired(pane: Any, at_end: bool) -> InFlightMessage:
    message = InFlightMessage(0, ("w", b"k", pane, 9), InFlightQueue("w"))
    message.at_end = at_end
    return message


@pytest.mark.parametrize(
    ("run", "at_end", "named"), [("r", True, True), ("", True, True), (None, True, False), (None, False, True)]
)
def test_a_pane_at_the_end_of_input_has_a_key_if_it_is_known_which_end_it_was(
    run: str | None, at_end: bool, named: bool
) -> None:
    origin = origins(("p", "call"), (), {"w"}, run)
    pane = Pane("k", Window(0, 10), 1)
    if named:
        assert origin(fired(pane, at_end)) != origin(fired(Pane("k", Window(10, 20), 1), at_end))
    else:
        with pytest.raises(UsageError, match="call_key\\(\\) for a message of w"):
            origin(fired(pane, at_end))


def test_what_is_no_pane_or_of_no_window_has_no_key() -> None:
    for windows, value in (({"w"}, 3), ((), Pane("k", Window(0, 10), 1))):
        with pytest.raises(UsageError, match="call_key\\(\\) for a message of w"):
            origins(("p", "call"), (), windows, "")(fired(value, False))


def test_messages_of_a_stream_without_offsets_have_no_key() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(Service().one, id="one").send_to("out", value=str)
    made = plan(pipeline, partitions={"in": 1})
    stage = made.stages[0].id
    errors: list[str] = []

    async def work(without: set[str]) -> None:
        program = compile_stage(made, stage, {"in": "source"}, trailers=False, without_offsets=without)
        task = StageTask(program, MemoryStore())
        task.feed("in", 0, [0], [(None, b"x", 0, ())])
        while task.progress.busy:
            await asyncio.sleep(0.01)
        try:
            task.check()
        except MessageError as error:
            errors.append(str(error))

    asyncio.run(work(set()))
    asyncio.run(work({"in"}))
    assert len(errors) == 1
    assert "call_key() for a message of in" in errors[0]
