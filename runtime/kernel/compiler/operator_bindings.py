"""The objects that the compiled code of each kind of operator uses: its functions, its state, its calls."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ....dsl import operators as ops
from ....dsl.annotations import UNKNOWN
from ....dsl.message import Headers
from ....dsl.serde import Serde, key_encoder, key_serde, untyped_serde, value_serde
from ....dsl.windows import Hopping, Session, Tumbling, Unbounded
from ....planner.flow import plain
from ..operators.deduplicate import DeduplicateContext, DeduplicateOperator
from ..operators.interval_join import JoinOperator
from ..operators.join_context import JoinContext
from ..operators.latest_join import LatestJoinOperator
from ..operators.processor import ProcessContext, ProcessOperator
from ..operators.remote_tables import joined, put
from ..operators.tables import TableContext, TableOperator, joined_row
from ..stateful_operator import StatefulOperator
from ..time.border_watermarks import pack_trailer, with_trailer
from ..time.bounds import START
from ..windows.context import WindowContext
from ..windows.sessions import SessionOperator
from ..windows.triggered import TriggeredWindowOperator
from ..windows.triggered_sessions import TriggeredSessionOperator
from ..windows.triggers import AT_ONCE, NEVER
from ..windows.tumbling import TumblingOperator
from .returned_values import UnencodableIdentity, UnencodableValue

if TYPE_CHECKING:
    from .environment import StageEnvironment

_WINDOWS: Mapping[Any, Any] = {
    Tumbling: lambda context, by: TumblingOperator(context, by.size),
    Hopping: lambda context, by: TriggeredWindowOperator(context, by, NEVER, AT_ONCE),
    Session: lambda context, by: SessionOperator(context, by.gap),
    Unbounded: lambda context, by: TriggeredWindowOperator(context, by, NEVER, AT_ONCE),
}

_TRIGGERED: Mapping[Any, Any] = {
    Tumbling: TriggeredWindowOperator,
    Hopping: TriggeredWindowOperator,
    Session: lambda context, by, early, late: TriggeredSessionOperator(context, by.gap, early, late),
    Unbounded: TriggeredWindowOperator,
}
"""Windows with triggers."""


def make_window(environment: "StageEnvironment", operator: ops.WindowBy, emit: Callable[..., None]) -> StatefulOperator:
    """The windows of an operator, by what it is to do: with triggers or without, as its assigner says."""
    flow = environment.program.flows[operator.inputs[0]]
    node = environment.program.graph.node_out[operator.id]
    watermark, lateness = environment.watermarks.now[node], operator.lateness
    in_processing_time = operator.time_domain == "processing"
    context = WindowContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=watermark,
        forgotten=START if in_processing_time else environment.lateness.forgotten(operator.id, lateness, watermark),
        aggregate=operator.aggregate,
        state_type=operator.aggregate.state(plain(flow.value)),
        decode_key=key_serde(flow.key).decode,
        lateness=lateness,
        accumulate=operator.accumulate,
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, operator.id)),
        late=_late(environment, operator, flow.value),
        schedule=_schedule(environment, operator),
        firing=partial(environment.firing, node),
        hand_over_if_many=environment.outputs.hand_over_if_many,
    )
    window: StatefulOperator
    if operator.trigger is None and operator.late_trigger is None:
        window = _WINDOWS[type(operator.assigner)](context, operator.assigner)
    else:
        triggers = (operator.trigger or NEVER, operator.late_trigger or AT_ONCE)
        window = _TRIGGERED[type(operator.assigner)](context, operator.assigner, *triggers)
    return window


def attach_calls(
    environment: "StageEnvironment", operator: ops.AsyncFlatMap, after: Callable[..., None]
) -> dict[str, Any]:
    """The pool that makes the calls of an operator."""
    pool = environment.pools[operator.id] = environment.make_pool(operator, after)
    return {"submit": pool.submit}


def attach_lookups(
    environment: "StageEnvironment", operator: ops.JoinRemote, after: Callable[..., None]
) -> dict[str, Any]:
    """The same for calls that read rows of a remote table."""
    look_up = joined(environment.program.remote(operator.table), operator.joined, operator.how)
    return attach_calls(environment, replace(operator, fn=look_up), after)


def attach_writes(
    environment: "StageEnvironment", operator: ops.PutRemote, after: Callable[..., None]
) -> dict[str, Any]:
    """The same for calls that write rows of a remote table."""
    return attach_calls(environment, replace(operator, fn=put(environment.program.remote(operator.table))), after)


def attach_side(environment: "StageEnvironment", operator: ops.Side, after: Callable[..., None]) -> dict[str, Any]:
    """Hands what its processor emits under a tag to what follows."""
    processor = cast("ProcessOperator", environment.stateful[operator.inputs[0]])
    processor.sides[operator.tag.name] = environment.effects.emitter(after)
    return {}


def _schedule(environment: "StageEnvironment", operator: ops.Operator) -> Callable[[int], None]:
    """Asks for `advance` at a watermark; what goes by the clock need not ask."""
    return (lambda _: None) if operator.time_domain == "processing" else environment.watermarks.schedule


def _late(
    environment: "StageEnvironment", operator: ops.WindowBy, kind: Any
) -> Callable[[bytes, Any, int, Headers], None]:
    """What happens to a message that comes too late for a window: it is counted, and sent on if there is somewhere."""
    serde, name = _serde(kind), f"the stream {operator.late_to}"
    records = environment.outputs.of(operator.id)
    counts, id, send = environment.counts.late, operator.id, operator.late_to is not None

    def late(key: bytes, value: Any, timestamp: int, headers: Headers) -> None:
        counts[id] = counts.get(id, 0) + 1
        if send:
            try:
                records.append((key, None if value is None else serde.encode(value), timestamp, headers))
            except Exception as error:
                raise UnencodableValue(value, name, serde.name, error) from error

    return late


def make_join(
    environment: "StageEnvironment", operator: ops.JoinStreams, emit: Callable[..., None]
) -> StatefulOperator:
    """The rows that a join of streams keeps."""
    graph, id = environment.program.graph, operator.id
    serdes = [_serde(environment.program.flows[source].value) for source in operator.inputs]
    context = JoinContext(
        id=id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=environment.watermarks.reached_by(id),
        within=operator.within,
        alone=(operator.how != "inner", operator.how == "outer"),
        fn=operator.fn,
        encode=(serdes[0].encode, serdes[1].encode),
        decode=(serdes[0].decode, serdes[1].decode),
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, id)),
        late=partial(_count, environment.counts.late, id),
        schedule=_schedule(environment, operator),
        firing=partial(environment.firing, graph.node_out[id]),
    )
    return JoinOperator(context) if operator.retain == "all" else LatestJoinOperator(context)


def make_deduplicate(
    environment: "StageEnvironment", operator: ops.Deduplicate, emit: Callable[..., None]
) -> StatefulOperator:
    """The times of the messages that an operator has passed on."""
    context = DeduplicateContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=environment.watermarks.reached_by(operator.id),
        within=operator.within,
        name=None if operator.by is None else _name_by(operator.by, operator.by_type),
        emit=environment.effects.emitter(emit),
        late=partial(_count, environment.counts.late, operator.id),
        schedule=environment.watermarks.schedule,
    )
    return DeduplicateOperator(context)


def _name_by(by: Callable[[Any], Any], kind: Any) -> Callable[[Any], bytes]:
    """A function that gives the bytes of what a function of the user's returns for a value."""
    encode, serde = key_encoder(kind), key_serde(kind).name

    def name(value: Any) -> bytes:
        answer = by(value)
        try:
            data = encode(answer)
        except Exception as error:
            raise UnencodableIdentity(answer, serde) from error
        if data is None:
            raise UnencodableIdentity(answer, serde)
        return data

    return name


