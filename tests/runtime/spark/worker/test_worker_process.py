"""What a Python worker keeps from batch to batch: its event loop, and the clients of a run. No Spark is needed."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Limit, Pipeline, resource
from fluvial.planner import plan
from fluvial.runtime.kernel.calls import cancellation
from fluvial.runtime.kernel.calls.cancellation import CallLoop
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.output_routes import ExplainedSink
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.levels import Levels, most_tasks
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack, unpack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.worker.worker_process import MOST_PIPELINES, WorkerProcess, this_process


async def asked(value: int, client: Any) -> list[int]:
    del client
    return [value]


class Looped:
    """A sink that tells the loop in which it is opened and closed."""

    def __init__(self) -> None:
        self.loops: list[Any] = []

    async def open(self) -> None:
        self.loops.append(asyncio.get_running_loop())

    def write(self, messages: Any) -> None:
        """Nothing is written."""

    def flush(self) -> None:
        """Nothing is written."""

    async def close(self) -> None:
        self.loops.append(asyncio.get_running_loop())


def shipped(run: str, id: str = "asked", name: str = "p") -> ShippedPlan:
    """A plan with a client of its own, which tells of itself by a list that each copy of the plan has, and a sink."""

    class Client:
        """Tells the loop in which it is opened and closed."""

        def __init__(self) -> None:
            self.loops: list[Any] = []

        async def open(self) -> None:
            self.loops.append(asyncio.get_running_loop())

        async def close(self) -> None:
            self.loops.append(asyncio.get_running_loop())

    pipeline = Pipeline(name)
    numbers = pipeline.stream("in", value=int)
    numbers.async_flat_map(asked, id=id, resource=resource(Client)).send_to("out", value=int)
    numbers.sink(Looped(), id="sink")
    made = plan(pipeline)
    found: Levels = levels(made, list(made.stages), 1)
    return replace(pack(PlanBundle(made, found, KeyBuckets(1), Size(1, 1))), run=run)


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    made = WorkerProcess()
    yield made
    made.close()


def client_of(worker: WorkerProcess, plan: ShippedPlan) -> Any:
    (client,) = worker.program(plan, "in").clients.values()
    return client


async def running() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_one_loop_serves_all_batches(worker: WorkerProcess) -> None:
    first = worker.run(running())
    worker.end_calls()
    assert worker.run(running()) is first


def test_a_client_is_opened_once_and_closed_in_its_loop_when_another_run_comes(worker: WorkerProcess) -> None:
    one = shipped("run")
    client, again = client_of(worker, one), client_of(worker, one)
    assert client is again
    loop = worker.run(running())
    assert client.loops == [loop]
    sibling = client_of(worker, shipped("run", "other"))
    assert (client.loops, sibling.loops) == ([loop], [loop])
    before = unpack(one)
    another = client_of(worker, shipped("another", "third"))
    assert (client.loops, sibling.loops, another.loops) == ([loop] * 2, [loop] * 2, [loop])
    assert unpack(one) is not before
    assert client_of(worker, one) is not client


def test_a_run_opens_its_own_clients_where_another_run_had_the_same_plan(worker: WorkerProcess) -> None:
    before = client_of(worker, shipped("run"))
    after = client_of(worker, shipped("another"))
    assert (len(before.loops), len(after.loops)) == (2, 1)


def test_a_worker_closes_what_is_open_at_its_end() -> None:
    worker = WorkerProcess()
    client = client_of(worker, shipped("run"))
    worker.close()
    assert len(client.loops) == 2


def sink_in(worker: WorkerProcess, plan: ShippedPlan) -> Looped:
    """The sink of a plan, open in a worker."""
    (operator,) = unpack(plan)[0].plan.pipeline.sinks
    worker.open_sink(plan, ExplainedSink(operator))
    sink: Any = operator.sink
    opened: Looped = sink
    return opened


def test_a_sink_stays_open_for_other_queries_of_its_run_and_is_closed_for_another_run(worker: WorkerProcess) -> None:
    sink, loop = sink_in(worker, shipped("run")), worker.run(running())
    client_of(worker, shipped("run", "other"))
    assert sink.loops == [loop]
    client_of(worker, shipped("another", "third"))
    assert sink.loops == [loop, loop]


def test_pipelines_that_share_a_worker_keep_their_clients_and_sinks(worker: WorkerProcess) -> None:
    plans = [shipped(f"run-{number}", name=f"p-{number}") for number in range(MOST_PIPELINES)]
    clients, sinks = [client_of(worker, one) for one in plans], [sink_in(worker, one) for one in plans]
    assert [client_of(worker, one) for one in plans] == clients
    assert [sink_in(worker, one) for one in plans] == sinks
    loop = worker.run(running())
    assert [one.loops for one in (*clients, *sinks)] == [[loop]] * 2 * MOST_PIPELINES
    client_of(worker, plans[0])
    client_of(worker, shipped("another", name="another"))
    # Only what was not used for the longest time.
    closed = [one.loops == [loop, loop] for one in (*clients, *sinks)]
    assert closed == [number == 1 for number in range(MOST_PIPELINES)] * 2


def test_a_sink_keeps_the_loop_that_it_was_opened_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "GRACE_SECONDS", 0.05)
    worker = WorkerProcess()
    sink = sink_in(worker, shipped("run"))
    loop = worker.run(running())
    worker.run(left_behind())
    worker.end_calls()
    worker.close()
    assert sink.loops == [loop, loop]


async def stubborn() -> None:
    """Ends when its loop does."""
    for _ in range(2):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def left_behind() -> "asyncio.Task[None]":
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    return task


@pytest.mark.parametrize("is_open", [False, True])
def test_a_call_that_ignores_its_cancellation_ends_with_the_loop_unless_a_client_needs_that(
    is_open: bool, worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "GRACE_SECONDS", 0.05)
    if is_open:
        client_of(worker, shipped("run"))
    loop = worker.run(running())
    call = worker.run(left_behind())
    worker.end_calls()
    assert loop.is_closed() is call.done() is not is_open
    assert (worker.run(running()) is loop) is is_open


def test_a_process_that_is_forked_has_a_loop_of_its_own_and_leaves_that_of_its_parent() -> None:
    here = this_process()
    loop = here.run(running())
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(this_process() is here or this_process().run(running()) is loop)
    assert os.waitpid(child, 0)[1] == 0
    assert here.run(running()) is loop


def test_a_loop_that_cannot_begin_leaves_no_coroutine() -> None:
    def refused() -> Any:
        raise OSError("no descriptors")

    with pytest.raises(OSError, match="no descriptors"):
        WorkerProcess(CallLoop(refused)).run(running())


def test_a_task_has_its_part_of_a_limit(worker: WorkerProcess) -> None:
    async def ask(value: int) -> list[int]:
        return [value]

    limit = Limit("model", calls=60, tokens=600, per=timedelta(hours=1), estimate=lambda value: value)
    pipeline = Pipeline("limited")
    pipeline.stream("in", value=int).async_flat_map(ask, id="ask", limit=limit).send_to("out", value=int)
    made = plan(pipeline, partitions={"in": 6})
    found = levels(made, list(made.stages), 4)
    assert (most_tasks(made, found, 4), most_tasks(made, found, 8)) == (6, 8)
    plan_of_six = pack(PlanBundle(made, found, KeyBuckets(4), Size(1, 1), tasks=6))
    (admission,) = worker.program(plan_of_six, "in").clients.values()
    assert {name: meter.most for name, meter in admission.meters.items()} == {"calls": 10, "tokens": 100}
    with pytest.raises(ValueError, match="is 101 tokens, and the limit allows 100 in each of 6 parts"):
        worker.run(admission.enter(101))
