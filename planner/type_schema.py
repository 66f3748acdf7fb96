"""The structure of the types of kept values, as data: it is kept with them, and says whether they can still be read.

A schema is JSON: the name of a scalar ("int"), else an object with one field, which names the kind. A class is a
reference, `{"class": "Visit"}`, into `classes`, so that types may refer to themselves.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, inspect

Schema = Any
"""`"int"`, `{"list": "int"}`, `{"dict": ["str", "int"]}`, `{"class": "Visit"}` and so on."""


class ClassSchema(Struct, frozen=True, kw_only=True):
    """The fields of a class, in the form that values of it are encoded in: a map by name, or an array by position.

    Fields that are `required` must be there when a value is read; those that are `always` written are there in every
    value. A `closed` class refuses other fields than its own.
    """

    form: str
    fields: dict[str, Schema]
    required: list[str]
    always: list[str]
    closed: bool = False
    tag: str | int | None = None


class TypeSchema(Struct, frozen=True, kw_only=True):
    """The schema of a type, and the classes that it refers to, by name.

    >>> type_schema(list[int]).schema
    {'list': 'int'}
    """

    schema: Schema
    classes: dict[str, ClassSchema] = {}


def type_schema(kind: Any) -> TypeSchema:
    """The schema of a type that msgspec can decode; any other type is known by its name alone."""
    try:
        found = inspect.type_info(kind)
    except (TypeError, NotImplementedError):
        return TypeSchema(schema=_by_name(kind))
    seen = _Classes()
    return TypeSchema(schema=_schema(found, seen), classes=seen.described)


class _Classes:
    """The classes that were met, by name. Each set of arguments of a generic class is a class of its own."""

    def __init__(self) -> None:
        self.described: dict[str, ClassSchema] = {}
        self._names: dict[int, str] = {}

    def name(self, info: Any) -> str:
        """The name of a class, which is described at its first use."""
        known = self._names.get(id(info))
        if known is not None:
            return known
        same = sum(1 for name in self._names.values() if name.partition("#")[0] == info.cls.__qualname__)
        name = info.cls.__qualname__ if not same else f"{info.cls.__qualname__}#{same + 1}"
        self._names[id(info)] = name  # before its fields, which may refer to it
        self.described[name] = self._describe(info)
        return name

    def _describe(self, info: Any) -> ClassSchema:
        required = [field.encode_name for field in info.fields if field.required]
        # A field that may be left out when a value is written is not there in every value. Of a dataclass that was
        # read, msgspec leaves out what had the default.
        config = getattr(info.cls, "__struct_config__", None)
        partly = type(info) in _PARTLY or (config is not None and config.omit_defaults)
        return ClassSchema(
            form="array" if getattr(info, "array_like", type(info) is inspect.NamedTupleType) else "map",
            fields={field.encode_name: _schema(field.type, self) for field in info.fields},
            required=required,
            always=required if partly else [field.encode_name for field in info.fields],
            closed=getattr(info, "forbid_unknown_fields", False),
            tag=getattr(info, "tag", None),
        )


def _by_name(kind: Any) -> Schema:
    return {"named": getattr(kind, "__qualname__", str(kind))}


def _schema(info: inspect.Type, seen: _Classes) -> Schema:
    describe = _DESCRIBED.get(type(info))
    # The record of a scalar is named after it: IntType.
    return type(info).__name__.removesuffix("Type").lower() if describe is None else describe(info, seen)


def _collection(info: Any, seen: _Classes) -> Schema:
    return {"list": _schema(info.item_type, seen)}


def _tuple(info: inspect.TupleType, seen: _Classes) -> Schema:
    return {"tuple": [_schema(item, seen) for item in info.item_types]}


def _dict(info: Any, seen: _Classes) -> Schema:
    return {"dict": [_schema(info.key_type, seen), _schema(info.value_type, seen)]}


def _union(info: inspect.UnionType, seen: _Classes) -> Schema:
    return {"union": sorted((_schema(one, seen) for one in info.types), key=msgspec.json.encode)}


def _literal(info: inspect.LiteralType, _: _Classes) -> Schema:
    return {"values": list(info.values)}


def _enum(info: inspect.EnumType, _: _Classes) -> Schema:
    return {"values": [member.value for member in info.cls]}


def _custom(info: inspect.CustomType, _: _Classes) -> Schema:
    return _by_name(info.cls)


def _class(info: Any, seen: _Classes) -> Schema:
    return {"class": seen.name(info)}


_PARTLY = (inspect.TypedDictType, inspect.DataclassType)
_DESCRIBED: Mapping[type, Callable[[Any, _Classes], Schema]] = {
    **dict.fromkeys((inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType), _collection),
    inspect.CollectionType: _collection,
    inspect.TupleType: _tuple,
    inspect.DictType: _dict,
    inspect.UnionType: _union,
    inspect.LiteralType: _literal,
    inspect.EnumType: _enum,
    inspect.CustomType: _custom,
    **dict.fromkeys((inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType), _class),
}


def can_read(wanted: TypeSchema, kept: TypeSchema) -> bool:
    """Whether every value that was written as the `kept` type can be read as the `wanted` one, with the same meaning.

    Fields with a default may be added to a class, and fields may be removed; int may become float, and a type one
    choice of several.

    >>> can_read(type_schema(float | None), type_schema(int))
    True
    >>> can_read(type_schema(int), type_schema(float))
    False
    """
    return _Reading(wanted.classes, kept.classes).can(wanted.schema, kept.schema)


class _Reading:
    """One comparison. Pairs of classes that are being compared are taken to fit, for they may refer to themselves."""

    def __init__(self, wanted: Mapping[str, ClassSchema], kept: Mapping[str, ClassSchema]) -> None:
        self._wanted, self._kept = wanted, kept
        self._assumed: set[tuple[str, str]] = set()

    def can(self, wanted: Schema, kept: Schema) -> bool:
        if _kind(kept) == "union":
            return all(self.can(wanted, one) for one in kept["union"])
        if _kind(wanted) == "union":
            return any(self.can(one, kept) for one in wanted["union"])
        if isinstance(wanted, str):
            return wanted in ("any", kept) or (wanted, kept) == ("float", "int") or self._holds_all(wanted, kept)
        compare = _COMPARED.get((_kind(wanted), _kind(kept)))
        return compare is not None and compare(self, wanted[_kind(wanted)], kept[_kind(kept)])

    def _holds_all(self, scalar: str, kept: Schema) -> bool:
        """Whether a scalar type has all the values that were listed."""
        return _kind(kept) == "values" and all(type(value).__name__ == scalar for value in kept["values"])

    def each(self, wanted: list[Schema], kept: list[Schema]) -> bool:
        return len(wanted) == len(kept) and all(map(self.can, wanted, kept))

    def classes(self, wanted: str, kept: str) -> bool:
        if (wanted, kept) in self._assumed:
            return True
        self._assumed.add((wanted, kept))
        new, old = self._wanted[wanted], self._kept[kept]
        if new.form != old.form or new.tag != old.tag:
            return False
        return self._by_position(new, old) if new.form == "array" else self._by_name(new, old)

    def _by_name(self, new: ClassSchema, old: ClassSchema) -> bool:
        if new.closed and not old.fields.keys() <= new.fields.keys():
            return False
        there = set(new.required) <= set(old.always)
        return there and all(
            self.can(schema, old.fields[name]) for name, schema in new.fields.items() if name in old.fields
        )

    def _by_position(self, new: ClassSchema, old: ClassSchema) -> bool:
        if len(new.required) > len(old.always) or (new.closed and len(old.fields) > len(new.fields)):
            return False
        return all(self.can(one, other) for one, other in zip(new.fields.values(), old.fields.values(), strict=False))


def _kind(schema: Schema) -> str:
    return "" if isinstance(schema, str) else next(iter(schema))


_COMPARED: Mapping[tuple[str, str], Callable[[_Reading, Any, Any], bool]] = {
    ("list", "list"): lambda reading, wanted, kept: reading.can(wanted, kept),
    ("list", "tuple"): lambda reading, wanted, kept: all(reading.can(wanted, one) for one in kept),
    ("tuple", "tuple"): lambda reading, wanted, kept: reading.each(wanted, kept),
    ("dict", "dict"): lambda reading, wanted, kept: reading.each(wanted, kept),
    ("values", "values"): lambda _, wanted, kept: all(value in wanted for value in kept),
    ("class", "class"): lambda reading, wanted, kept: reading.classes(wanted, kept),
    ("named", "named"): lambda _, wanted, kept: bool(wanted == kept),
}


def schema_text(of: TypeSchema) -> str:
    """A schema as people write types: `list[int | None]`, `Visit(pages: list[str], first: int)`.

    >>> schema_text(type_schema(dict[str, int | None]))
    'dict[str, int | None]'
    """
    return _text(of.schema, of.classes, ())


def _text(schema: Schema, classes: Mapping[str, ClassSchema], within: tuple[str, ...]) -> str:
    if isinstance(schema, str):
        return "None" if schema == "none" else schema
    kind = _kind(schema)
    inner = schema[kind]
    if kind == "class":
        name = str(inner).partition("#")[0]
        if inner in within:
            return name
        found = classes[inner]
        fields = (f"{field}: {_text(one, classes, (*within, inner))}" for field, one in found.fields.items())
        return f"{name}({', '.join(fields)})"
    if kind == "named":
        return str(inner)
    if kind == "values":
        return f"one of {', '.join(map(repr, inner))}"
    parts: list[str] = [_text(one, classes, within) for one in (inner if isinstance(inner, list) else [inner])]
    if kind == "union":
        return " | ".join(sorted(parts, key="None".__eq__))
    return f"{kind}[{', '.join(parts)}]"