def make_process(environment: "StageEnvironment", operator: ops.Process, emit: Callable[..., None]) -> StatefulOperator:
    """The processor of an operator, and what that keeps."""
    graph = environment.program.graph
    context = ProcessContext(
        id=operator.id,
        backend=environment.backend,
        empty=environment.empty,
        watermark=environment.watermarks.reached_by(operator.id),
        processor=operator.processor,
        decode_key=key_serde(environment.program.flows[operator.inputs[0]].key).decode,
        emit=environment.effects.emitter(emit),
        fail=environment.effects.emitter(partial(environment.failures.firing, operator.id)),
        schedule=environment.watermarks.schedule,
        firing=partial(environment.firing, graph.node_out[operator.id]),
        clock=lambda: environment.watermarks.clock,
        clock_fired=environment.clock_fired.get(operator.id, environment.watermarks.clock),
        run=environment.run,
    )
    processor = ProcessOperator(context)
    if processor.fire_clock_timers is not None:
        environment.clock_users.append(operator.id)
        environment.watermarks.attach_clock(processor.due, processor.fire_clock_timers)
    return processor


def make_table(
    environment: "StageEnvironment", operator: ops.TableOf, emit: Callable[..., None] | None
) -> TableOperator:
    """A table of rows as they are sent to it."""
    tell = None if emit is None else environment.effects.emitter(emit)
    decode, keyless = value_serde(operator.value).decode, partial(_count, environment.counts.keyless, operator.id)
    return TableOperator(
        TableContext(operator.id, environment.backend, environment.empty, decode, tell, keyless=keyless)
    )


