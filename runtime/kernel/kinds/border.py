"""What the kernel does at borders: the code of the records of an intermediate stream, with watermarks behind values."""

from collections.abc import Mapping
from typing import Any

from ....dsl import operators as ops
from ....dsl.operators import Operator
from ....dsl.serde import key_encoder, value_serde
from ....planner.flow import plain
from ..code.code_writer import CodeWriter
from ..code.source_text import CodePath, Variables
from ..environment import StageEnvironment
from ..partial_aggregates import LEAST_LIMIT, Combiner
from ..time.border_watermarks import pack_trailer, with_trailer
from .binding import bind_size_check
from .row import KernelKind
from .writing import RecordCode, output, record_output, watermark_at


def _new_key(writer: CodeWriter, operator: ops.PartitionBy, names: Variables) -> str:
    n = writer.number[operator.id]
    return f"key_{n}(f_{n}({names.value}))"


def _kept_key(_: CodeWriter, __: ops.Broadcast, names: Variables) -> str:
    return names.key


def _border_record(writer: CodeWriter, path: CodePath, operator: Operator, names: Variables, parts: RecordCode) -> str:
    """The expression of a record for an intermediate stream. The record of a message in flight gets its trailer when it
    is released."""
    key, rest = parts.key, f"{names.timestamp}, {parts.headers}"
    if not writer.trailers or path.tracked:
        return f"({key}, {parts.value_or_none}, {rest})"
    trailer = f"pack_trailer(producer, {watermark_at(writer, path, operator)})"
    whole = f"({key}, {parts.value} + {trailer}, {rest})"
    return f"{whole} if {parts.present} is not None else with_trailer(({key}, None, {rest}), {trailer})"


def _bind_border(environment: StageEnvironment, operator: ops.Border) -> dict[str, Any]:
    """The list of records for the next stage, and the encoder of their values."""
    records = environment.outputs.of(operator.id)
    node, now, producer = environment.node_in(operator.id), environment.watermarks.now, environment.options.producer
    program = environment.program

    def release(record: Any) -> None:
        records.append(with_trailer(record, pack_trailer(producer, now[node])))

    encode = value_serde(program.flows[operator.id].value).encode
    bound = {"out": records.append, "list": records, "release": release if program.trailers else records.append}
    return {**bound, **bind_size_check(environment, operator), "encode": encode}


_write_record = record_output(_new_key, _border_record)


def _write_partition_by(
    writer: CodeWriter, path: CodePath, operator: ops.PartitionBy, names: Variables, depth: int
) -> None:
    if operator.id in writer.graph.combining:
        output(_partial)(writer, path, operator, names, depth)
    else:
        _write_record(writer, path, operator, names, depth)


def _partial(writer: CodeWriter, path: CodePath, operator: ops.PartitionBy, names: Variables) -> str:
    """The expression of a partial aggregate. That of a message in flight gets its watermark when it is released."""
    watermark = watermark_at(writer, path, operator) if writer.trailers and not path.tracked else "None"
    key = _new_key(writer, operator, names)
    return f"item_{writer.number[operator.id]}({key}, {names.value}, {names.timestamp}, {names.headers}, {watermark})"


def _bind_partition_by(environment: StageEnvironment, operator: ops.PartitionBy) -> dict[str, Any]:
    """The function and the encoder of the key, and the objects of a border."""
    bound = {**_bind_border(environment, operator), "f": operator.fn, "key": key_encoder(operator.key)}
    reader = environment.program.graph.combining.get(operator.id)
    return bound if reader is None else {**bound, **_bind_combiner(environment, operator, reader, bound)}


def _bind_combiner(
    environment: StageEnvironment, operator: ops.PartitionBy, reader: Operator, bound: dict[str, Any]
) -> dict[str, Any]:
    """What makes partial aggregates of messages, and what passes on those of messages that were in flight."""
    type_ = plain(environment.program.flows[operator.id].value)
    records, now = environment.outputs.of(operator.id), environment.watermarks.now
    node, trailers = environment.node_in(operator.id), environment.program.trailers
    partials = reader.takes_partials
    combiner = Combiner(
        partials.aggregate,
        partials.aggregate.state(type_),
        partials.span,
        value_serde(type_),
        bound.get("check_size"),
        environment.options.producer if trailers else None,
        records,
    )
    limit = environment.program.limits.get(operator.id)
    if limit is not None and limit.largest < LEAST_LIMIT:
        combiner.send_alone()
    environment.outputs.finishes(operator.id, combiner.records)

    def release(item: Any) -> None:
        records.append(combiner.released(item, now[node] if trailers else None))

    return {"item": combiner.item, "release": release}


ROWS: Mapping[type[Operator], KernelKind] = {
    ops.PartitionBy: KernelKind(write=_write_partition_by, bind=_bind_partition_by),
    ops.Broadcast: KernelKind(write=record_output(_kept_key, _border_record), bind=_bind_border),
}
