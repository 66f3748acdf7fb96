"""One stage on its own, without an engine around it."""

from collections.abc import Mapping
from typing import Any

from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.code.program import Program
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.task_options import TaskOptions
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.time.stage_input import TimeSource
from fluvial.runtime.state import MemoryStore


def program_of(pipeline: Pipeline, stage: int = 0, clocks: Mapping[str, TimeSource] | None = None) -> Program:
    """The program of a stage; its inputs tell time as under the local engine, but for those in `clocks`."""
    made = plan(pipeline)
    planned = made.stages[stage]
    usual: dict[str, TimeSource] = {
        name: "source" if made.stream(name).kind == "source" else "trailer" for name in planned.inputs
    }
    return compile_stage(made, planned.id, {**usual, **(clocks or {})}, trailers=True)


def task_of(pipeline: Pipeline, stage: int = 0, *, position: Position | None = None, **options: Any) -> StageTask:
    """A task of a stage that begins without state."""
    program = program_of(pipeline, stage)
    return StageTask(program, MemoryStore(), empty=True, position=position, options=TaskOptions(**options))


def feed(task: StageTask, stream: str, *records: Record) -> dict[str, list[Any]]:
    """Feed records, as one batch of offsets from 0; returns what was made, by operator."""
    task.feed(stream, 0, range(len(records)), records)
    return dict(task.drain_outputs())
