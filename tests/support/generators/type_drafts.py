"""Random types of kept values, as drafts that can be changed a little, and made into types."""

from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
from hypothesis import strategies as st
from msgspec import Meta

MISSING: Any = object()


@dataclass(frozen=True)
class Field:
    name: str
    kind: "Draft"
    default: Any = MISSING


@dataclass(frozen=True)
class Draft:
    """A type: a scalar, or a `kind` with `parts`, or a class with fields and options."""

    kind: str
    parts: tuple["Draft", ...] = ()
    fields: tuple[Field, ...] = ()
    options: frozenset[str] = frozenset()
    values: tuple[Any, ...] = ()


SCALARS: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "bytes": bytes,
    "bytearray": bytearray,
    "none": None,
    "any": Any,
}
CLASSES = ("struct", "dataclass", "slots", "namedtuple", "typeddict")
OPTIONS = ("array_like", "omit_defaults", "forbid_unknown_fields", "tag", "tag=other", "tag_field")
CONDITIONS: list[dict[str, Any]] = [{"ge": 0}, {"gt": 0}, {"ge": 5}, {"le": 100}, {"multiple_of": 2}]
LENGTHS: list[dict[str, Any]] = [{"min_length": 1}, {"max_length": 2}, {"max_length": 3}]
_METAS = {tuple(one.items()): Meta(**one) for one in (*CONDITIONS, *LENGTHS)}
"""Made once: msgspec has crashed on conditions that were collected as garbage."""
DEFAULTS: dict[str, list[Any]] = {"int": [0, 1], "float": [0.0, 1.0], "str": ["", "a"], "bool": [False], "none": [None]}


def type_of(draft: Draft) -> Any:
    """The type of a draft; raises TypeError where msgspec has none."""
    parts = [type_of(part) for part in draft.parts]
    if draft.kind in SCALARS:
        return SCALARS[draft.kind]
    if draft.kind in CLASSES:
        return _class(draft)
    made: Any
    if draft.kind == "union":
        if {"tuple", "limited"} <= _choices(draft):
            raise TypeError("msgspec crashes on a choice of a tuple of some length and a type with conditions")
        made = parts[0]
        for part in parts[1:]:
            made = made | part
        return made
    if draft.kind == "literal":
        return Literal[draft.values]
    if draft.kind == "enum":
        return Enum("Choice", dict(draft.values))
    if draft.kind == "limited":
        return Annotated[parts[0], _METAS[draft.values]]
    if draft.kind == "set" and "bytearray" in repr(draft.parts):
        raise TypeError("no set holds a bytearray")
    if draft.kind == "many":
        return tuple.__class_getitem__((parts[0], ...))
    if draft.kind == "tuple":
        return tuple[tuple(parts)]  # type: ignore[misc]
    return {"list": list, "set": set, "dict": dict}[draft.kind][tuple(parts)]  # type: ignore[index]


def _choices(draft: Draft) -> set[str]:
    """The kinds of types that a draft is a choice of."""
    return {draft.kind} if draft.kind != "union" else {kind for part in draft.parts for kind in _choices(part)}


def _class(draft: Draft) -> Any:
    made = [(one.name, type_of(one.kind), one.default) for one in draft.fields]
    if draft.kind == "struct":
        given: list[Any] = [(n, kind) if default is MISSING else (n, kind, default) for n, kind, default in made]
        options: dict[str, Any] = {name: True for name in draft.options if "=" not in name and name != "tag_field"}
        if "tag=other" in draft.options:
            options["tag"] = "other"
        if "tag" in options and "tag_field" in draft.options:
            options["tag_field"] = "kind"
        return msgspec.defstruct("Made", given, **options)
    if draft.kind in ("dataclass", "slots"):
        return make_dataclass(
            "Made",
            [(n, kind) if default is MISSING else (n, kind, field(default=default)) for n, kind, default in made],
            slots=draft.kind == "slots",
        )
    if draft.kind == "typeddict":
        typed: Any = TypedDict
        return typed("Made", {n: kind if d is MISSING else NotRequired[kind] for n, kind, d in made})
    tuple_class: Any = NamedTuple("Made", [(n, kind) for n, kind, _ in made])  # type: ignore[misc]
    defaults = {n: default for n, _, default in made if default is not MISSING}
    tuple_class._field_defaults = defaults
    tuple_class.__new__.__defaults__ = tuple(defaults.values())
    return tuple_class


