"""Pickling what msgspec makes. cloudpickle makes a class first and fills it later, but a Struct's fields are made with
it, so that it would come back without any; and encoders and decoders do not pickle by themselves."""

import inspect
import io
from types import MemberDescriptorType, new_class
from typing import Any

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
_MADE = frozenset(
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
"""What making a class gives it."""

_CODERS: dict[type, tuple[str, ...]] = {
    msgspec.json.Encoder: ("enc_hook", "decimal_format", "uuid_format", "order"),
    msgspec.json.Decoder: ("type", "strict", "dec_hook", "float_hook"),
    msgspec.msgpack.Encoder: ("enc_hook", "decimal_format", "uuid_format", "order"),
    msgspec.msgpack.Decoder: ("type", "strict", "dec_hook", "ext_hook"),
}
"""What each is made of."""

Field = tuple[str, Any, dict[str, Any]]
"""A field as it is sent: name, type, and what `msgspec.field` is told."""


def dumps(value: Any) -> bytes:
    """What `cloudpickle.dumps` gives, Structs included."""
    with io.BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


class _Pickler(_cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, which also takes along the Structs that it would send by value, encoders and decoders."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in _CODERS:
            return make_coder, (type(obj), {name: getattr(obj, name) for name in _CODERS[type(obj)]})
        if isinstance(obj, _StructMeta) and not _cloudpickle.cloudpickle._should_pickle_by_reference(obj):
            return make_struct, _made_of(obj), _rest(obj), None, None, fill_struct
        return super().reducer_override(obj)


def make_coder(kind: Any, told: dict[str, Any]) -> Any:
    """An encoder or decoder."""
    return kind(**told)


def make_struct(
    name: str, qualname: str, module: str, bases: tuple[Any, ...], fields: list[Field], options: dict[str, Any]
) -> Any:
    """A Struct class of these fields."""
    space: dict[str, Any] = {"__module__": module, "__qualname__": qualname}
    space["__annotations__"] = {field: kind for field, kind, _ in fields}
    space |= {field: msgspec.field(**told) for field, _, told in fields if told}
    return new_class(name, bases, options, lambda made: made.update(space))


def fill_struct(kind: Any, rest: dict[str, Any]) -> None:
    """Give a Struct class its methods and other attributes; they may refer to the class itself."""
    for name, value in rest.items():
        setattr(kind, name, value)


def _made_of(kind: Any) -> tuple[Any, ...]:
    own = vars(kind).get("__annotations__", {})
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    fields = [(name, hint, _told(known[name])) for name, hint in own.items() if name in known]
    options = {
        name: getattr(kind.__struct_config__, name) for name in _OPTIONS if hasattr(kind.__struct_config__, name)
    }
    parameters = inspect.signature(kind).parameters
    keywords = [parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name, _, _ in fields]
    options["kw_only"] = bool(keywords) and all(keywords)
    bases = vars(kind).get("__orig_bases__", kind.__bases__)
    return kind.__name__, kind.__qualname__, kind.__module__, bases, fields, options


def _told(field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    given = {"default": field.default, "default_factory": field.default_factory}
    told = {name: value for name, value in given.items() if value is not msgspec.NODEFAULT}
    return told if field.name == field.encode_name else {**told, "name": field.encode_name}


def _rest(kind: Any) -> dict[str, Any]:
    made = (MemberDescriptorType,)
    return {name: value for name, value in vars(kind).items() if name not in _MADE and not isinstance(value, made)}
