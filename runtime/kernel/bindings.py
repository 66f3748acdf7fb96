"""The objects that a stage's compiled code works with, by the names it uses for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN
from ...dsl.message import Headers, Message
from ...dsl.serde import Serde, encode_key, key_encoder, key_serde, source_key_serde, untyped_serde, value_serde
from ...dsl.windows import Hopping, Session, Tumbling, Unbounded
from ...planner.types import plain
from .by_clock import ByClock
from .hints import Unencodable, check_answer
from .joins import JoinContext, JoinOperator, LatestJoinOperator
from .pool import Call, Pool
from .processing import ProcessContext, ProcessOperator
from .remote import joined, put
from .sessions import SessionOperator
from .shape import by_clock
from .stamps import pack_stamp, stamped
from .state import Bytes
from .stateful import StatefulOperator
from .table_bindings import TABLE_USERS, join_tables, table_of
from .times import START, wrong_time
from .triggers import AT_ONCE, NEVER
from .tumbling import TumblingOperator
from .watched import WatchedOperator
from .watched_sessions import WatchedSessionOperator
from .windows import Context

if TYPE_CHECKING:
    from .stage import StageTask

_WINDOWS: Mapping[Any, Any] = {
    Tumbling: lambda context, by: TumblingOperator(context, by.size),
    Hopping: lambda context, by: WatchedOperator(context, by, NEVER, AT_ONCE),
    Session: lambda context, by: SessionOperator(context, by.gap),
    Unbounded: lambda context, by: WatchedOperator(context, by, NEVER, AT_ONCE),
}

_WATCHED: Mapping[Any, Any] = {
    Tumbling: WatchedOperator,
    Hopping: WatchedOperator,
    Session: lambda context, by, early, late: WatchedSessionOperator(context, by.gap, early, late),
    Unbounded: WatchedOperator,
}
"""Windows with triggers."""


def bind(
    task: "StageTask", below: Bytes, producer: int, empty: bool, make_pool: Callable[..., Pool]
) -> dict[str, Callable[..., Any]]:
    """Run a task's compiled code among the objects it uses; returns the function that reads each input stream."""
    env: dict[str, Any] = {
        "now": task.timeline.now,
        "wake": task.timeline.wake,
        "made": task.made,
        "producer": producer,
        "pack_stamp": pack_stamp,
        "stamped": stamped,
        "encode_key": encode_key,
        "Message": Message,
        "Call": Call,
        "close": task.cells.close,
        "failed_cell": task.fail_cell,
        "emit_fired": task.emit_fired,
        "drop_fired": task.drop_fired,
        "passed": task.pass_message,
        "failed_firing": task.failures.firing,
        "open_firing": lambda *fired_at: task.cells.open(fired_at[-1], fired_at[0], fired_at[:-1]),
        "wrong_time": wrong_time,
        "check_headers": check_headers,
        "check_answer": check_answer,
    }
    _bind_entries(task, env)
    for number, operator in enumerate(task.program.shape.operators.values()):
        bound = _BINDERS.get(type(operator))
        if bound is not None:
            env.update({f"{name}_{number}": value for name, value in bound(task, operator, producer).items()})
    exec(task.program.code, env)
    _bind_stateful(task, env, below, empty, make_pool)
    return {stream: env[f"read_{number}"] for number, stream in enumerate(task.program.shape.entries)}


def are_headers(headers: Any) -> bool:
    """Whether these are the headers of a message."""
    try:
        return headers.__class__ is tuple and all(type(name) is str and type(value) is bytes for name, value in headers)
    except (TypeError, ValueError):
        return False


def check_headers(headers: Any) -> None:
    """Raise TypeError for what are not the headers of a message."""
    if not are_headers(headers):
        raise TypeError(f"headers must be a tuple of pairs of str and bytes, not {headers!r}")


def _bind_entries(task: "StageTask", env: dict[str, Any]) -> None:
    for number, entry in enumerate(task.program.shape.entries.values()):
        env[f"decode_{number}"] = value_serde(task.program.flows[entry.writer].value).decode
        if entry.source is not None and entry.source.key is not None:
            env[f"key_of_{number}"] = source_key_serde(entry.source.key).decode
        env[f"timestamp_{number}"] = entry.source.timestamp if entry.source else None
        env[f"failed_{number}"] = task.fail_message
        env[f"open_{number}"] = task.message_opener(entry.stream)
        env[f"advance_{number}"] = partial(task.inputs.advance, entry.stream)
        env[f"observe_{number}"] = partial(task.inputs.observe, entry.stream)
        env[f"seen_{number}"] = task.inputs.seen[entry.stream]


