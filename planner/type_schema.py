"""Schemas: the structure of types as data. A schema is kept with values, to check later whether they can be read.

A schema is JSON: the name of a scalar ("int"), else an object with one field, which names the kind. A class is a
reference, `{"class": "Visit"}`, into `classes`, so that types may refer to themselves.
"""

import math
from collections.abc import Callable, Mapping
from enum import Flag
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, inspect

SchemaNode = Any
"""`"int"`, `{"list": "int"}`, `{"dict": ["str", "int"]}`, `{"class": "Visit"}` and so on."""

FIRST_VERSION, VERSION = 1, 2
"""Version 1 tells sets as lists and enums as their values, and has no conditions, defaults and fields of tags."""


class ClassSchema(Struct, frozen=True, kw_only=True):
    """The fields of a class, in the form that values of it are encoded in: a map by name, or an array by position.

    Fields that are `required` must be there when a value is read; those that are `always` written are there in every
    value. `defaults` has the default of each other field, as JSON; fields that are `omitted` are not written where
    they have it. A `closed` class refuses other fields than its own. `tag_field` is None where it is not known.
    """

    form: str
    fields: dict[str, SchemaNode]
    required: list[str]
    always: list[str]
    closed: bool = False
    tag: str | int | None = None
    tag_field: str | None = None
    defaults: dict[str, str] = {}
    omitted: list[str] = []


class TypeSchema(Struct, frozen=True, kw_only=True):
    """The schema of a type, and the classes that it refers to, by name.

    >>> type_schema(list[int]).schema
    {'list': 'int'}
    """

    schema: SchemaNode
    classes: dict[str, ClassSchema] = {}
    version: int = FIRST_VERSION


def type_schema(type_: Any) -> TypeSchema:
    """The schema of a type that msgspec can decode; any other type is known by its name alone."""
    try:
        info = inspect.type_info(type_)
    except (TypeError, NotImplementedError):
        return TypeSchema(schema=_by_name(type_), version=VERSION)
    classes = _Classes()
    return TypeSchema(schema=_schema(info, classes), classes=classes.described, version=VERSION)


class _Classes:
    """The classes that were met, by name. Each set of arguments of a generic class is a class of its own."""

    def __init__(self) -> None:
        self.described: dict[str, ClassSchema] = {}
        self._names: dict[int, str] = {}

    def name(self, info: Any) -> str:
        """The name by which schemas refer to a class; at the first use the class itself is described, too."""
        known = self._names.get(id(info))
        if known is not None:
            return known
        name = free_name(info.cls.__qualname__, self._names.values())
        self._names[id(info)] = name  # before its fields, which may refer to it
        self.described[name] = self._describe(info)
        return name

    def _describe(self, info: Any) -> ClassSchema:
        array = getattr(info, "array_like", type(info) is inspect.NamedTupleType)
        required = [field.encode_name for field in info.fields if field.required]
        omitted = [] if array else [field.encode_name for field in info.fields if _omitted(info, field)]
        return ClassSchema(
            form="array" if array else "map",
            fields={field.encode_name: _schema(field.type, self) for field in info.fields},
            required=required,
            always=[field.encode_name for field in info.fields if field.encode_name not in omitted],
            closed=getattr(info, "forbid_unknown_fields", type(info) is inspect.NamedTupleType),
            tag=getattr(info, "tag", None),
            tag_field=getattr(info, "tag_field", None),
            defaults={field.encode_name: text for field in info.fields if (text := _default(field))},
            omitted=omitted,
        )


def free_name(name: str, taken: Any) -> str:
    """The name of one more class that is called `name`: `Visit`, `Visit#2`."""
    same = sum(1 for other in taken if bare_name(other) == name)
    return f"{name}#{same + 1}" if same else name


def bare_name(name: str) -> str:
    """The name of a class without the number that tells it from others of its name.

    >>> bare_name("Visit#2")
    'Visit'
    """
    return name.partition("#")[0]


def _omitted(info: Any, field: inspect.Field) -> bool:
    """Whether a value may be written without a field."""
    if field.required:
        return False
    if field.default is NODEFAULT and field.default_factory is NODEFAULT:
        return True  # a field of a TypedDict that need not be there, or one that is UNSET
    if type(info) is inspect.DataclassType:
        # Of a dataclass that was read, msgspec does not set the attributes that had the default of their class.
        return field.default is not NODEFAULT and bool(info.cls.__dictoffset__)
    config = getattr(info.cls, "__struct_config__", None)
    if config is None or not config.omit_defaults:
        return False
    return field.default is not NODEFAULT or field.default_factory in _EMPTY


_EMPTY: dict[Any, str] = {list: "[]", set: "[]", dict: "{}", bytearray: '""'}
"""What some factories of defaults make."""


def _default(field: inspect.Field) -> str:
    """The default of a field as JSON, empty where there is none."""
    default, factory = field.default, field.default_factory
    if factory is not NODEFAULT:
        return _EMPTY.get(factory) or f"{getattr(factory, '__name__', 'factory')}()"
    if default is NODEFAULT:
        return ""
    if isinstance(default, float) and not math.isfinite(default):
        return str(default)  # JSON has none
    try:
        return msgspec.json.encode(default).decode()
    except TypeError:
        return repr(default)


def _by_name(type_: Any) -> SchemaNode:
    return {"named": getattr(type_, "__qualname__", str(type_))}


