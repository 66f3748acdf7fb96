"""Hints for failures: what was expected, and what the user can do."""

import inspect
import linecache
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.finite import NotFinite
from ...dsl.origin import Origin
from ...dsl.pipeline import Pipeline
from ...dsl.serde import Serde, WrongKey, untyped_serde, value_serde
from ...planner.flow import known_name
from ...planner.stream_names import intermediate
from ...planner.type_inference import flows, typed_by
from .code.record_sizes import RecordTooLarge
from .code.returned_values import (
    FUNCTIONS,
    ITERATORS,
    AlwaysTrueAnswer,
    UnencodableIdentity,
    UnencodableValue,
    dispose,
)
from .code.source_text import FILE_PREFIX
from .state_cache import LARGEST_KEY, KeyTooLarge
from .stateful_operator import KEYLESS

_CODES = re.compile(r"(?P<does>encode_key|encode|decode|key)(?:_\d+)?\((?P<of>\w+)")

_OTHER_LOOP = re.compile("Event loop is closed|attached to a different loop|bound to a different event loop")
"""What asyncio says of a client that belongs to another loop than the calls."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint. `wrong` is put before the error, if it is not empty. `at` is where the mistake is; None for the
    operator."""

    expected: str = "a function that takes every message"
    remedy: str = "correct the function or the message"
    wrong: str = ""
    at: Origin | None = None


def hint(pipeline: Pipeline, operator: ops.Operator, error: BaseException, users: bool) -> Hint:
    """The hint for an error of an operator. `users` says that the error was raised in the user's code."""
    if isinstance(error, AlwaysTrueAnswer):
        return Hint("True or False, or what is as good as one of them", _to_answer(error.answer))
    if isinstance(error, RecordTooLarge):
        remedy = "make the value smaller" + (f", or {error.limit.remedy}" if error.limit.remedy else "")
        return Hint(f"a record of {error.limit.largest:,} bytes at most: key, value and headers together", remedy)
    if isinstance(error, UnencodableIdentity):
        return Hint(f"a value of type {error.serde}, as declared", "correct the function of by=, or by_type=")
    if isinstance(error, UnencodableValue):
        refused = _of_value(error.value, error.serde, error.stream)
        return _of_number(refused.wrong) if isinstance(error.__cause__, NotFinite) else refused
    if operator.async_call is not None and (of_call := _of_call(error)) is not None:
        return of_call
    if operator.reads is not None and isinstance(error, WrongKey):
        return Hint(f"a key of type {known_name(flows(pipeline)[operator.id].key)}", "correct the key or key=")
    if isinstance(error, KeyTooLarge):
        return Hint(f"a key of {LARGEST_KEY:,} bytes at most", "correct the key; partition_by may give a shorter one")
    if error.args == (KEYLESS,):
        return Hint("a message with a key", "give records keys where they are written, or call partition_by before")
    coded = _coding(error)
    if isinstance(error, NotFinite):
        return _of_number(_of_output(pipeline, operator, coded[1]).wrong if coded is not None else "")
    decodes = coded is not None and coded[0] == "decode"
    if operator.reads is not None and (decodes or (isinstance(error, ValueError) and not users)):
        remedy = "correct the message or value=; of a file, say what its lines are, such as --input-format csv"
        return Hint(f"a value of type {known_name(flows(pipeline)[operator.id].value)}", remedy)
    if decodes:
        return _of_type(pipeline, operator)
    if isinstance(error, msgspec.ValidationError) and not users:
        return _of_state(pipeline, operator)
    if coded is not None and coded[0] == "key":
        return Hint("a key of the type that is declared", "correct the function of the key, or key_type=", "its key: ")
    if coded is not None:
        return _of_output(pipeline, operator, coded[1])
    if isinstance(error, TypeError) and not users:
        return _of_result(operator, str(error))
    if isinstance(error, TypeError) and (state := _STATE.search(str(error))) is not None:
        remedy = "use self.NAME.value" if state[1] == "Value" else "use its items, such as list(self.NAME)"
        return Hint("what the state holds, not the state itself", remedy)
    return Hint()


def _of_call(error: BaseException) -> Hint | None:
    """The hint for an error of an asynchronous call, if it is one that only these have."""
    if isinstance(error, TimeoutError):
        return Hint("a result within the timeout", "look why the call takes so long, or pass a longer timeout=")
    if isinstance(error, RuntimeError) and _OTHER_LOOP.search(str(error)):
        remedy = "make the client by resource(factory), and pass it as resource="
        return Hint("a client that was made in the event loop of the calls", remedy)
    return None


_STATE = re.compile(r"'Bound(Value|List|Map)'")


def _to_answer(answer: Any) -> str:
    if isinstance(answer, Awaitable):
        return "await it in an async_flat_map before"
    if isinstance(answer, ITERATORS):
        return "say what of it counts, such as any(...) or all(...)"
    if isinstance(answer, FUNCTIONS):
        return "call what was returned"
    return "return True or False"


