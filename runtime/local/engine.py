"""The local engine: makes the streams a plan needs, its tasks, and a container that runs them."""

import asyncio
import uuid
from contextlib import ExitStack
from typing import Any

from ...dsl.checks import explain
from ...dsl.errors import PlanError
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..kernel.program import compile_stage
from ..kernel.shape import Clock
from ..report import OnProgress, Report
from ..signals import stop_signals
from ..streams import frozen_ends, make_streams
from ..systems.contract import Admin, System
from .container import Container
from .stores import store_for
from .task import LocalTask, Run


def run(
    plan: Plan, system: System, settings: Settings, until: str, progress: OnProgress | None, spark: Any = None
) -> Report:
    """Run a plan in this process. Signals are heeded if this is the main thread; `spark` is not for this engine."""
    del spark
    with ExitStack() as stack:
        stack.enter_context(system.claim(plan.name))
        admin = system.admin()
        make_streams(plan, admin)
        ends = frozen_ends(plan, admin) if until == "end" else None
        producer = system.producer()
        stack.callback(producer.close)
        shared = Run(uuid.uuid4().hex, plan, settings, producer, asyncio.sleep)
        tasks = make_tasks(shared, system, admin, stack)
        consumer = system.consumer()
        stack.callback(consumer.close)
        open_sinks(plan, stack)
        stop = stack.enter_context(stop_signals())
        container = Container(plan, tasks, consumer, producer, admin, settings, ends, stop, progress)
        return asyncio.run(container.run())


def make_tasks(run: Run, system: System, admin: Admin, stack: ExitStack) -> list[LocalTask]:
    """The tasks of a plan, each where its last commit left it; `stack` closes them."""
    plan, settings = run.plan, run.settings
    kept = admin.checkpoints(plan.name)
    if not kept:
        _refuse_others(plan, admin)
    made = []
    for stage in plan.stages:
        program = compile_stage(plan, stage.id, _clocks(plan, stage.inputs), stamped=True)
        for number in range(stage.tasks):
            name = f"{stage.id}/{number}"
            store = store_for(plan, name, program.stateful, system, settings)
            try:
                task = LocalTask(run, program, stage, number, store, kept.get(name))
            except BaseException:
                store.close()
                raise
            stack.callback(task.close)
            _set_starts(task, plan, admin, settings)
            if settings.offset_default == "latest":
                # The latest offsets of a restart would be later ones, and leave out what came in between.
                task.commit()
            made.append(task)
    return made


def _refuse_others(plan: Plan, admin: Admin) -> None:
    """Refuse to begin where a stream between the stages holds messages: each is published with a checkpoint of its
    writer, so another pipeline wrote them."""
    for stream in plan.streams:
        if stream.kind == "intermediate" and any(admin.ends(stream.name)):
            wrong = f"the stream {stream.name!r} between stages of pipeline {plan.name!r} holds another's messages"
            expected = "names of pipelines and partition_by that together name streams of their own"
            raise PlanError(explain(wrong, expected, "give one of the two another name", plan.pipeline.origin))


def _clocks(plan: Plan, inputs: tuple[str, ...]) -> dict[str, Clock]:
    return {name: "source" if plan.stream(name).kind == "source" else "stamps" for name in inputs}


def _set_starts(task: LocalTask, plan: Plan, admin: Admin, settings: Settings) -> None:
    for stream in task.inputs:
        latest = settings.offset_default == "latest" and plan.stream(stream).kind == "source"
        offsets = admin.ends(stream) if latest else admin.starts(stream)
        task.start_at(stream, offsets[task.number])


def open_sinks(plan: Plan, stack: ExitStack) -> None:
    """Open the sinks of a plan; `stack` closes them."""
    for operator in plan.pipeline.operators:
        sink = getattr(operator, "sink", None)
        if sink is not None:
            sink.open()
            stack.callback(sink.close)
