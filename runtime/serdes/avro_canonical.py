"""The canonical form of an Avro schema: the parts that decide how bytes are decoded, as text."""

from typing import Any


def canonical_text(schema: Any) -> str:
    """A parsed schema in one form, without what does not change what bytes stand for: documentation, aliases, defaults
    and orders. Readers and writers of bare records need the same.

    >>> canonical_text({"type": "record", "name": "Click", "fields": [{"name": "at", "type": "long", "doc": "in ms"}]})
    'Click(at: long)'
    """
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return " | ".join(map(canonical_text, schema))
    kind = schema["type"]
    if kind in ("record", "error"):
        fields = (f"{field['name']}: {canonical_text(field['type'])}" for field in schema["fields"])
        return f"{schema['name']}({', '.join(fields)})"
    if kind == "enum":
        return f"{schema['name']}[{', '.join(schema['symbols'])}]"
    plain = {
        "array": lambda: f"array[{canonical_text(schema['items'])}]",
        "map": lambda: f"map[{canonical_text(schema['values'])}]",
        "fixed": lambda: f"{schema['name']}[{schema['size']}]",
    }.get(kind, lambda: str(kind))()
    logical = [schema[name] for name in ("logicalType", "precision", "scale") if name in schema]
    return " ".join(map(str, [plain, *logical]))
