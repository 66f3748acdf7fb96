"""Objects that the compiled code of several kinds of operators uses."""

from collections.abc import Callable
from typing import Any, cast

from ....dsl import operators as ops
from ....dsl.annotations import UNKNOWN
from ....dsl.serde import Serde, key_serde, untyped_serde, value_serde
from ..code.record_sizes import CheckSize, size_check
from ..environment import StageEnvironment
from ..operators.tables import TableOperator


def bind_function(_: StageEnvironment, operator: Any) -> dict[str, Any]:
    """The user's function of an operator, which the code calls `f`."""
    return {"f": operator.fn}


def bind_key(environment: StageEnvironment, operator: ops.Operator) -> dict[str, Any]:
    """The decoder of keys of an operator whose function is given the key, which the code calls `key`."""
    return {"key": key_decoder(environment, operator)}


def key_decoder(environment: StageEnvironment, operator: ops.Operator) -> Callable[[bytes], Any]:
    """The decoder of an operator's input keys."""
    type_ = environment.program.flows[operator.inputs[0]].key
    return bytes if type_ is None else key_serde(type_).decode


def serde_of(type_: Any) -> Serde[Any]:
    """The serde of values of a type, which may be unknown."""
    return untyped_serde() if type_ is UNKNOWN else value_serde(type_)


def bind_size_check(environment: StageEnvironment, operator: Any) -> dict[str, Any]:
    """The check of the size of the records that an operator writes, which the code calls `check_size`; nothing where
    their stream has no limit."""
    check = size_check_of(environment, operator.id)
    return {} if check is None else {"check_size": check}


def size_check_of(environment: StageEnvironment, id: str) -> CheckSize | None:
    """The check of the size of the records that an operator writes; None where their stream has no limit."""
    program = environment.program
    limit = program.limits.get(id)
    return None if limit is None else size_check(program.plan.operator(id).writes[0], limit)


def schedule_of(environment: StageEnvironment, operator: ops.Operator) -> Callable[[int], None]:
    """A function that asks for `advance` at a watermark. In processing time the clock calls it anyway."""
    return (lambda _: None) if operator.time_domain == "processing" else environment.watermarks.schedule


def count_in(counts: dict[str, int], id: str) -> None:
    """Add one to the count of an operator."""
    counts[id] = counts.get(id, 0) + 1


def table_of(environment: StageEnvironment, id: str) -> TableOperator:
    """The state of a table, in the same task as the operator that uses it."""
    return cast("TableOperator", environment.stateful[id])
