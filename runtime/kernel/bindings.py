"""The objects that a stage's compiled code works with, by the names it uses for them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dsl import operators as ops
from ...dsl.message import Headers, Message
from ...dsl.serde import encode_key, source_key_serde, value_serde
from .by_clock import ByClock
from .kinds import KERNEL_KINDS
from .pool import Call, Pool
from .returned_values import check_answer
from .stamps import pack_stamp, stamped
from .state import Bytes
from .stateful import StatefulOperator
from .times import START, wrong_time

if TYPE_CHECKING:
    from .stage import StageTask


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
        bound = KERNEL_KINDS[operator].bind(task, operator, producer)
        env.update({f"{name}_{number}": value for name, value in bound.items()})
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
    for number, operator in enumerate(task.program.shape.operators.values()):
        kind, after = KERNEL_KINDS[operator], env.get(f"after_{number}")
        if kind.make_state is not None:
            stateful = kind.make_state(task, operator, after, below, empty)
            if operator.time_domain == "processing":
                stateful = ByClock(stateful, partial(task.timeline.time_at, task.program.shape.line_in[operator.id]))
                task.timeline.attach_clock(stateful.due)
            task.stateful[operator.id] = stateful
            task.timeline.attach(operator.id, stateful)
            _bind_add(task, operator, stateful, env, f"add_{number}")
            env[f"undo_{number}"] = partial(task.undo, operator.id)
        attached = kind.attach(task, operator, after, make_pool)
        env.update({f"{name}_{number}": value for name, value in attached.items()})


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
