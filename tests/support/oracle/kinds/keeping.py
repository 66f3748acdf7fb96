"""What kinds of operators with state have in common."""

from typing import Any

from fluvial.dsl import Message
from fluvial.dsl.operators import Operator
from oracle.kinds.row import Effects


def key_of_input(effects: Effects, operator: Operator, message: Message[Any], index: int = 0) -> bytes | None:
    """The bytes of a message's key, of the type that the input of that index has."""
    return effects.key_bytes(effects.pipeline.operator(operator.inputs[index]), message.key)


def keep(effects: Effects, operator: Operator, message: Message[Any], index: int) -> None:
    """Give a message to the operator's state, and fire what it makes due."""
    keep_in_time(effects, operator, message, index)


def keep_in_time(effects: Effects, operator: Operator, message: Message[Any], index: int) -> bool:
    """The same; whether the message was not late."""
    key = key_of_input(effects, operator, message, index)
    if key is None:
        raise ValueError("a message without key cannot be kept by key")
    due = effects.states[operator.id].take(key, message, index)
    if due == "late":
        effects.count_late(operator)
        return False
    for one in due:
        effects.fire(operator, one)
    return True