def _of_output(pipeline: Pipeline, operator: ops.Operator, value: Any) -> Hint:
    declared: Any = getattr(operator, "value", None)
    type_ = flows(pipeline)[operator.id].value if declared is None else declared
    by = [] if type_ is UNKNOWN or declared is not None else _declarers(pipeline, [operator])
    serde: Serde[Any] = untyped_serde() if type_ is UNKNOWN else value_serde(type_)
    return _of_value(value, serde.name, _destination(pipeline, operator), by)


def _of_value(value: Any, serde: str, stream: str, by: Sequence[ops.Operator] = ()) -> Hint:
    """The hint for a value that its serde refuses. `by` are the operators that declare its type."""
    dispose(value)
    declared = f"{_declared(by)}," if by else ""
    wrong = f"its value of type {type(value).__name__} cannot be encoded as {serde}{declared} for {stream}: "
    remedy = "return what that type can hold: a dataclass, Struct, TypedDict or builtin; or pass a Serde as value="
    if by:
        remedy = f"{_REMEDY}; or pass a Serde as value="
    if inspect.isawaitable(value):
        remedy = "nobody awaits it: call asynchronous functions with async_flat_map(fn, id=...)"
    elif inspect.isgenerator(value):
        remedy = "call a function that gives several values with flat_map"
    elif isinstance(value, FUNCTIONS):
        remedy = "call the function, so that its result is the value"
    return Hint(f"a value that {serde} can hold", remedy, wrong, _at(by))


def _of_number(wrong: str) -> Hint:
    return Hint(NotFinite.expected, NotFinite.remedy, wrong)


def _of_type(pipeline: Pipeline, operator: ops.Operator) -> Hint:
    """The hint for a value of an intermediate stream that cannot be decoded as the declared type."""
    type_, by = known_name(flows(pipeline)[operator.id].value), _declarers(pipeline, [operator])
    if by == [operator]:
        remedy = "give value= the type of what reaches it, or correct what it is given"
        return Hint(f"a value of type {type_}, as value= says", remedy, f"its value cannot be read as {type_}: ")
    wrong = f"its value cannot be read as {type_}{_declared(by)}: "
    return Hint(f"a value of type {type_}", _REMEDY, wrong, _at(by))


def _of_state(pipeline: Pipeline, operator: ops.Operator) -> Hint:
    """The hint for state that cannot be decoded as the declared type."""
    by = _declarers(pipeline, _holds_values_of(pipeline, operator))
    wrong = f"what it keeps cannot be read back{_declared(by).replace(',', ' as', 1)}: "
    return Hint("values of the types that are declared", _REMEDY, wrong, _at(by))


_REMEDY = "correct what is returned there, or the type that is declared for it"


def _holds_values_of(pipeline: Pipeline, operator: ops.Operator) -> list[ops.Operator]:
    """The operators whose values the state of an operator holds."""
    if operator.is_table or operator.uses_table is not None:
        tables = {operator.id, *operator.inputs}
        return [one for one in pipeline.operators if one.fills in tables]
    if operator.keeps_values:
        return [pipeline.operator(source) for source in operator.inputs]
    return [operator]


def _declarers(pipeline: Pipeline, writers: list[ops.Operator]) -> list[ops.Operator]:
    """The operators that may emit values of another type than they declare: not those that decode their values."""
    declarers = {one.id: one for writer in writers for one in typed_by(pipeline, writer)}
    return [one for one in declarers.values() if not one.decodes_values]


def _declared(by: Sequence[ops.Operator]) -> str:
    names = " and ".join(one.label for one in by)
    return f", the type that {names} {'declares' if len(by) == 1 else 'declare'}" if by else ""


def _at(by: Sequence[ops.Operator]) -> Origin | None:
    return by[0].origin if len(by) == 1 else None


def _of_result(operator: ops.Operator, said: str) -> Hint:
    """The hint for a result of a function that cannot be iterated or awaited."""
    if operator.async_call is not None and "await" in said:
        return Hint("a function whose result can be awaited", "write it with async def")
    if operator.emits == "many" and operator.role != "terminal" and "not iterable" in said:
        return Hint("a function that returns several values, or none", "return a list: [value], or [] for none")
    return Hint()


def _coding(error: BaseException) -> tuple[str, Any] | None:
    """What compiled code was doing when an error was raised: encoding a "key", or to "encode" or "decode" a value; and
    the value to encode. None if it was doing something else."""
    call: tuple[re.Match[str] | None, dict[str, Any]] | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(FILE_PREFIX):
            line, _, begin, end = list(code.co_positions())[trace.tb_lasti // 2]
            # Without column numbers, as under `python -X no_debug_ranges`, there is no text.
            text = "" if line is None or begin is None else linecache.getline(code.co_filename, line)[begin:end]
            call = _CODES.match(text), trace.tb_frame.f_locals
        trace = trace.tb_next
    match, variables = call or (None, {})
    if match is None:
        return None
    if match["does"] == "decode":
        return "decode", None
    return ("key", None) if match["does"] != "encode" else ("encode", variables.get(match["of"]))


def _destination(pipeline: Pipeline, operator: ops.Operator) -> str:
    """Where an operator writes."""
    if operator.is_border:
        return f"the stream {intermediate(pipeline.name, operator.id)}"
    if operator.fills is not None:
        return f"the table {operator.fills}"
    return f"the stream {getattr(operator, 'stream', operator.id)}"
