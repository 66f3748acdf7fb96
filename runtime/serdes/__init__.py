"""Serdes for the formats of other tools: Avro and Protobuf, each alone or with a schema registry.

Comes in: a Python type, or a class that Protobuf generated. Goes out: a `Serde`, which encodes and decodes values.
Read `avro_values` first, then `registry_serdes` for messages that name a schema of a registry."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...dsl.errors import MissingExtraError
from ...dsl.validation import explain

if TYPE_CHECKING:
    from .avro_values import avro
    from .protobuf_messages import protobuf
    from .registry import Registry

__all__ = ["Registry", "avro", "protobuf"]

# Each needs an extra, and loads it at first use. No module may have one of these names: its import would replace the
# name.
_HOMES = {
    "Registry": (".registry", "registry"),
    "avro": (".avro_values", "avro"),
    "protobuf": (".protobuf_messages", "protobuf"),
}

if not TYPE_CHECKING:  # with it type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, extra = _HOMES[name]
        try:
            value = getattr(import_module(home, __name__), name)
        except ModuleNotFoundError as error:
            wrong = f"{name} needs {error.name}, which is not installed"
            remedy = f"pip install 'fluvial[{extra}]'"
            raise MissingExtraError(explain(wrong, "the extra that brings it", remedy)) from error
        globals()[name] = value
        return value
