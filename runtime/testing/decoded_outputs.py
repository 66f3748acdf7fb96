"""Decodes the records of a pipeline's outputs and the rows of its tables to the declared types."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import msgspec

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, returned
from ...dsl.errors import MessageError, UsageError
from ...dsl.message import Message, Record
from ...dsl.serde import Serde, key_serde, untyped_serde, value_serde
from ...dsl.validation import explain
from ...planner.flow import Flow
from ...planner.plan import Plan
from ...planner.type_inference import flows, written_flow
from ..local.task import LocalTask

Decode = Callable[[bytes], Any]


_READ_RAW = "correct the annotation of the function before it; records.read() returns the bytes"


class Decoder:
    """Decodes the outputs of a plan. Keys of unknown type, and of several types, stay bytes; see `_value_decoder`."""

    def __init__(self, plan: Plan) -> None:
        known = flows(plan.pipeline)
        self._kinds: dict[str, tuple[Decode, Decode]] = {}
        for stream in plan.streams:
            if stream.kind in ("output", "late"):
                written = [_written(plan.pipeline.operator(writer), known) for writer in stream.written_by]
                keys, values = zip(*written, strict=True)
                self._kinds[stream.name] = _key_decoder(keys), _value_decoder(values)
            elif stream.kind == "dead-letters":
                self._kinds[stream.name] = bytes, bytes

    def check(self, stream: str) -> None:
        """Raise UsageError for a stream that the pipeline does not write."""
        if stream not in self._kinds:
            known = ", ".join(map(repr, self._kinds)) or "none"
            wrong = f"the pipeline writes no stream {stream!r}"
            raise UsageError(explain(wrong, f"one of its outputs: {known}", "read one of them"))

    def messages(self, stream: str, records: Iterable[Record]) -> Iterator[Message[Any]]:
        """The records of a stream as messages. Raises MessageError for a record that cannot be decoded."""
        decode_key, decode_value = self._kinds[stream]
        for key, value, timestamp, headers in records:
            try:
                known = None if key is None else decode_key(key)
                decoded = None if value is None else decode_value(value)
            except Exception as error:
                wrong = f"a message of {stream!r} cannot be read as its declared type: {error}"
                raise MessageError(explain(wrong, "keys and values of the declared types", _READ_RAW)) from error
            yield Message(known, decoded, timestamp, headers)


def rows_of(plan: Plan, table: str, tasks: Iterable[LocalTask]) -> dict[Any, Any]:
    """The rows of all tasks, by decoded key. Raises UsageError where the pipeline has no table of this id."""
    known = [operator.id for operator in plan.pipeline.operators if operator.is_table]
    if table not in known:
        listed = ", ".join(map(repr, known)) or "none"
        remedy = "name one of them; a window, a processor or a remote table is no table"
        raise UsageError(
            explain(f"the pipeline has no table {table!r}", f"the id of one of its tables: {listed}", remedy)
        )
    decode = key_serde(flows(plan.pipeline)[table].key).decode
    return {decode(key): row for task in tasks for key, row in task.view.rows_of(table)}


def _written(writer: ops.Operator, known: Mapping[str, Flow]) -> tuple[Any, Any]:
    """The types of the keys and values that an operator writes."""
    flow = written_flow(writer, known)
    new_key = writer.key if isinstance(writer, ops.SendTo) else None
    return flow.key if new_key is None else returned(new_key), flow.value


def _key_decoder(declared: Sequence[Any]) -> Decode:
    type_ = declared[0]
    if type_ is None or type_ is UNKNOWN or any(other != type_ for other in declared):
        return bytes
    try:
        return key_serde(type_).decode
    except TypeError:  # an annotation that is no type of a key, such as `str | None`
        return bytes


def _value_decoder(declared: Sequence[Any]) -> Decode:
    """What decodes values that operators write as these types or Serdes.

    Where they differ, a value does not tell its type. JSON is decoded as the union of the types if msgspec can tell
    them apart, such as `int | str` and tagged Structs, else as what JSON holds: dicts, lists, text, numbers. Beside
    text, which is written as it is, all is text. What a Serde or `bytes` writes beside other types stays bytes.
    """
    several: list[Any] = []
    for type_ in declared:
        if not any(_alike(type_, other) for other in several):
            several.append(type_)
    if len(several) == 1:
        return _serde(several[0]).decode
    if bytes in several or any(isinstance(type_, Serde) for type_ in several):
        return bytes
    if str in several:
        return bytes.decode
    types = tuple(Any if type_ is UNKNOWN else type_ for type_ in several)
    try:
        return msgspec.json.Decoder(Union[types]).decode  # noqa: UP007 - of as many as there are
    except (TypeError, NotImplementedError):
        return untyped_serde().decode


def _alike(one: Any, other: Any) -> bool:
    """Whether two types or Serdes decode alike. Serdes of one name and type do, though two calls made them."""
    if isinstance(one, Serde) and isinstance(other, Serde):
        return (one.name, one.type) == (other.name, other.type)
    return bool(one == other)


def _serde(type_: Any) -> Serde[Any]:
    return untyped_serde() if type_ is UNKNOWN else value_serde(type_)
