"""Checks of annotations against the types that flow: a function gets what it is annotated to take, and an output what
it declares. Certain contradictions alone are refused: of plain builtins and dataclasses."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import isclass
from typing import Any, get_args, get_origin, is_typeddict

import msgspec

from ..dsl import operators as ops
from ..dsl.annotations import UNKNOWN, contradicts, element_type, is_decorated, message_value, taken
from ..dsl.errors import PlanError
from ..dsl.operators.labels import function_name
from ..dsl.pipeline import Pipeline
from ..dsl.processor import Context, KeyedProcessor
from ..dsl.serde import type_name
from ..dsl.validation import explain
from .flow import Flow
from .kinds.process import arguments_of
from .type_inference import typed_by


def check_annotations(pipeline: Pipeline, flows: Mapping[str, Flow]) -> None:
    """Refuse a function that is annotated to take other values than it gets, and an output of another type."""
    for operator in pipeline.operators:
        if not operator.inputs or not _is_certain(pipeline, operator.inputs[0]):
            continue
        given = flows[operator.inputs[0]].value
        for fn in _functions(operator):
            _check_taken(operator, fn, given, taken(fn))
        if isinstance(operator, ops.Process):
            on_message = operator.processor.on_message
            _check_taken(operator, on_message, given, message_value(taken(on_message)))
        if isinstance(operator, ops.SendTo):
            _check_sent(operator, given)
    for operator in pipeline.operators:
        for name, wanted in _of_keys(operator):
            _check_key(operator, name, flows[operator.inputs[0]].key, wanted)


def _is_certain(pipeline: Pipeline, source: str) -> bool:
    """Whether no decorator may have changed what the annotations say of an operator's values."""
    declaring = typed_by(pipeline, pipeline.operator(source))
    return not any(is_decorated(getattr(operator.async_call or operator, "fn", None)) for operator in declaring)


def _functions(operator: ops.Operator) -> Iterator[Callable[..., Any]]:
    """The functions that an operator calls with a value of its input alone."""
    if isinstance(operator, ops.Map | ops.Filter | ops.FlatMap | ops.PartitionBy):
        yield operator.fn
    if isinstance(operator, ops.Split):
        yield from operator.predicates
    if isinstance(operator, ops.Deduplicate) and operator.by is not None:
        yield operator.by


def _of_keys(operator: ops.Operator) -> Iterator[tuple[str, Any]]:
    """What an operator gives keys of its input, and the type that it is annotated to take."""
    if isinstance(operator, ops.Process):
        processor = operator.processor
        declared = (arguments_of(type(processor), KeyedProcessor) or (UNKNOWN,))[0]
        yield type(processor).__name__, declared
        context = taken(processor.on_message, 1)
        yield "on_message", get_args(context)[0] if get_origin(context) is Context else UNKNOWN
    if isinstance(operator, ops.JoinRemote | ops.PutRemote):
        fn, batch = operator.call.fn, operator.table.batch
        type_ = taken(fn)
        is_rows = batch is not None and isinstance(operator, ops.PutRemote)
        yield (
            function_name(fn),
            (get_args(type_) or (UNKNOWN,))[0] if is_rows else element_type(type_) if batch else type_,
        )


def _check_key(operator: ops.Operator, fn: str, given: Any, wanted: Any) -> None:
    if contradicts(given, wanted):
        wrong = f"{operator.label} gets keys of type {type_name(given)}, and {fn} takes {type_name(wanted)}"
        remedy = "correct the annotation, or the key of the stream"
        raise PlanError(explain(wrong, "what takes the keys of the stream", remedy, operator.origin))


def _check_taken(operator: ops.Operator, fn: Callable[..., Any], given: Any, wanted: Any) -> None:
    if contradicts(given, wanted):
        wrong = f"{operator.label} gets {type_name(given)}, and {function_name(fn)} takes {type_name(wanted)}"
        remedy = "correct the annotation, or the type of what comes before it"
        raise PlanError(explain(wrong, "a function that takes the values of the stream", remedy, operator.origin))


def lacks(given: Any, wanted: Any) -> str | None:
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


_BY_NAME = (msgspec.inspect.DataclassType, msgspec.inspect.StructType, msgspec.inspect.TypedDictType)


def _is_array(type_: Any) -> bool:
    return bool(getattr(type_, "array_like", False))


def _check_sent(operator: ops.SendTo, given: Any) -> None:
    lacking = lacks(given, operator.value)
    if lacking is not None:
        wrong = (
            f"{operator.label} gets {type_name(given)}, which has no {lacking!r}, and value={type_name(operator.value)}"
        )
        remedy = "correct value=, or turn the values into others with map"
        expected = "values with all fields of the declared type that have no default"
        raise PlanError(explain(wrong, expected, remedy, operator.origin))
    # JSON writes one dataclass as it writes another with the same fields.
    if contradicts(given, operator.value) and not (is_dataclass(given) and is_dataclass(operator.value)):
        wrong = f"{operator.label} gets {type_name(given)}, and value={type_name(operator.value)}"
        remedy = "correct value=, or the annotation of the function before; or turn the values into others with map"
        raise PlanError(explain(wrong, "values of the declared type", remedy, operator.origin))
