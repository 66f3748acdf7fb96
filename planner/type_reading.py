"""Whether kept values of one type can be read as another type with the same meaning, and if not, why."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from .type_schema import FIRST_VERSION, ClassSchema, SchemaNode, TypeSchema, kind_of, parted, text_of


def can_read(wanted: TypeSchema, stored: TypeSchema) -> bool:
    """Whether every value that was written as the `stored` type can be read as the `wanted` one, with the same meaning.

    Fields with a default may be added to a class, and fields may be removed, those of arrays at the end; int may become
    float, and a type one choice of several.

    >>> from fluvial.planner.type_schema import type_schema
    >>> can_read(type_schema(float | None), type_schema(int))
    True
    >>> can_read(type_schema(int), type_schema(float))
    False
    """
    return TypeComparison(wanted, stored).obstacle(wanted.schema, stored.schema) is None


def obstacle(wanted: TypeSchema, stored: TypeSchema) -> str | None:
    """What keeps values of the `stored` type from being read as the `wanted` one; None where nothing does, empty where
    the two types say it.

    >>> from fluvial.planner.type_schema import type_schema
    >>> obstacle(type_schema(list[str]), type_schema(list[int]))
    'items: was int, is str'
    """
    difference = TypeComparison(wanted, stored).obstacle(wanted.schema, stored.schema)
    if difference is None:
        return None
    return "" if difference.types and not difference.path else ": ".join((*difference.path, difference.why))


class Obstacle(NamedTuple):
    """Why values cannot be read, and where in them. `types` says that the two types there are all that there is to
    say."""

    why: str
    types: bool = False
    path: tuple[str, ...] = ()

    def within(self, part: str) -> "Obstacle":
        """The same obstacle, seen from one level further out: `part` comes before its path."""
        return self._replace(path=(part, *self.path))


class TypeComparison:
    """One comparison. Pairs of classes that are being compared are taken to fit, for they may refer to themselves."""

    def __init__(self, wanted: TypeSchema, stored: TypeSchema) -> None:
        self._wanted, self._stored = wanted.classes, stored.classes
        self._first = stored.version == FIRST_VERSION
        self._assumed: list[tuple[str, str, bool]] = []
        self._distinct = False  # whether values that differ must stay so, as keys of a dict must

    def can(self, wanted: SchemaNode, stored: SchemaNode) -> bool:
        """Whether all stored values can be read as the wanted type."""
        return self.obstacle(wanted, stored) is None

    def obstacle(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """What keeps a part of values from being read, None where nothing does."""
        wanted, stored = _with_any(wanted), _with_any(stored)
        stored_kind, wanted_kind = kind_of(stored), kind_of(wanted)
        # The stored union first: each of its types has to find one that reads it, and not the reverse.
        if stored_kind == "union":
            return self._first_of(wanted, stored, (self.obstacle(wanted, one) for one in stored["union"]))
        if wanted_kind == "union":
            return self._by_one_of(wanted, stored)
        if stored_kind == "limited" or wanted_kind == "limited":
            return self._limited(wanted, stored)
        if stored == "metadata":
            return None  # version 1 does not tell what it was
        if isinstance(wanted, str):
            return None if self._as_scalar(wanted, stored) else self._types(wanted, stored)
        compare = _COMPARED.get((wanted_kind, stored_kind or str(stored)))
        if compare is None:
            return self._types(wanted, stored)
        obstacle = compare(self, wanted[wanted_kind], stored if stored_kind == "" else stored[stored_kind])
        return self._types(wanted, stored) if obstacle is _TYPES else obstacle

    def _types(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle:
        return Obstacle(f"was {text_of(stored, self._stored)}, is {text_of(wanted, self._wanted)}", types=True)

    def _of_both(self, wanted: SchemaNode, stored: SchemaNode, obstacle: Obstacle | None) -> Obstacle | None:
        """The obstacle, described by both types as a whole unless it says more."""
        whole = obstacle is not None and obstacle.types and not obstacle.path
        return self._types(wanted, stored) if whole else obstacle

    def _first_of(
        self, wanted: SchemaNode, stored: SchemaNode, obstacles: Iterable[Obstacle | None]
    ) -> Obstacle | None:
        """The first that there is, described by both types as a whole unless it says more."""
        return self._of_both(wanted, stored, next(filter(None, obstacles), None))

    def _by_one_of(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """Whether one of several types reads all values; of values that are listed each may have its own."""
        if kind_of(stored) == "values" and len(stored["values"]) > 1:
            each = [{"values": [value]} for value in stored["values"]]
            return self._first_of(wanted, stored, (self.obstacle(wanted, one) for one in each))
        choices = wanted["union"]
        if parted(stored)[0] == "int" and any(map(_lists_numbers, choices)):
            # Whole numbers are looked for among those that are listed alone, and are no floats.
            choices = [one for one in choices if parted(one)[0] != "float"]
        obstacles = [self.obstacle(one, stored) for one in choices]
        if None in obstacles:
            return None
        # The choice that came furthest is the one that was meant, so its obstacle says most.
        specific = [one for one in obstacles if one is not None and (one.path or not one.types)]
        return max(specific, key=lambda obstacle: len(obstacle.path)) if specific else self._types(wanted, stored)

    def _limited(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """Compare types of which at least one has conditions."""
        plain, conditions = parted(wanted)
        stored_plain, stored_conditions = parted(stored)
        obstacle = self.obstacle(plain, stored_plain)
        if obstacle is None and not (self._first or _implied(conditions, stored_conditions)):
            return self._types(wanted, stored)
        return self._of_both(wanted, stored, obstacle)

    def _as_scalar(self, wanted: str, stored: SchemaNode) -> bool:
        if wanted == stored:
            return True
        if isinstance(stored, str) and stored == _NARROWER.get(wanted):
            return not (self._distinct and wanted == "float")  # large whole numbers become one
        if kind_of(stored) == "flag":
            return wanted in ("any", "int")
        values = _values(stored)
        if values is not None:
            return wanted == "any" or all(_SCALARS.get(type(value)) == wanted for value in values)
        return wanted == "any" and self._plain(stored)

    def _plain(self, stored: SchemaNode) -> bool:
        """Whether values are the same where they are read without a type."""
        kind = kind_of(stored)
        if kind == "":
            return stored in _PLAIN
        if kind == "dict":
            return parted(stored["dict"][0])[0] == "str" and self.can("any", stored["dict"][1])
        inner = stored[kind]
        return kind in ("list", "tuple") and all(
            self.can("any", one) for one in (inner if isinstance(inner, list) else [inner])
        )

    def items(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """The obstacle between two types of items, which stand within a collection."""
        obstacle = self.obstacle(wanted, stored)
        return None if obstacle is None else obstacle.within("items")

    def set_of_list(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """Version 1 tells sets as lists; what was a list may hold items more than once."""
        return self.items(wanted, stored) if self._first else _TYPES

    def all_items(self, wanted: SchemaNode, stored: list[SchemaNode]) -> Obstacle | None:
        """The first obstacle to read items of any of several types, as of a tuple, as one type."""
        return next(filter(None, (self.items(wanted, one) for one in stored)), None)

    def tuples(self, wanted: list[SchemaNode], stored: list[SchemaNode]) -> Obstacle | None:
        """The obstacle between two tuples, item by item; they must have one length."""
        if len(wanted) != len(stored):
            return _TYPES
        return self._in_parts((f"item {n}", *pair) for n, pair in enumerate(zip(wanted, stored, strict=True), 1))

    def sets(self, wanted: SchemaNode, stored: SchemaNode) -> Obstacle | None:
        """The obstacle between the items of two sets, which must stay distinct."""
        with self._all_distinct():
            return self.items(wanted, stored)

    def dicts(self, wanted: list[SchemaNode], stored: list[SchemaNode]) -> Obstacle | None:
        """The obstacle between the keys of two dicts, else between their values."""
        with self._all_distinct():
            obstacle = self._in_parts([("keys", wanted[0], stored[0])])
        return obstacle or self._in_parts([("values", wanted[1], stored[1])])

    @contextmanager
    def _all_distinct(self) -> Iterator[None]:
        before, self._distinct = self._distinct, True
        try:
            yield
        finally:
            self._distinct = before

    def _in_parts(self, parts: Iterable[tuple[str, SchemaNode, SchemaNode]]) -> Obstacle | None:
        for part, wanted, stored in parts:
            obstacle = self.obstacle(wanted, stored)
            if obstacle is not None:
                return obstacle.within(part)
        return None

    def classes(self, wanted: str, stored: str) -> Obstacle | None:
        """The obstacle between two classes, by name: their layout, their fields, then defaults."""
        pair = (wanted, stored, self._distinct)
        if pair in self._assumed:
            return None
        before = len(self._assumed)
        self._assumed.append(pair)
        new, old = self._wanted[wanted], self._stored[stored]
        obstacle = _layout(new, old, self._first) or self._fields(new, old) or _defaults(new, old)
        if obstacle is not None:
            del self._assumed[before:]  # what was found on the way was found on an assumption that does not hold
        return obstacle

    def _fields(self, new: ClassSchema, old: ClassSchema) -> Obstacle | None:
        there = (name for name in new.fields if name in old.fields)
        return self._in_parts((f"field {name}", new.fields[name], old.fields[name]) for name in there)


def _layout(new: ClassSchema, old: ClassSchema, first: bool) -> Obstacle | None:
    """What two classes differ in besides the types of their fields, of which the old one is named in the `first`
    version or not."""
    if new.form != old.form:
        return Obstacle(f"was {_FORMS[old.form]}, is {_FORMS[new.form]}")
    if new.tag != old.tag:
        return Obstacle(f"tag: was {_quoted(old.tag)}, is {_quoted(new.tag)}")
    obstacle = _by_position(new, old) if new.form == "array" else _by_name(new, old, first)
    lacking = next((name for name in new.required if name not in old.always), None)
    if obstacle is None and lacking is not None:
        return Obstacle(f"field {lacking}: it has no default, and not every kept value has it")
    return obstacle


def _by_name(new: ClassSchema, old: ClassSchema, first: bool) -> Obstacle | None:
    if new.tag_field != old.tag_field and not first:
        return Obstacle(f"tag_field: was {_quoted(old.tag_field)}, is {_quoted(new.tag_field)}")
    refused = next((name for name in old.fields if new.closed and name not in new.fields), None)
    if refused is not None:
        return Obstacle(f"field {refused}: it was written, and forbid_unknown_fields refuses it")
    return None


def _defaults(new: ClassSchema, old: ClassSchema) -> Obstacle | None:
    for name in old.omitted:
        before, now = old.defaults.get(name), new.defaults.get(name)
        if before and now and not _same_default(before, now):
            return Obstacle(f"field {name}: its default was {before}, is {now}, and values were kept without it")
    return None


def _by_position(new: ClassSchema, old: ClassSchema) -> Obstacle | None:
    for number, (name, before) in enumerate(zip_longest(new.fields, old.fields), 1):
        if name is None and new.closed:
            return Obstacle(f"field {before}: it was written, and there is no place for it any more")
        if None not in (name, before) and name != before:
            return Obstacle(f"field {number}, which is kept by its position: was {before}, is {name}")
    return None


_TYPES = Obstacle("", types=True)
_FORMS = {"array": "an array of its fields", "map": "a map of its fields by name"}
_NARROWER = {"float": "int", "bytes": "bytearray", "bytearray": "bytes"}
"""What is read as another type and means the same."""
_PLAIN = {"bool", "int", "float", "str", "none", "any"}
_SCALARS: Mapping[type, str] = {int: "int", str: "str", type(None): "none"}


def _quoted(value: Any) -> str:
    return "none" if value is None else repr(value)


_INFINITE = float("inf")


def _implied(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether values that meet the `stored` conditions meet those that are `wanted`."""
    return all(_IMPLIED[name](value, stored) for name, value in wanted.items())