def _bind_stateful(
    task: "StageTask", env: dict[str, Any], below: Bytes, empty: bool, make_pool: Callable[..., Pool]
) -> None:
    """State and pools call compiled code, so they are made after it; the compiled code finds them by name."""
    numbers = {id: number for number, id in enumerate(task.program.shape.operators)}
    for number, operator in enumerate(task.program.shape.operators.values()):
        make = _STATEFUL.get(type(operator))
        if make is not None:
            stateful = make(task, operator, env.get(f"after_{number}"), below, empty)
            if by_clock(operator):
                stateful = ByClock(stateful, partial(task.timeline.time_at, task.program.shape.line_in[operator.id]))
                task.timeline.attach_clock(stateful.due)
            if isinstance(stateful, ProcessOperator):
                sides = task.program.shape.sides.get(operator.id, {})
                stateful.sides = {tag: task.emitter(env[f"after_{numbers[id]}"]) for tag, id in sides.items()}
            task.stateful[operator.id] = stateful
            task.timeline.attach(operator.id, stateful)
            _bind_add(task, operator, stateful, env, f"add_{number}")
            env[f"undo_{number}"] = partial(task.undo, operator.id)
        use = TABLE_USERS.get(type(operator))
        if use is not None:
            env.update({f"{name}_{number}": value for name, value in use(task, operator).items()})
        if isinstance(operator, ops.AsyncFlatMap):
            pool = task.pools[operator.id] = make_pool(_called(task, operator), env[f"after_{number}"])
            env[f"submit_{number}"] = pool.submit


def _bind_add(
    task: "StageTask", operator: ops.Operator, stateful: StatefulOperator, env: dict[str, Any], name: str
) -> None:
    """Give compiled code an operator's `add`. Where the operator's own watermark is beyond the one in front of it, the
    messages up to there are judged by its own."""
    own, add = task.timeline.reached_by(operator.id), stateful.add
    env[name] = add
    if own == START or own <= task.timeline.now[task.program.shape.line_in[operator.id]]:
        return

    def add_by_own(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, *side: int) -> None:
        if watermark >= own:
            env[name] = add
        add(key, value, timestamp, headers, max(watermark, own), *side)

    env[name] = add_by_own


def _window(
    task: "StageTask", operator: ops.WindowBy, emit: Callable[..., None], below: Bytes, empty: bool
) -> StatefulOperator:
    flow = task.program.flows[operator.inputs[0]]
    line = task.program.shape.line_out[operator.id]
    watermark = task.timeline.now[line]
    context = Context(
        id=operator.id,
        below=below,
        empty=empty,
        watermark=watermark,
        forgotten=START if by_clock(operator) else task.lateness.forgotten(operator.id, operator.lateness, watermark),
        aggregate=operator.aggregate,
        state_type=operator.aggregate.state(plain(flow.value)),
        decode_key=key_serde(flow.key).decode,
        lateness=operator.lateness,
        accumulate=operator.accumulate,
        emit=task.emitter(emit),
        fail=task.emitter(partial(task.fail_firing, operator.id)),
        late=_late(task, operator, flow.value),
        rouse=_rouse(task, operator),
        firing=partial(task.firing, line),
        relieve=task.relieve,
    )
    made: StatefulOperator
    if operator.trigger is None and operator.late_trigger is None:
        made = _WINDOWS[type(operator.assigner)](context, operator.assigner)
    else:
        triggers = (operator.trigger or NEVER, operator.late_trigger or AT_ONCE)
        made = _WATCHED[type(operator.assigner)](context, operator.assigner, *triggers)
    return made


def _called(task: "StageTask", operator: ops.AsyncFlatMap) -> ops.AsyncFlatMap:
    """The same operator with the function that is to be called."""
    if isinstance(operator, ops.JoinRemote):
        return replace(operator, fn=joined(task.program.remote(operator.table), operator.joined, operator.how))
    if isinstance(operator, ops.PutRemote):
        return replace(operator, fn=put(task.program.remote(operator.table)))
    return operator


def _rouse(task: "StageTask", operator: ops.Operator) -> Callable[[int], None]:
    """Asks for `advance` at a watermark; what goes by the clock need not ask."""
    return (lambda _: None) if by_clock(operator) else task.timeline.rouse


def _late(task: "StageTask", operator: ops.WindowBy, kind: Any) -> Callable[[bytes, Any, int, Headers], None]:
    """What happens to a message that comes too late for a window: it is counted, and sent on if there is somewhere."""
    serde, name = _serde(kind), f"the stream {operator.late_to}"
    records = task.outputs.setdefault(operator.id, [])
    counts, id, send = task.late, operator.id, operator.late_to is not None

    def late(key: bytes, value: Any, timestamp: int, headers: Headers) -> None:
        counts[id] = counts.get(id, 0) + 1
        if send:
            try:
                records.append((key, None if value is None else serde.encode(value), timestamp, headers))
            except Exception as error:
                raise Unencodable(value, name, serde.name, error) from error

    return late