def _schema(info: inspect.Type, classes: _Classes) -> SchemaNode:
    describe = _DESCRIBED.get(type(info))
    # The record of a scalar is named after it: IntType.
    schema = type(info).__name__.removesuffix("Type").lower() if describe is None else describe(info, classes)
    conditions = _conditions(info)
    return {"limited": [schema, conditions]} if conditions else schema


def _conditions(info: Any) -> dict[str, Any]:
    """The conditions that values of a type meet, by the names of `msgspec.Meta`."""
    conditions = {name: value for name in _CONDITIONS if (value := getattr(info, name, None)) is not None}
    if type(info) is inspect.IntType:  # so that what is the same is written in one way
        if "gt" in conditions:
            conditions["ge"] = math.floor(conditions.pop("gt")) + 1
        if "lt" in conditions:
            conditions["le"] = math.ceil(conditions.pop("lt")) - 1
    return conditions


_CONDITIONS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")


def _list(info: Any, classes: _Classes) -> SchemaNode:
    return {"list": _schema(info.item_type, classes)}


def _set(info: Any, classes: _Classes) -> SchemaNode:
    return {"set": _schema(info.item_type, classes)}


def _tuple(info: inspect.TupleType, classes: _Classes) -> SchemaNode:
    return {"tuple": [_schema(item, classes) for item in info.item_types]}


def _dict(info: Any, classes: _Classes) -> SchemaNode:
    return {"dict": [_schema(info.key_type, classes), _schema(info.value_type, classes)]}


def _union(info: inspect.UnionType, classes: _Classes) -> SchemaNode:
    conditions: dict[bytes, dict[str, Any]] = {}
    plain: dict[bytes, SchemaNode] = {}
    for one in info.types:
        schema, limits = parted(_schema(one, classes))
        name = msgspec.json.encode(schema)
        plain[name] = schema
        conditions[name] = conditions.get(name, {}) | limits  # msgspec asks for those of any of the same type
    choices = [{"limited": [plain[name], conditions[name]]} if conditions[name] else plain[name] for name in plain]
    return choices[0] if len(choices) == 1 else {"union": sorted(choices, key=msgspec.json.encode)}


def _literal(info: inspect.LiteralType, _: _Classes) -> SchemaNode:
    return {"values": list(info.values)}


def _enum(info: inspect.EnumType, _: _Classes) -> SchemaNode:
    flags: Any = info.cls
    members = {member.name: member.value for member in flags}
    if issubclass(info.cls, Flag):  # a value may be several members at once
        return {"flag": {"members": members, "boundary": flags._boundary_.value}}
    return {"enum": members}


def _custom(info: inspect.CustomType, _: _Classes) -> SchemaNode:
    return _by_name(info.cls)


def _metadata(info: inspect.Metadata, classes: _Classes) -> SchemaNode:
    return _schema(info.type, classes)


def _class(info: Any, classes: _Classes) -> SchemaNode:
    return {"class": classes.name(info)}


_DESCRIBED: Mapping[type, Callable[[Any, _Classes], SchemaNode]] = {
    inspect.ListType: _list,
    inspect.VarTupleType: _list,
    inspect.CollectionType: _list,
    inspect.SetType: _set,
    inspect.FrozenSetType: _set,
    inspect.TupleType: _tuple,
    inspect.DictType: _dict,
    inspect.UnionType: _union,
    inspect.LiteralType: _literal,
    inspect.EnumType: _enum,
    inspect.CustomType: _custom,
    inspect.Metadata: _metadata,
    **dict.fromkeys((inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType), _class),
}


def kind_of(schema: SchemaNode) -> str:
    """The kind of a schema, empty for a scalar.

    >>> kind_of({"list": "int"})
    'list'
    """
    return "" if isinstance(schema, str) else next(iter(schema))


def parted(schema: SchemaNode) -> tuple[SchemaNode, dict[str, Any]]:
    """A schema without its conditions, and these."""
    return schema["limited"] if kind_of(schema) == "limited" else (schema, {})


def schema_text(of: TypeSchema) -> str:
    """A schema as people write types: `list[int | None]`, `Visit(pages: list[str], first: int)`.

    >>> schema_text(type_schema(dict[str, int | None]))
    'dict[str, int | None]'
    """
    return text_of(of.schema, of.classes)


def text_of(schema: SchemaNode, classes: Mapping[str, ClassSchema], within: tuple[str, ...] = ()) -> str:
    """A part of a schema as people write types. A class `within` which it stands is named, without its fields."""
    if isinstance(schema, str):
        return "None" if schema == "none" else schema
    kind = kind_of(schema)
    inner = schema[kind]
    if kind == "class":
        name = bare_name(inner)
        if inner in within:
            return name
        fields = (f"{field}: {text_of(one, classes, (*within, inner))}" for field, one in classes[inner].fields.items())
        return f"{name}({', '.join(fields)})"
    if kind == "named":
        return str(inner)
    if kind == "values":
        return f"one of {', '.join(map(repr, inner))}"
    if kind in ("enum", "flag"):
        members = inner["members"] if kind == "flag" else inner
        listed = ", ".join(f"{name}={value!r}" for name, value in members.items())
        return f"flags {listed}" if kind == "flag" else f"one of {listed}"
    if kind == "limited":
        conditions = " and ".join(f"{name}={value!r}" for name, value in inner[1].items())
        return f"{text_of(inner[0], classes, within)} with {conditions}"
    parts: list[str] = [text_of(one, classes, within) for one in (inner if isinstance(inner, list) else [inner])]
    if kind == "union":
        return " | ".join(sorted(parts, key="None".__eq__))
    return f"{kind}[{', '.join(parts)}]"
