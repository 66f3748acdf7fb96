"""The kernel's row of stream tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ....dsl import operators as ops
from ....dsl.errors import MessageError
from ....dsl.message import Headers
from ....dsl.operators import Operator
from ....dsl.serde import key_serde
from ....dsl.stream_task import Envelope, TaskContext
from ....dsl.text import error_text
from ....dsl.validation import explain
from ....planner.task_assignment import TaskId
from ...process.interruptions import INTERRUPTIONS
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from ..operators.async_stream_task import outcome_of
from ..operators.stream_task import StreamTaskOperator, TaskSurroundings
from ..stateful_operator import StatefulOperator
from .async_call import after_call, attach_pool, call_origins, write_call
from .process import context_of
from .row import KernelKind, if_time_counts
from .writing import after_firing, write_stateful


def _make_task(environment: StageEnvironment, operator: ops.Task, emit: Callable[..., None]) -> StatefulOperator:
    """Make the stream task of an operator, with its state, and let it begin."""
    flows = environment.program.flows
    keys = [flows[source].key for source in operator.inputs]
    around = TaskSurroundings(
        decode_keys=[bytes if key is None else key_serde(key).decode for key in keys],
        place=environment.places.at_hand,
        note=environment.effects.emitter(environment.requests.note),
        taken=environment.requests.taken,
        drained=lambda: environment.drained[0],
    )
    made = StreamTaskOperator(
        operator,
        operator.factory(),
        partial(context_of, environment, operator),
        environment.effects.emitter(emit),
        around,
    )
    try:
        made.init(_context(environment))
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        wrong = f"{operator.label}: init failed: {error_text(error)}"
        raise MessageError(explain(wrong, "an init that returns", "correct it", operator.origin)) from error
    if operator.window is not None:
        environment.watermarks.clock_users.attach(operator.id, made.due, made.fire_by_clock)
    environment.closers.append((operator, made.close))
    return made


def _write_task_call(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, depth: int) -> None:
    """Submit a call whose argument is an envelope."""
    envelope = f"envelope_{writer.number[operator.id]}({names}, in_flight.where)"
    write_call(writer, path, operator, replace(names, value=envelope), depth)


def _bind_task_call(environment: StageEnvironment, operator: ops.TaskCall) -> dict[str, Any]:
    """What makes the envelope of a message."""
    key = environment.program.flows[operator.inputs[0]].key
    decode, places = bytes if key is None else key_serde(key).decode, environment.places

    def envelope(
        key: bytes | None, value: Any, timestamp: int, headers: Headers, where: tuple[Any, ...]
    ) -> Envelope[Any, Any]:
        name = None if key is None else decode(key)
        return Envelope(name, value, timestamp, headers, 0, *places.of(where))

    return {"envelope": envelope}


def _attach_task_call(
    environment: StageEnvironment, operator: ops.TaskCall, after: Callable[..., None]
) -> dict[str, Any]:
    """The pool of calls of the task that the operator behind this one has made for itself."""
    taken = environment.requests.taken

    async def call(envelope: Envelope[Any, Any]) -> list[Any]:
        owner = cast("StreamTaskOperator", environment.stateful[operator.task])
        return [await outcome_of(owner.task, envelope, taken=taken)]

    attached = attach_pool(environment, operator, replace(operator.call, fn=call), after)
    environment.pools[operator.id].give_names(call_origins(environment, operator.task))
    return attached


def _context(environment: StageEnvironment) -> TaskContext:
    """Which task it is."""
    stage = environment.program.plan.stage(environment.program.stage)
    bucket, number = divmod(environment.options.producer, stage.tasks)
    return TaskContext(TaskId(stage.id, number, bucket, stage.elasticity).name, number)


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Task: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_task, emits_at_once=if_time_counts
    ),
    ops.TaskCall: KernelKind(write=_write_task_call, define=after_call, bind=_bind_task_call, attach=_attach_task_call),
}
