"""Schemas as a registry holds them."""

from dataclasses import dataclass
from typing import Literal

SchemaKind = Literal["AVRO", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses, by the name that it has there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: for Avro its JSON, for Protobuf the file's descriptor in base64."""

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema that a subject has: its id in the registry, and its version of the subject."""

    id: int
    version: int
