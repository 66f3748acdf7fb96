"""Finds the parts of a type that do not survive encoding to JSON and decoding."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, inspect

from ....dsl.serde import Serde, type_name


def foreign_classes(type_: Any) -> list[str]:
    """The classes within a type that msgspec neither encodes nor decodes; empty for a Serde, which does so itself.

    >>> foreign_classes(dict[str, list[int]]), foreign_classes(dict[str, list[complex]])
    ([], ['complex'])
    """
    if isinstance(type_, Serde):
        return []
    try:
        nodes = _nodes(inspect.type_info(type_))
    except TypeError:  # a union whose members msgspec cannot tell apart
        return [type_name(type_)]
    foreign = {node.cls for node in nodes if isinstance(node, inspect.CustomType)}
    return sorted(type_name(cls) for cls in foreign - {object})  # whatever is read is an object, as it is Any


def _nodes(root: inspect.Type) -> Iterator[Struct]:
    """The parts of a type, itself included. Types may be recursive."""
    seen: set[int] = set()
    rest: list[Any] = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, tuple):
            rest += node
        elif isinstance(node, inspect.Type | inspect.Field) and id(node) not in seen:
            seen.add(id(node))
            yield node
            rest += (getattr(node, name) for name in node.__struct_fields__)