_IMPLIED: Mapping[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "ge": lambda least, stored: max(stored.get("ge", -_INFINITE), stored.get("gt", -_INFINITE)) >= least,
    "gt": lambda least, stored: stored.get("ge", -_INFINITE) > least or stored.get("gt", -_INFINITE) >= least,
    "le": lambda most, stored: min(stored.get("le", _INFINITE), stored.get("lt", _INFINITE)) <= most,
    "lt": lambda most, stored: stored.get("le", _INFINITE) < most or stored.get("lt", _INFINITE) <= most,
    "multiple_of": lambda number, stored: "multiple_of" in stored and stored["multiple_of"] % number == 0,
    "min_length": lambda least, stored: stored.get("min_length", 0) >= least,
    "max_length": lambda most, stored: stored.get("max_length", _INFINITE) <= most,
    "pattern": lambda pattern, stored: stored.get("pattern") == pattern,
    "tz": lambda zone, stored: stored.get("tz") == zone,
}


def _values(schema: SchemaNode) -> list[Any] | None:
    """The values that are listed; None where none are."""
    kind = kind_of(schema)
    if kind == "values":
        return list(schema["values"])
    return list(schema["enum"].values()) if kind == "enum" else None


def _lists_numbers(schema: SchemaNode) -> bool:
    return kind_of(schema) == "flag" or any(type(value) is int for value in _values(schema) or ())


