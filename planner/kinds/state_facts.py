"""Facts of keys and values that give state its meaning, by name: several kinds of operators keep such."""

from typing import Any

from ...dsl.serde import Serde, key_serde
from ..flow import plain
from ..state_schema import WHOLE_NAME


def key_facts(type_: Any) -> dict[str, str]:
    """The facts of a key: how its bytes are made, on which the places of all its state depend."""
    return serde_facts("key", key_serde(type_))


def serde_facts(what: str, serde: Serde[Any]) -> dict[str, str]:
    """The facts of a serde under the name `what`: its name, and how its bytes lie."""
    return {what: serde.name, **layout_facts(what, serde)}


def row_facts(what: str, type_: Any) -> dict[str, str]:
    """The facts of kept values under the name `what`: their format, and how their bytes lie."""
    return {what: format_name(type_), **layout_facts(what, type_)}


def format_name(type_: Any) -> str:
    """The format in which values are encoded: what a serde's name says before the type."""
    if isinstance(type_, Serde):
        return type_.name.partition(":")[0]
    return type_.__name__ if type_ in (str, bytes) else "json"


def layout_facts(what: str, type_: Any) -> dict[str, str]:
    """What a serde tells of its bytes; the whole name of one that tells nothing."""
    if not isinstance(type_, Serde):
        return {}
    if type_.layout is None:
        return {what + WHOLE_NAME: type_.name}
    return {f"{what}, {name}": text for name, text in type_.layout.items()}


def type_of_values(name: str, type_: Any) -> dict[str, Any]:
    """The type of values, unless their serde's layout says all that there is to compare."""
    return {} if isinstance(type_, Serde) and type_.layout else {name: plain(type_)}