def _count(counts: dict[str, int], id: str) -> None:
    counts[id] = counts.get(id, 0) + 1


def make_joined_tables(
    environment: "StageEnvironment", operator: ops.JoinTables, emit: Callable[..., None] | None
) -> TableOperator:
    """A table of the rows that two others have together."""
    serde = value_serde(environment.program.flows[operator.id].value)
    tell = None if emit is None else environment.effects.emitter(emit)
    left, right = (_table(environment, id).row for id in operator.inputs)
    joined = joined_row(left, right, operator.fn, operator.how, serde.encode)
    return TableOperator(TableContext(operator.id, environment.backend, environment.empty, serde.decode, tell, joined))


def _table(environment: "StageEnvironment", id: str) -> TableOperator:
    return cast("TableOperator", environment.stateful[id])


def attach_table_join(environment: "StageEnvironment", operator: ops.JoinTable, _: Any) -> dict[str, Any]:
    """The rows that it looks up."""
    return {"row": _table(environment, operator.uses_table).row}


def attach_put(environment: "StageEnvironment", operator: ops.PutTo, _: Any) -> dict[str, Any]:
    """The table that it fills, which was bound before."""
    encode = value_serde(environment.program.flows[operator.table].value).encode
    return {
        "add": _table(environment, operator.table).add,
        "undo": partial(environment.effects.undo, operator.table),
        "encode": encode,
    }


def _serde(kind: Any) -> Serde[Any]:
    return untyped_serde() if kind is UNKNOWN else value_serde(kind)


def bind_function(_: "StageEnvironment", operator: Any) -> dict[str, Any]:
    """The operator's function."""
    return {"f": operator.fn}


def bind_split(_: "StageEnvironment", operator: ops.Split) -> dict[str, Any]:
    """The predicates of its branches, in order."""
    return {f"f{place}": predicate for place, predicate in enumerate(operator.predicates)}


def _decode_key(environment: "StageEnvironment", operator: ops.Operator) -> Callable[[bytes], Any]:
    kind = environment.program.flows[operator.inputs[0]].key
    return bytes if kind is None else key_serde(kind).decode


def bind_map_messages(environment: "StageEnvironment", operator: ops.MapMessages) -> dict[str, Any]:
    """The operator's function, and what decodes the keys that it is given."""
    return {"f": operator.fn, "key": _decode_key(environment, operator)}


def bind_key(environment: "StageEnvironment", operator: ops.Operator) -> dict[str, Any]:
    """What decodes the keys that its function is given."""
    return {"key": _decode_key(environment, operator)}


def bind_partition_by(environment: "StageEnvironment", operator: ops.PartitionBy) -> dict[str, Any]:
    """The function of the key, and what a border works with."""
    return {**bind_border(environment, operator), "f": operator.fn, "key": key_encoder(operator.key)}


def bind_border(environment: "StageEnvironment", operator: ops.Border) -> dict[str, Any]:
    """The list of records for the next stage, and what encodes their values."""
    records = environment.outputs.of(operator.id)
    node, now, producer = environment.node_in(operator.id), environment.watermarks.now, environment.producer
    program = environment.program

    def release(record: Any) -> None:
        records.append(with_trailer(record, pack_trailer(producer, now[node])))

    encode = value_serde(program.flows[operator.id].value).encode
    bound = {"out": records.append, "list": records, "release": release if program.trailers else records.append}
    return {**bound, "encode": encode}


def bind_send_to(environment: "StageEnvironment", operator: ops.SendTo) -> dict[str, Any]:
    """The list of records for its stream, and what encodes them."""
    records = environment.outputs.of(operator.id)
    flow = environment.program.flows[operator.id]
    encode = _serde(flow.value if operator.value is None else operator.value).encode
    bound = {"out": records.append, "list": records, "release": records.append}
    return {**bound, "f": operator.key, "encode": encode}


def bind_sink(environment: "StageEnvironment", operator: ops.SinkTo) -> dict[str, Any]:
    """The list of messages for its sink."""
    messages = environment.outputs.of(operator.id)
    bound = {"out": messages.append, "list": messages, "release": messages.append}
    return {**bound, "key": _decode_key(environment, operator)}
