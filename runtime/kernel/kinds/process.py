"""The kernel's rows of processors and of their side outputs, which are operators of their own."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ....dsl.processor import answers_timers
from ....dsl.serde import key_serde
from ..environment import StageEnvironment
from ..operators.processor import EmitMessage, ProcessContext, ProcessOperator
from ..operators.stream_task import StreamTaskOperator
from ..stateful_operator import StatefulOperator
from ..time.operator_watermarks import reached_by
from .row import KernelKind, if_time_counts, writes_no_code
from .writing import after_firing, write_stateful


def _make_process(environment: StageEnvironment, operator: ops.Process, emit: Callable[..., None]) -> StatefulOperator:
    """Make the processor of an operator, with its state and timers."""
    user = copy.copy(operator.processor)
    answered = answers_timers(user)
    decode_key = key_serde(environment.program.flows[operator.inputs[0]].key).decode
    context = context_of(
        environment,
        operator,
        environment.effects.emitter(emit),
        handler=user,
        on_message=user.on_message,
        on_timer=user.on_timer,
        answered=answered,
        decode_key=decode_key,
    )
    processor = ProcessOperator(context)
    if processor.fire_clock_timers is not None:
        environment.clock_users.append(operator.id)
        environment.watermarks.clock_users.attach(operator.id, processor.due, processor.fire_clock_timers)
    return processor


def context_of(
    environment: StageEnvironment, operator: Operator, emit: EmitMessage, **of_handler: Any
) -> ProcessContext:
    """The environment of a processor or a stream task, which tells what is `of_handler`."""
    return ProcessContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=reached_by(environment.watermarks, operator.id),
        emit=emit,
        fail=environment.effects.emitter(partial(environment.failures.firing, operator.id)),
        schedule=environment.watermarks.schedule,
        firing=partial(environment.firing, environment.program.graph.node_out[operator.id]),
        pauses=environment.pauses,
        clock=lambda: environment.watermarks.clock,
        clock_fired=environment.clock_fired.get(operator.id, environment.watermarks.clock),
        run=environment.options.run,
        **of_handler,
    )


def _attach_side(environment: StageEnvironment, operator: ops.Side, after: Callable[..., None]) -> dict[str, Any]:
    """Connect the outputs of a processor under a tag to the operators behind the side output."""
    processor = cast("ProcessOperator | StreamTaskOperator", environment.stateful[operator.inputs[0]])
    processor.attach_side(operator.tag.name, environment.effects.emitter(after))
    return {}


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Process: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_process, emits_at_once=if_time_counts
    ),
    ops.Side: KernelKind(write=writes_no_code, define=after_firing, attach=_attach_side),
}
