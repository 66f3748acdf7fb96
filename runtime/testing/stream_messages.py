"""Reads any stream of a plan as messages: inputs, outputs, and streams between stages."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...dsl import operators as ops
from ...dsl.message import Message, Record
from ...dsl.serde import key_serde, value_serde
from ...planner.plan import Plan
from ...planner.stream_names import intermediate
from ...planner.type_inference import flows
from ..kernel.time.border_watermarks import TRAILER_SIZE, without_trailer
from .decoded_outputs import Decode, Decoder

Reader = Callable[[Iterable[Record]], Iterator[Message[Any]]]
"""Turns records of a stream into messages, without the control messages of Fluvial."""


def readers(plan: Plan) -> dict[str, Reader]:
    """A reader for each stream of a plan, in the order of the plan. Values of unknown type stay bytes."""
    known = flows(plan.pipeline)
    known_readers: dict[str, Reader] = {}
    for source in plan.pipeline.sources:
        known_readers[source.stream] = _input(source)
    for border in plan.pipeline.borders:
        flow = known[border.id]
        decode = bytes if flow.key is None else key_serde(flow.key).decode, value_serde(flow.value).decode
        known_readers[intermediate(plan.name, border.id)] = _border(*decode)
    outputs = Decoder(plan)
    unknown: dict[str, Reader] = {"source": _raw, "intermediate": _border(bytes, bytes)}
    return {
        stream.name: known_readers.get(stream.name) or unknown.get(stream.kind) or _output(outputs, stream.name)
        for stream in plan.streams
    }


def _raw(records: Iterable[Record]) -> Iterator[Message[Any]]:
    return (Message(*record) for record in records)


def _input(source: ops.Source) -> Reader:
    """Messages as the pipeline sees them: with the timestamp that `timestamp=` returns."""
    decode_key = bytes if source.key is None else key_serde(source.key).decode
    decode_value, time_of = value_serde(source.value).decode, source.timestamp

    def read(records: Iterable[Record]) -> Iterator[Message[Any]]:
        for record in records:
            message = _decoded(record, decode_key, decode_value)
            time = _tried(time_of, message.value, message.timestamp) if time_of else message.timestamp
            yield Message(message.key, message.value, time, message.headers)

    return read


def _border(decode_key: Decode, decode_value: Decode) -> Reader:
    def read(records: Iterable[Record]) -> Iterator[Message[Any]]:
        for record in records:
            if not _is_control(record):
                yield _decoded(without_trailer(record), decode_key, decode_value)

    return read


def _is_control(record: Record) -> bool:
    _, value, _, headers = record
    return value is None and len(headers[-1][1]) != TRAILER_SIZE


def _output(outputs: Decoder, stream: str) -> Reader:
    return lambda records: outputs.messages(stream, records)


def _decoded(record: Record, decode_key: Decode, decode_value: Decode) -> Message[Any]:
    """A record as a message. A key or value that cannot be decoded stays bytes."""
    key, value, timestamp, headers = record
    known = None if key is None else _tried(decode_key, key, key)
    return Message(known, None if value is None else _tried(decode_value, value, value), timestamp, headers)


def _tried(fn: Callable[[Any], Any], value: Any, otherwise: Any) -> Any:
    """The result of a user's function, or `otherwise` where it fails: the pipeline itself reports the failure."""
    try:
        return fn(value)
    except Exception:
        return otherwise
