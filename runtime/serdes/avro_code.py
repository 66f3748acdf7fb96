"""Builds the text of a function that writes or reads values of one schema."""

from dataclasses import dataclass, field
from typing import Any

from .avro_types import TYPES, Unfit, unfit

_MOST_PARTS = 500
"""Most parts of a schema for which a function is compiled: with more the code would be large."""


@dataclass
class Code:
    """The text of a function that is being built, and the objects that it uses, by name. `open` are the enclosing
    records."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    depth: int = 2
    count: int = 0
    known: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Add a line of code at the present depth."""
        self.lines.append("    " * self.depth + text)

    def name(self, of: Any = None) -> str:
        """A new name, bound to an object if one is given."""
        self.count += 1
        if self.count > _MOST_PARTS:
            raise Unfit
        name = f"v{self.count}"
        if of is not None:
            self.names[name] = of
        return name

    def function(self, argument: str, tools: dict[str, Any], library: Any) -> Any:
        """Compile the function, which uses `tools` by name. If it raises, the library decides about the value."""
        env = {**self.names, **tools, "Unfit": Unfit, "library": library}
        rest = ["    except Exception:", f"        return library({argument})"]
        try:
            exec("\n".join([f"def compiled({argument}):", "    try:", *self.lines, *rest]), env)
        except SyntaxError as error:  # too many nested blocks
            raise Unfit from error
        return env["compiled"]

    def resolved(self, schema: Any) -> tuple[str, dict[str, Any]]:
        """The name of a schema's type, and the schema with its attributes."""
        if isinstance(schema, list):
            return "union", {"branches": schema}
        if isinstance(schema, str):
            return (schema, {}) if schema in TYPES else self.resolved(self.known.get(schema) or unfit())
        if "name" in schema:
            self.known[schema["name"]] = schema
        return schema["type"], schema

    def fields(self, schema: Any, type: Any) -> list[tuple[dict[str, Any], Any]]:
        """The fields of a record, each with that of the type, if it has one."""
        if schema["name"] in self.open or len(schema["fields"]) == 0:
            raise Unfit
        named = {one.encode_name: one for one in getattr(type, "fields", ())}
        return [(one, named.get(one["name"])) for one in schema["fields"]]