def _with_any(schema: SchemaNode) -> SchemaNode:
    """A choice that has `any` is read as `any` alone."""
    return "any" if kind_of(schema) == "union" and "any" in schema["union"] else schema


def _same_default(one: str, other: str) -> bool:
    try:
        return one == other or msgspec.json.decode(one) == msgspec.json.decode(other)
    except msgspec.DecodeError:
        return False


def _enums(_: TypeComparison, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> Obstacle | None:
    """Members may be renamed, but none may take the value of another."""
    moved = any(name in wanted and wanted[name] != value for name, value in stored.items())
    return _TYPES if moved or not set(stored.values()) <= set(wanted.values()) else None


def _flags(_: TypeComparison, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> Obstacle | None:
    """As of an enum. Bits that are no member's are read as they were written, if both take them alike."""
    alike = wanted["boundary"] == stored["boundary"] or stored["boundary"] == "strict"
    return _enums(_, wanted["members"], stored["members"]) if alike else _TYPES


def _flags_of_enum(_: TypeComparison, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> Obstacle | None:
    """Records of former versions tell flags as enums."""
    return _enums(_, wanted["members"], stored)


def _listed(there: bool) -> Obstacle | None:
    return None if there else _TYPES


_COMPARED: Mapping[tuple[str, str], Callable[[TypeComparison, Any, Any], Obstacle | None]] = {
    ("list", "list"): TypeComparison.items,
    ("list", "set"): TypeComparison.items,
    ("set", "set"): TypeComparison.sets,
    ("set", "list"): TypeComparison.set_of_list,
    ("list", "tuple"): TypeComparison.all_items,
    ("tuple", "tuple"): TypeComparison.tuples,
    ("dict", "dict"): TypeComparison.dicts,
    ("values", "values"): lambda _, wanted, stored: _listed(set(stored) <= set(wanted)),
    ("values", "enum"): lambda _, wanted, stored: _listed(set(stored.values()) <= set(wanted)),
    ("values", "none"): lambda _, wanted, __: _listed(None in wanted),
    ("enum", "values"): lambda _, wanted, stored: _listed(set(stored) <= set(wanted.values())),
    ("enum", "enum"): _enums,
    ("flag", "flag"): _flags,
    ("flag", "enum"): _flags_of_enum,
    ("class", "class"): TypeComparison.classes,
    ("named", "named"): lambda _, wanted, stored: _listed(wanted == stored),
}
