"""The kernel's rows of processors and of their side outputs, which are operators of their own."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ....dsl.serde import key_serde
from ..environment import StageEnvironment
from ..operators.processor import ProcessContext, ProcessOperator
from ..stateful_operator import StatefulOperator
from ..time.operator_watermarks import reached_by
from .row import KernelKind, if_time_counts, writes_no_code
from .writing import after_firing, write_stateful


def _make_process(environment: StageEnvironment, operator: ops.Process, emit: Callable[..., None]) -> StatefulOperator:
    """Make the processor of an operator, with its state and timers."""
    graph = environment.program.graph
    context = ProcessContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=reached_by(environment.watermarks, operator.id),
        processor=operator.processor,
        decode_key=key_serde(environment.program.flows[operator.inputs[0]].key).decode,
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, operator.id)),
        schedule=environment.watermarks.schedule,
        firing=partial(environment.firing, graph.node_out[operator.id]),
        pauses=environment.pauses,
        clock=lambda: environment.watermarks.clock,
        clock_fired=environment.clock_fired.get(operator.id, environment.watermarks.clock),
        run=environment.run,
    )
    processor = ProcessOperator(context)
    if processor.fire_clock_timers is not None:
        environment.clock_users.append(operator.id)
        environment.watermarks.clock_users.attach(operator.id, processor.due, processor.fire_clock_timers)
    return processor


def _attach_side(environment: StageEnvironment, operator: ops.Side, after: Callable[..., None]) -> dict[str, Any]:
    """Connect the outputs of a processor under a tag to the operators behind the side output."""
    processor = cast("ProcessOperator", environment.stateful[operator.inputs[0]])
    processor.sides[operator.tag.name] = environment.effects.emitter(after)
    return {}


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Process: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_process, emits_at_once=if_time_counts
    ),
    ops.Side: KernelKind(write=writes_no_code, define=after_firing, attach=_attach_side),
}
