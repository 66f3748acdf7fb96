"""The kernel's row of `deduplicate`: the identity of a message is computed in the code, and its state decides whether
the message passes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ....dsl.serde import key_encoder, key_serde
from ..code.returned_values import UnencodableIdentity
from ..environment import StageEnvironment
from ..operators.deduplicate import DeduplicateContext, DeduplicateOperator
from ..stateful_operator import StatefulOperator
from ..time.operator_watermarks import reached_by
from .binding import count_in
from .row import KernelKind, if_time_counts
from .writing import after_firing, write_stateful


def _make_deduplicate(
    environment: StageEnvironment, operator: ops.Deduplicate, emit: Callable[..., None]
) -> StatefulOperator:
    """Make the deduplication of an operator."""
    context = DeduplicateContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=reached_by(environment.watermarks, operator.id),
        within=operator.within,
        identity=None if operator.by is None else _identity_by(operator.by, operator.by_type),
        emit=environment.effects.emitter(emit),
        late=partial(count_in, environment.counts.late, operator.id),
        schedule=environment.watermarks.schedule,
    )
    return DeduplicateOperator(context)


def _identity_by(by: Callable[[Any], Any], type_: Any) -> Callable[[Any], bytes]:
    """A function that returns, as bytes, what the function of `by=` returns for a value."""
    encode, serde = key_encoder(type_), key_serde(type_).name

    def identity(value: Any) -> bytes:
        answer = by(value)
        try:
            data = encode(answer)
        except Exception as error:
            raise UnencodableIdentity(answer, serde) from error
        if data is None:
            raise UnencodableIdentity(answer, serde)
        return data

    return identity


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.Deduplicate: KernelKind(
        write=write_stateful, define=after_firing, make_state=_make_deduplicate, emits_at_once=if_time_counts
    ),
}