def parts_of(value: Any) -> dict[str, Any] | None:
    """The fields of a value of a class, by name; None for other values."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    return None


def same(before: Any, now: Any) -> bool:
    """Whether what was read says the same as what was written, as far as both have the same fields."""
    old, new = parts_of(before), parts_of(now)
    if old is not None or new is not None:
        # A TypedDict has its fields as a dict.
        old = before if old is None else old
        new = now if new is None else new
        return isinstance(old, dict) and isinstance(new, dict) and _same_fields(old, new)
    if isinstance(before, Enum) or isinstance(now, Enum):
        return _same_members(before, now)
    if isinstance(before, dict):
        return isinstance(now, dict) and _same_fields(before, now) and (_typed(before) or len(before) == len(now))
    if isinstance(before, set):
        return len(before) == len(now) and all(any(same(one, other) for other in now) for one in before)
    if isinstance(before, list | tuple):
        return len(before) == len(now) and all(map(same, before, now))
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    return bool(before == now)


def _same_fields(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return all(same(value, new[name]) for name, value in old.items() if name in new)


def _typed(value: dict[Any, Any]) -> bool:
    """Whether a dict may be a TypedDict, whose fields may go: drafts name fields so, and no keys."""
    return all(isinstance(name, str) and name in "abcd" for name in value)


def _same_members(before: Any, now: Any) -> bool:
    if isinstance(before, Enum) and isinstance(now, Enum):
        renamed = before.name not in type(now).__members__
        return before.value == now.value and (renamed or before.name == now.name)
    return bool(getattr(before, "value", before) == getattr(now, "value", now))


def scalars() -> st.SearchStrategy[Draft]:
    return st.sampled_from([name for name in SCALARS if name != "any"]).map(Draft)


def _limited() -> st.SearchStrategy[Draft]:
    numbers = st.builds(
        lambda kind, conditions: Draft("limited", (Draft(kind),), values=tuple(conditions.items())),
        st.sampled_from(["int", "float"]),
        st.sampled_from(CONDITIONS),
    )
    texts = st.builds(
        lambda part, conditions: Draft("limited", (part,), values=tuple(conditions.items())),
        st.sampled_from([Draft("str"), Draft("bytes"), Draft("list", (Draft("int"),))]),
        st.sampled_from(LENGTHS),
    )
    return numbers | texts


def _listed() -> st.SearchStrategy[Draft]:
    members = st.sampled_from([(("A", 1), ("B", 2)), (("B", 1), ("A", 2)), (("A", 1), ("C", 2)), (("A", "a"),)])
    literals = st.sampled_from([("a",), ("a", "b"), ("a", None), (1, 2), (1, "a")])
    return members.map(lambda values: Draft("enum", values=values)) | literals.map(
        lambda values: Draft("literal", values=values)
    )


@st.composite
def _classes(draw: st.DrawFn, inner: st.SearchStrategy[Draft]) -> Draft:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=3))
    kind = draw(st.sampled_from(CLASSES))
    options = draw(st.sets(st.sampled_from(OPTIONS), max_size=3)) if kind == "struct" else set[str]()
    return ordered(Draft(kind, fields=tuple(draw(_field(name, inner)) for name in names), options=frozenset(options)))


@st.composite
def _field(draw: st.DrawFn, name: str, inner: st.SearchStrategy[Draft]) -> Field:
    kind = draw(inner)
    if not draw(st.booleans()):
        return Field(name, kind)
    if kind.kind in DEFAULTS:
        return Field(name, kind, draw(st.sampled_from(DEFAULTS[kind.kind])))
    return Field(name, kind if kind.kind == "none" else Draft("union", (kind, Draft("none"))), None)


def ordered(draft: Draft) -> Draft:
    """The same, with the fields that have defaults behind the others, as Python wants them."""
    return replace(draft, fields=tuple(sorted(draft.fields, key=lambda one: one.default is not MISSING)))


def drafts() -> st.SearchStrategy[Draft]:
    """Types with few choices each, so that two of them often have to do with each other."""
    return st.recursive(
        scalars() | _limited() | _listed(),
        lambda inner: (
            st.builds(lambda kind, part: Draft(kind, (part,)), st.sampled_from(["list", "set", "many"]), inner)
            | inner.map(lambda part: Draft("dict", (Draft("str"), part)))
            | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Draft("tuple", tuple(parts)))
            | st.lists(inner, min_size=2, max_size=3).map(lambda parts: Draft("union", tuple(parts)))
            | _classes(inner)
        ),
        max_leaves=4,
    )


@st.composite
def changed(draw: st.DrawFn, draft: Draft) -> Draft:
    """A draft with a change or two, as a user makes them."""
    for _ in range(draw(st.integers(0, 2))):
        draft = draw(_once_changed(draft))
    return draft


@st.composite
def _once_changed(draw: st.DrawFn, draft: Draft) -> Draft:
    if draft.fields and draw(st.sampled_from([False, True, True, True])):
        return ordered(draw(_class_changed(draft)))
    deeper: bool = draw(st.booleans())
    if draft.parts and deeper:
        index = int(draw(st.integers(0, len(draft.parts) - 1)))
        parts = list(draft.parts)
        parts[index] = draw(_once_changed(parts[index]))
        return replace(draft, parts=tuple(parts))
    return draw(
        st.sampled_from(
            [
                Draft("union", (draft, Draft("none"))),
                Draft({"int": "float", "bytes": "bytearray"}.get(draft.kind, "any")),
                replace(draft, kind={"list": "set", "set": "list", "tuple": "many"}.get(draft.kind, draft.kind)),
                draft.parts[0] if draft.parts else draft,
            ]
        )
        | drafts()
    )


@st.composite
def _class_changed(draw: st.DrawFn, draft: Draft) -> Draft:
    made = list(draft.fields)
    index = draw(st.integers(0, len(made) - 1))
    how = draw(st.sampled_from(["remove", "add", "swap", "type", "default", "name", "option", "kind", "required"]))
    if how == "remove" and len(made) > 1:
        del made[index]
    elif how == "add" and (free := [name for name in "abcd" if name not in {one.name for one in made}]):
        made.insert(index, draw(_field(draw(st.sampled_from(free)), scalars())))
    elif how == "swap":
        made.reverse()
    elif how == "type":
        made[index] = replace(made[index], kind=draw(_once_changed(made[index].kind)), default=MISSING)
    elif how == "default":
        made[index] = draw(_field(made[index].name, st.just(made[index].kind)))
    elif how == "name" and (free := [name for name in "abcd" if name not in {one.name for one in made}]):
        made[index] = replace(made[index], name=free[0])
    elif how == "required":
        made[index] = replace(made[index], default=MISSING)
    elif how == "option" and draft.kind == "struct":
        return replace(draft, options=draft.options ^ {draw(st.sampled_from(OPTIONS))})
    elif how == "kind":
        return replace(draft, kind=draw(st.sampled_from(CLASSES)), options=frozenset())
    return replace(draft, fields=tuple(made))


_DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 12),
    "float": st.sampled_from([0.0, 1.0, 2.5, 10.0]),
    "str": st.text("ab", max_size=3),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=3),
    "bytearray": st.binary(max_size=3),
    "none": st.none(),
    "any": st.sampled_from([None, 1, 2.5, "a", True, [1], {"x": 1}]),
}


@st.composite
def raw_values(draw: st.DrawFn, draft: Draft) -> Any:
    """What `msgspec.convert` makes a value of the draft's type of, most times."""
    if draft.kind in _DRAWN:
        return draw(_DRAWN[draft.kind])
    if draft.kind in ("list", "set", "many"):
        return draw(st.lists(raw_values(draft.parts[0]), max_size=3))
    if draft.kind == "dict":
        return draw(st.dictionaries(st.text("xyz", min_size=1, max_size=2), raw_values(draft.parts[1]), max_size=2))
    if draft.kind == "tuple":
        return [draw(raw_values(part)) for part in draft.parts]
    if draft.kind == "union":
        return draw(st.one_of(*map(raw_values, draft.parts)))
    if draft.kind == "literal":
        return draw(st.sampled_from(draft.values))
    if draft.kind == "enum":
        return draw(st.sampled_from([value for _, value in draft.values]))
    if draft.kind == "limited":
        return draw(raw_values(draft.parts[0]))
    return draw(_raw_fields(draft))


@st.composite
def _raw_fields(draw: st.DrawFn, draft: Draft) -> Any:
    array = draft.kind == "namedtuple" or "array_like" in draft.options
    tagged = [] if draft.kind != "struct" else [name for name in ("tag", "tag=other") if name in draft.options]
    tag = {"tag": "Made", "tag=other": "other"}[tagged[-1]] if tagged else None
    fields: dict[str, Any] = {}
    for one in draft.fields:
        if one.default is not MISSING and draw(st.booleans()):
            if array:
                break
            continue
        fields[one.name] = draw(raw_values(one.kind))
    if array:
        return [*([] if tag is None else [tag]), *fields.values()]
    tag_field = "kind" if "tag_field" in draft.options and "tag" in draft.options else "type"
    return fields if tag is None else {tag_field: tag, **fields}