def _join(
    task: "StageTask", operator: ops.JoinStreams, emit: Callable[..., None], below: Bytes, empty: bool
) -> StatefulOperator:
    shape, counts, id = task.program.shape, task.late, operator.id
    serdes = [_serde(task.program.flows[source].value) for source in operator.inputs]

    def late() -> None:
        counts[id] = counts.get(id, 0) + 1

    context = JoinContext(
        id=id,
        below=below,
        empty=empty,
        watermark=task.timeline.reached_by(id),
        within=operator.within,
        alone=(operator.how != "inner", operator.how == "outer"),
        fn=operator.fn,
        encode=(serdes[0].encode, serdes[1].encode),
        decode=(serdes[0].decode, serdes[1].decode),
        emit=task.emitter(emit),
        fail=task.emitter(partial(task.fail_firing, id)),
        late=late,
        rouse=_rouse(task, operator),
        firing=partial(task.firing, shape.line_out[id]),
    )
    return JoinOperator(context) if operator.retain == "all" else LatestJoinOperator(context)


def _process(
    task: "StageTask", operator: ops.Process, emit: Callable[..., None], below: Bytes, empty: bool
) -> StatefulOperator:
    shape = task.program.shape
    context = ProcessContext(
        id=operator.id,
        below=below,
        empty=empty,
        watermark=task.timeline.reached_by(operator.id),
        processor=operator.processor,
        decode_key=key_serde(task.program.flows[operator.inputs[0]].key).decode,
        emit=task.emitter(emit),
        fail=task.emitter(partial(task.fail_firing, operator.id)),
        rouse=task.timeline.rouse,
        firing=partial(task.firing, shape.line_out[operator.id]),
        clock=lambda: task.timeline.clock,
        rung=task.rung.get(operator.id, task.timeline.clock),
        run=task.run,
    )
    made = ProcessOperator(context)
    if made.ring is not None:
        task.clock_users.append(operator.id)
        task.timeline.attach_clock(made.due, made.ring)
    return made


_STATEFUL: Mapping[type[ops.Operator], Callable[..., StatefulOperator]] = {
    ops.WindowBy: _window,
    ops.JoinStreams: _join,
    ops.TableOf: table_of,
    ops.JoinTables: join_tables,
    ops.Process: _process,
}


def _serde(kind: Any) -> Serde[Any]:
    return untyped_serde() if kind is UNKNOWN else value_serde(kind)


def _function(_: "StageTask", operator: Any, __: int) -> dict[str, Any]:
    return {"f": operator.fn}


def _split(_: "StageTask", operator: ops.Split, __: int) -> dict[str, Any]:
    return {f"f{place}": predicate for place, predicate in enumerate(operator.predicates)}


def _decode_key(task: "StageTask", operator: ops.Operator) -> Callable[[bytes], Any]:
    kind = task.program.flows[operator.inputs[0]].key
    return bytes if kind is None else key_serde(kind).decode


def _map_messages(task: "StageTask", operator: ops.MapMessages, _: int) -> dict[str, Any]:
    return {"f": operator.fn, "key": _decode_key(task, operator)}


def _key_alone(task: "StageTask", operator: ops.Operator, _: int) -> dict[str, Any]:
    return {"key": _decode_key(task, operator)}


def _partition_by(task: "StageTask", operator: ops.PartitionBy, producer: int) -> dict[str, Any]:
    return {**_border(task, operator, producer), "f": operator.fn, "key": key_encoder(operator.key)}


def _border(task: "StageTask", operator: ops.Border, producer: int) -> dict[str, Any]:
    records = task.outputs.setdefault(operator.id, [])
    line, now = task.program.shape.line_in[operator.id], task.timeline.now

    def release(record: Any) -> None:
        records.append(stamped(record, pack_stamp(producer, now[line])))

    encode = value_serde(task.program.flows[operator.id].value).encode
    bound = {"out": records.append, "list": records, "release": release if task.program.stamped else records.append}
    return {**bound, "encode": encode}


def _send_to(task: "StageTask", operator: ops.SendTo, _: int) -> dict[str, Any]:
    records = task.outputs.setdefault(operator.id, [])
    flow = task.program.flows[operator.id]
    encode = _serde(flow.value if operator.value is None else operator.value).encode
    bound = {"out": records.append, "list": records, "release": records.append}
    return {**bound, "f": operator.key, "encode": encode}


def _sink(task: "StageTask", operator: ops.SinkTo, _: int) -> dict[str, Any]:
    messages = task.outputs.setdefault(operator.id, [])
    bound = {"out": messages.append, "list": messages, "release": messages.append}
    return {**bound, "key": _decode_key(task, operator)}


_BINDERS: Mapping[type[ops.Operator], Callable[["StageTask", Any, int], dict[str, Any]]] = {
    ops.Map: _function,
    ops.Filter: _function,
    ops.Split: _split,
    ops.FlatMap: _function,
    ops.MapMessages: _map_messages,
    ops.JoinRemote: _key_alone,
    ops.PutRemote: _key_alone,
    ops.PartitionBy: _partition_by,
    ops.Broadcast: _border,
    ops.SendTo: _send_to,
    ops.SinkTo: _sink,
    ops.JoinTable: _function,
}
