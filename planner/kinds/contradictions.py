"""What an operator is given, and what those take that it hands it to: a contradiction is known of plain builtins and
dataclasses alone. Rows of the planner's table list their own; `annotation_checks` raises the first one that counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from inspect import isclass
from typing import Any, is_typeddict

import msgspec

from ...dsl import operators as ops
from ...dsl.annotations import contradicts, is_plain, message_value, taken
from ...dsl.operators.labels import function_name
from ...dsl.serde import type_name
from ..flow import Flow

CORRECT = "correct the annotation, or the type of what comes before it"
_BY_NAME = (msgspec.inspect.DataclassType, msgspec.inspect.StructType, msgspec.inspect.TypedDictType)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What does not suit an operator: the parts of the error. `source` is the input whose values it is about; where the
    annotations before that may be another function's, it does not count. None where it counts always."""

    wrong: str
    expected: str
    remedy: str
    source: int | None = 0


def nothing_taken(_: ops.Operator, __: list[Flow]) -> Iterator[Contradiction]:
    """The `contradictions` of a kind that hands its values to nobody whose annotations could tell what they take."""
    return iter(())


def of_function(operator: Any, inputs: list[Flow]) -> Iterator[Contradiction]:
    """The `contradictions` of a kind whose `fn` is called with each value."""
    return taking(operator, function_name(operator.fn), taken(operator.fn), inputs)


def of_messages(operator: Any, inputs: list[Flow]) -> Iterator[Contradiction]:
    """The `contradictions` of a kind whose `fn` is called with each message."""
    return taking(operator, function_name(operator.fn), message_value(taken(operator.fn)), inputs)


def taking(
    operator: ops.Operator, taker: str, wanted: Any, inputs: list[Flow], source: int = 0
) -> Iterator[Contradiction]:
    """That something takes other values than those of an input."""
    given = inputs[source].value
    if contradicts(given, wanted):
        wrong = f"{operator.label} gets {type_name(given)}, and {taker} takes {type_name(wanted)}"
        yield Contradiction(wrong, "a function that takes the values of the stream", CORRECT, source)


def taking_keys(operator: ops.Operator, taker: str, wanted: Any, inputs: list[Flow]) -> Iterator[Contradiction]:
    """That something takes other keys than those of the first input."""
    given = inputs[0].key
    if contradicts(given, wanted):
        wrong = f"{operator.label} gets keys of type {type_name(given)}, and {taker} takes {type_name(wanted)}"
        remedy = "correct the annotation, or the key of the stream"
        yield Contradiction(wrong, "what takes the keys of the stream", remedy, None)


def taking_sides(
    operator: ops.Operator, fn: Callable[..., Any], given: tuple[Any, Any], how: str
) -> Iterator[Contradiction]:
    """That the function of a join takes other rows than those of its sides, or has no room for one that is missing."""
    may_lack = {"inner": (False, False), "left": (False, True), "outer": (True, True)}[how]
    for index, (type_, lacks_some) in enumerate(zip(given, may_lack, strict=True)):
        wanted, side = taken(fn, index), ("left", "right")[index]
        if contradicts(type_, wanted):
            wrong = f"{operator.label} gives {type_name(type_)} as its {side} side"
            wrong += f", and {function_name(fn)} takes {type_name(wanted)}"
            source = index if index < len(operator.inputs) else None
            yield Contradiction(wrong, "a function that takes the rows of both sides", CORRECT, source)
        if lacks_some and is_plain(wanted):
            wrong = f'{operator.label} gives None for a {side} row that is missing, by how="{how}"'
            wrong += f", and {function_name(fn)} takes {type_name(wanted)}"
            remedy = f'annotate it as {type_name(wanted)} | None, or write how="inner"'
            yield Contradiction(wrong, "a function that takes None there", remedy, None)


def of_output(operator: Any, inputs: list[Flow]) -> Iterator[Contradiction]:
    """The `contradictions` of a kind that writes values as its `value=` says."""
    given, declared = inputs[0].value, operator.value
    lacking = _lacks(given, declared)
    if lacking is not None:
        wrong = f"{operator.label} gets {type_name(given)}, which has no {lacking!r}, and value={type_name(declared)}"
        remedy = "correct value=, or turn the values into others with map"
        yield Contradiction(wrong, "values with all fields of the declared type that have no default", remedy)
    # JSON writes one dataclass as it writes another with the same fields.
    elif contradicts(given, declared) and not (is_dataclass(given) and is_dataclass(declared)):
        wrong = f"{operator.label} gets {type_name(given)}, and value={type_name(declared)}"
        remedy = "correct value=, or the annotation of the function before; or turn the values into others with map"
        yield Contradiction(wrong, "values of the declared type", remedy)


def _lacks(given: Any, wanted: Any) -> str | None:
    """A field without default of the class `wanted` that no value of the class `given` is written with; None where that
    is not certain: a TypedDict may have more keys than it says, a derived class more fields."""
    if not (isclass(given) and isclass(wanted)) or is_typeddict(given):
        return None
    if not is_typeddict(wanted) and issubclass(wanted, given):
        return None
    try:
        written, read = msgspec.inspect.multi_type_info((given, wanted))
    except Exception:  # what msgspec does not know, or an annotation that is no type
        return None
    if not (isinstance(written, _BY_NAME) and isinstance(read, _BY_NAME)) or _is_array(written) or _is_array(read):
        return None
    names = {field.encode_name for field in written.fields}
    if is_dataclass(given):  # those that its __init__ does not take are written, too
        names |= {field.name for field in fields(given)}
    return next((field.name for field in read.fields if field.required and field.encode_name not in names), None)


def _is_array(type_: Any) -> bool:
    return bool(getattr(type_, "array_like", False))
