"""The kernel's row of stream tasks."""

from collections.abc import Callable, Mapping
from functools import partial

from ....dsl import operators as ops
from ....dsl.errors import MessageError
from ....dsl.operators import Operator
from ....dsl.serde import key_serde
from ....dsl.stream_task import TaskContext
from ....dsl.validation import explain
from ....planner.task_assignment import TaskId
from ...process.interruptions import INTERRUPTIONS
from ..environment import StageEnvironment
from ..operators.stream_task import StreamTaskOperator, TaskSurroundings
from ..stateful_operator import StatefulOperator
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
        wrong = f"{operator.label}: init failed: {type(error).__name__}: {error}"
        raise MessageError(explain(wrong, "an init that returns", "correct it", operator.origin)) from error
    if operator.window is not None:
        environment.watermarks.clock_users.attach(operator.id, made.due, made.fire_by_clock)
    environment.closers.append((operator, made.close))
    return made


def _context(environment: StageEnvironment) -> TaskContext:
    """Which task it is."""
    stage = environment.program.plan.stage(environment.program.stage)
    bucket, number = divmod(environment.producer, stage.tasks)
    return TaskContext(TaskId(stage.id, number, bucket, stage.elasticity).name, number)


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Task: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_task, emits_at_once=if_time_counts
    ),
}
