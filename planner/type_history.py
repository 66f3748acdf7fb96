"""The type of kept values that were written as several types, one after the other."""

from collections.abc import Mapping

from msgspec import structs

from .type_reading import TypeComparison
from .type_schema import VERSION, ClassSchema, SchemaNode, TypeSchema, bare_name, free_name, kind_of, parted


def merged_types(stored: TypeSchema, wanted: TypeSchema) -> TypeSchema:
    """The schema of all values that may be kept once values of the `wanted` type are written beside those of the
    `stored` one, which it can read.

    What can read the merged schema can read both. So it has the fields that are gone, and a field that came later is
    not in every value.

    >>> from msgspec import defstruct
    >>> from fluvial.planner.type_schema import schema_text, type_schema
    >>> before = type_schema(defstruct("Visit", [("user", str), ("url", str, "")]))
    >>> now = type_schema(defstruct("Visit", [("user", str)]))
    >>> schema_text(merged_types(before, now))
    'Visit(user: str, url: str)'
    """
    if stored == wanted:
        return wanted
    merge = _Merge(stored, wanted)
    schema = merge.both(stored.schema, wanted.schema)
    return TypeSchema(schema=schema, classes=merge.classes, version=VERSION)


class _Merge:
    """One merge. `classes` are those of the result, by their names there."""

    def __init__(self, stored: TypeSchema, wanted: TypeSchema) -> None:
        self._stored, self._wanted, self._reading = stored.classes, wanted.classes, TypeComparison(wanted, stored)
        self._names: dict[tuple[str | None, str | None], str] = {}
        self.classes: dict[str, ClassSchema] = {}

    def both(self, stored: SchemaNode, wanted: SchemaNode) -> SchemaNode:
        """The schema of values of either; the `wanted` one reads the `stored` one."""
        if parted(wanted)[0] == "float" and parted(stored)[0] == "int":
            return _one_of([wanted, stored])  # they are kept as whole numbers, which not all that reads floats reads
        if kind_of(wanted) == "union" or kind_of(stored) == "union":
            return self._union(_choices(stored), _choices(wanted))
        if kind_of(stored) == "limited":
            stored = stored["limited"][0]
        kind, stored_kind = kind_of(wanted), kind_of(stored)
        if kind == "limited":
            inner, conditions = wanted["limited"]
            return {"limited": [self.both(stored, inner), conditions]}
        if kind == stored_kind == "class":
            return {"class": self._class(stored["class"], wanted["class"])}
        if kind == stored_kind == "enum":
            return {"enum": {**stored["enum"], **wanted["enum"]}}
        if kind == stored_kind == "flag":
            members = {**stored["flag"]["members"], **wanted["flag"]["members"]}
            return {"flag": {**wanted["flag"], "members": members}}
        if kind == "list" and stored_kind == "tuple":
            items = [self.both(item, wanted["list"]) for item in stored["tuple"]]
            return {"list": _one_of(items or [self._alone(wanted["list"], self._wanted)])}
        if kind in ("list", "set") and stored_kind in ("list", "set"):
            return {kind: self.both(stored[stored_kind], wanted[kind])}
        if kind == stored_kind and kind in ("tuple", "dict"):
            return {kind: [self.both(*pair) for pair in zip(stored[kind], wanted[kind], strict=True)]}
        return self._alone(wanted, self._wanted)

    def _union(self, stored: list[SchemaNode], wanted: list[SchemaNode]) -> SchemaNode:
        read: set[int] = set()
        choices: list[SchemaNode] = []
        for one in stored:
            number = next((n for n, choice in enumerate(wanted) if self._reading.can(choice, one)), None)
            if number is None:  # listed values, of which each is read as another type
                choices.append(self._alone(one, self._stored))
            else:
                read.add(number)
                choices.append(self.both(one, wanted[number]))
        return _one_of(
            choices + [self._alone(choice, self._wanted) for n, choice in enumerate(wanted) if n not in read]
        )

    def _class(self, stored: str, wanted: str) -> str:
        if (stored, wanted) in self._names:
            return self._names[stored, wanted]
        name = self._named((stored, wanted), wanted)
        old, new = self._stored[stored], self._wanted[wanted]
        # Where fields go by their order, those at the end are the ones that only the longer class has.
        names = dict.fromkeys((*new.fields, *old.fields))
        self.classes[name] = ClassSchema(
            form=new.form,
            fields={field: self._field(field, old, new) for field in names},
            required=new.required,
            always=[field for field in names if field in new.always and field in old.always],
            closed=new.closed,
            tag=new.tag,
            tag_field=new.tag_field,
            defaults={field: old.defaults[field] for field in old.omitted if field in old.defaults} | new.defaults,
            omitted=[field for field in names if field in new.omitted or field in old.omitted],
        )
        return name

    def _field(self, name: str, old: ClassSchema, new: ClassSchema) -> SchemaNode:
        if name not in old.fields:
            return self._alone(new.fields[name], self._wanted)
        if name not in new.fields:
            return self._alone(old.fields[name], self._stored)
        return self.both(old.fields[name], new.fields[name])

    def _named(self, pair: tuple[str | None, str | None], like: str) -> str:
        name = free_name(bare_name(like), self._names.values())
        self._names[pair] = name
        return name

    def _alone(self, schema: SchemaNode, classes: Mapping[str, ClassSchema]) -> SchemaNode:
        """A schema of one side alone, with its classes."""
        kind = kind_of(schema)
        if kind == "class":
            return {"class": self._lone_class(schema["class"], classes)}
        if kind in ("list", "set"):
            return {kind: self._alone(schema[kind], classes)}
        if kind in ("tuple", "dict", "union"):
            return {kind: [self._alone(one, classes) for one in schema[kind]]}
        if kind == "limited":
            inner, conditions = schema[kind]
            return {kind: [self._alone(inner, classes), conditions]}
        return schema

    def _lone_class(self, name: str, classes: Mapping[str, ClassSchema]) -> str:
        pair = (name, None) if classes is self._stored else (None, name)
        if pair in self._names:
            return self._names[pair]
        merged = self._named(pair, name)
        described = classes[name]
        fields = {field: self._alone(one, classes) for field, one in described.fields.items()}
        self.classes[merged] = structs.replace(described, fields=fields)
        return merged


def _choices(schema: SchemaNode) -> list[SchemaNode]:
    return list(schema["union"]) if kind_of(schema) == "union" else [schema]


def _one_of(choices: list[SchemaNode]) -> SchemaNode:
    """A choice of schemas, each named once."""
    flat = [one for choice in choices for one in _choices(choice)]
    once = [one for number, one in enumerate(flat) if one not in flat[:number]]
    return once[0] if len(once) == 1 else {"union": once}
