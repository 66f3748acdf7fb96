"""The kernel's rows of `send_to` and `sink`, which end a code path."""

from collections.abc import Mapping
from typing import Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from .binding import bind_size_check, key_decoder, serde_of
from .row import KernelKind
from .writing import RecordCode, output, record_output


def _output_key(writer: CodeWriter, operator: ops.SendTo, names: Variables) -> str:
    return f"encode_key(f_{writer.number[operator.id]}({names.value}))" if operator.key else names.key


def _output_record(_: CodeWriter, __: CodePath, ___: ops.SendTo, names: Variables, parts: RecordCode) -> str:
    return f"({parts.key}, {parts.value_or_none}, {names.timestamp}, {parts.headers})"


def _sink_message(writer: CodeWriter, _: CodePath, operator: ops.SinkTo, names: Variables) -> str:
    n = writer.number[operator.id]
    key = f"None if {names.key} is None else key_{n}({names.key})"
    return f"Message({key}, {names.value}, {names.timestamp}, {names.headers})"


def _bind_send_to(environment: StageEnvironment, operator: ops.SendTo) -> dict[str, Any]:
    """The list of records for its stream, and the encoder of their values."""
    records = environment.outputs.of(operator.id)
    flow = environment.program.flows[operator.id]
    encode = serde_of(flow.value if operator.value is None else operator.value).encode
    bound = {"out": records.append, "list": records, "release": records.append}
    return {**bound, **bind_size_check(environment, operator), "f": operator.key, "encode": encode}


def _bind_sink(environment: StageEnvironment, operator: ops.SinkTo) -> dict[str, Any]:
    """The list of messages for its sink."""
    messages = environment.outputs.of(operator.id)
    bound = {"out": messages.append, "list": messages, "release": messages.append}
    return {**bound, "key": key_decoder(environment, operator)}


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.SendTo: KernelKind(write=record_output(_output_key, _output_record), bind=_bind_send_to),
    ops.SinkTo: KernelKind(write=output(_sink_message), bind=_bind_sink),
}
