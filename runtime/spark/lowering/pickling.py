"""Pickles what cloudpickle cannot: msgspec's Structs, coders and conditions of types, and Protobuf's classes.

cloudpickle makes a class first and fills it later. A Struct gets its fields when it is made, so it would come back
without any. Encoders, decoders and `Meta` have no pickled form of their own. A class that protoc has generated is made
from a description outside of Python. An annotation that is text, as `from __future__ import annotations` makes all of
them, means something in its module alone, which the other process does not have: it is sent as the type that it names.
"""

import dataclasses
import inspect
import io
from importlib import import_module
from types import FunctionType, MemberDescriptorType, ModuleType, new_class
from typing import Any, get_type_hints

import msgspec
import pyspark.cloudpickle

_cloudpickle: Any = pyspark.cloudpickle  # has no types
_StructMeta: Any = type(msgspec.Struct)

_OPTIONS = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "gc",
    "repr_omit_defaults",
    "omit_defaults",
    "forbid_unknown_fields",
    "weakref",
    "dict",
    "cache_hash",
    "tag",
    "tag_field",
)
_GENERATED = frozenset(
    {
        "__module__",
        "__qualname__",
        "__doc__",
        "__annotations__",
        "__slots__",
        "__dict__",
        "__weakref__",
        "__orig_bases__",
        "__parameters__",
        "__match_args__",
        "__msgspec_cache__",
    }
)
"""The attributes that Python or msgspec give a class when it is made."""

_CODERS: dict[type, tuple[str, ...]] = {
    msgspec.json.Encoder: ("enc_hook", "decimal_format", "uuid_format", "order"),
    msgspec.json.Decoder: ("type", "strict", "dec_hook", "float_hook"),
    msgspec.msgpack.Encoder: ("enc_hook", "decimal_format", "uuid_format", "order"),
    msgspec.msgpack.Decoder: ("type", "strict", "dec_hook", "ext_hook"),
}
"""The attributes of an encoder or decoder, which are the arguments that make an equal one."""

_SENTINELS = {type(getattr(dataclasses, name)): name for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")}
"""Markers that dataclasses compare by identity: a pickled copy would be taken for a default value."""

Field = tuple[str, dict[str, Any]]
"""A field of a Struct as it is pickled: its name, and the arguments of `msgspec.field`."""


def dumps(value: Any) -> bytes:
    """Pickle a value as `cloudpickle.dumps` does, but with the pickler of this module."""
    with io.BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


class _Pickler(_cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, which can also pickle Structs by value, encoders, decoders and `Meta`, classes that protoc
    has generated, and annotations that are text."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in _SENTINELS:
            return _SENTINELS[type(obj)]  # pickled as a reference: its name in its module
        if type(obj) in _CODERS:
            return make_again, (type(obj), {name: getattr(obj, name) for name in _CODERS[type(obj)]})
        if type(obj) is msgspec.Meta:
            return make_again, (msgspec.Meta, dict(obj.__rich_repr__()))
        if isinstance(obj, _StructMeta) and not _cloudpickle.cloudpickle._should_pickle_by_reference(obj):
            return make_struct, _struct_arguments(obj), _attributes(obj), None, None, fill_struct
        if _is_message(obj):
            # Imported here: Protobuf is an optional extra, and its import takes time that most pipelines need not pay.
            messages = import_module("fluvial.runtime.serdes.protobuf_messages")
            return messages.message_class, messages.parts_of(obj)
        reduced = super().reducer_override(obj)
        if isinstance(reduced, tuple) and (_has_fields(obj) or isinstance(obj, FunctionType)):
            return _with_types(obj, reduced)
        return reduced


def is_generated(module: ModuleType) -> bool:
    """Whether protoc has written the module: it has the descriptor of a whole .proto file."""
    return hasattr(getattr(module, "DESCRIPTOR", None), "serialized_pb")


def _has_fields(value: Any) -> bool:
    """Whether values are decoded by the annotations of a class: a dataclass, a TypedDict or a NamedTuple."""
    return isinstance(value, type) and any(
        hasattr(value, name) for name in ("__dataclass_fields__", "__total__", "_field_defaults")
    )


def _with_types(obj: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """What cloudpickle has made of a function or a class, with the types that its annotations name."""
    make, arguments, state, *rest = reduced
    for part in state:  # cloudpickle has them in one of two
        if "__annotations__" in part:
            part["__annotations__"] = _types(obj)
    return (make, arguments, state, *rest)


def _types(obj: Any) -> dict[str, Any]:
    """The annotations of a function or a class, without those of its bases, as types. They stay as they are where one
    names something that there is for type checkers alone."""
    own = inspect.get_annotations(obj)
    try:
        hints = get_type_hints(obj, include_extras=True)
    except Exception:  # evaluated as code, which may raise anything
        return own
    return {name: hints.get(name, annotation) for name, annotation in own.items()}


def _is_message(value: Any) -> bool:
    return isinstance(value, type) and hasattr(getattr(value, "DESCRIPTOR", None), "full_name")


def make_again(type_: Any, arguments: dict[str, Any]) -> Any:
    """Make an encoder, a decoder or a `Meta`."""
    return type_(**arguments)


def make_struct(
    name: str, qualname: str, module: str, bases: tuple[Any, ...], fields: list[Field], options: dict[str, Any]
) -> Any:
    """A new Struct class in a worker, without its types and methods, which `fill_struct` sets: they may refer to it."""
    space: dict[str, Any] = {"__module__": module, "__qualname__": qualname}
    space["__annotations__"] = {field: Any for field, _ in fields}
    space |= {field: msgspec.field(**arguments) for field, arguments in fields if arguments}
    return new_class(name, bases, options, lambda namespace: namespace.update(space))


def fill_struct(type_: Any, attributes: dict[str, Any]) -> None:
    """Set the types, methods and other attributes of a Struct class. They may refer to the class itself."""
    for name, value in attributes.items():
        setattr(type_, name, value)


def _struct_arguments(type_: Any) -> tuple[Any, ...]:
    """The arguments with which `make_struct` makes the class again."""
    own = vars(type_).get("__annotations__", {})
    infos = {field.name: field for field in msgspec.structs.fields(type_)}
    fields = [(name, _field_arguments(infos[name])) for name in own if name in infos]
    options = {
        name: getattr(type_.__struct_config__, name) for name in _OPTIONS if hasattr(type_.__struct_config__, name)
    }
    parameters = inspect.signature(type_).parameters
    keywords = [parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name, _ in fields]
    options["kw_only"] = bool(keywords) and all(keywords)
    bases = vars(type_).get("__orig_bases__", type_.__bases__)
    return type_.__name__, type_.__qualname__, type_.__module__, bases, fields, options


def _field_arguments(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    defaults = {"default": field.default, "default_factory": field.default_factory}
    arguments = {name: value for name, value in defaults.items() if value is not msgspec.NODEFAULT}
    return arguments if field.name == field.encode_name else {**arguments, "name": field.encode_name}


def _attributes(type_: Any) -> dict[str, Any]:
    """The attributes that the class has besides its fields and those of every class."""
    own = {name: value for name, value in vars(type_).items() if name not in _GENERATED}
    attributes = {name: value for name, value in own.items() if not isinstance(value, MemberDescriptorType)}
    return {"__annotations__": _types(type_), **attributes}
