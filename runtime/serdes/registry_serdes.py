"""Serdes for messages that name their schema in a registry."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ...dsl.errors import PipelineError, SystemProblem
from ...dsl.origin import Origin, here
from ...dsl.validation import explain, require
from .framing import head, split
from .schemas import Schema, SchemaKind

if TYPE_CHECKING:
    from .registry import Registry

IN_REGISTRY = "in a registry"
"""The schema of values, each of whose messages names it."""

Read = Callable[[bytes], Any]
"""A function that reads values that were written with one schema."""

Keep = Callable[[str, Schema], int | None]
"""The version of a schema under a subject, if the subject has it."""


class RegistryFormat(Protocol):
    """Writes values of one type with one schema, and reads values that were written with any schema."""

    kind: SchemaKind

    def write(self, value: Any) -> bytes:
        """Encode a value; raises ValueError for a value that the schema does not describe."""
        ...

    def schema(self, keep: Keep) -> Schema | None:
        """The schema that values are written with. `keep` is called with each schema that it references. None if
        `keep` returns no version for one of these."""
        ...

    def reader(self, written: Schema, registry: "Registry") -> Read:
        """The function that reads values written with a schema. Both raise ValueError if such values cannot be read."""
        ...

    @property
    def form(self) -> str | None:
        """The format in which the registry returns schemas."""
        ...


class RegistryCodec:
    """Writes values of a format under a subject of a registry, and reads them by the id that each message has."""

    def __init__(
        self,
        format: RegistryFormat,
        registry: "Registry",
        subject: str,
        register: bool,
        normalize: bool,
        origin: Origin,
    ) -> None:
        self._arguments = (format, registry, subject, register, normalize, origin)
        self._format, self._registry, self._subject, self._register, self._normalize, self._origin = self._arguments
        self._head: bytes | None = None
        self._readers: dict[int, Read] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return RegistryCodec, self._arguments

    def encode(self, value: Any) -> bytes:
        """A value as a message. The first one of a process asks the registry for the schema's id."""
        data = self._format.write(value)
        if self._head is None:
            self._head = head(self._id())
        return self._head + data

    def decode(self, data: bytes) -> Any:
        """The value of a message. The first one of each id asks the registry for the schema."""
        id, rest = split(data)
        read = self._readers.get(id)
        if read is None:
            read = self._readers[id] = self._reader(id)
        return read(rest)

    def check(self, writes: bool) -> str:
        """The result of `fluvial check`; raises FluvialError if a run could not write."""
        latest = self._registry.latest(self._subject)
        if not writes:
            return f"{self._where} " + (f"has version {latest.version}" if latest else "has no schema yet")
        if not self._register:
            return f"{self._where} has the schema, with id {self._id()}"
        schema = self._format.schema(self._version)
        if latest is None or schema is None:
            return f"{self._where} will be given {'its first' if latest is None else 'the'} schema"
        if not self._registry.fits(self._subject, schema, normalize=self._normalize):
            wrong = f"{self._where} does not take the schema after its version {latest.version}"
            remedy = "change the schema as docs/guide/serdes.md says, or choose another subject"
            raise PipelineError(explain(wrong, "a schema that its compatibility level allows", remedy, self._origin))
        return f"{self._where} takes the schema after its version {latest.version}"

    @property
    def _where(self) -> str:
        return f"subject {self._subject!r} of {self._registry.url}"

    def _id(self) -> int:
        schema = self._format.schema(self._registered_version if self._register else self._version)
        if self._register and schema is not None:
            return self._registry.register(self._subject, schema, normalize=self._normalize)
        registered_schema = schema and self._registry.find(self._subject, schema, normalize=self._normalize)
        if not registered_schema:
            wrong = f"{self._where} does not have the schema"
            remedy = "register it, or leave out register=False"
            raise SystemProblem(explain(wrong, "one that was registered before", remedy, self._origin))
        return registered_schema.id

    def _registered_version(self, subject: str, schema: Schema) -> int | None:
        self._registry.register(subject, schema, normalize=self._normalize)
        return self._version(subject, schema)

    def _version(self, subject: str, schema: Schema) -> int | None:
        registered_schema = self._registry.find(subject, schema, normalize=self._normalize)
        return registered_schema.version if registered_schema else None

    def _reader(self, id: int) -> Read:
        written = self._registry.schema(id, self._format.form)
        if written.kind != self._format.kind:
            raise ValueError(f"schema {id} of {self._registry.url} is one of {written.kind}, not {self._format.kind}")
        return self._format.reader(written, self._registry)


def registered(
    what: str, format: RegistryFormat, registry: "Registry | None", subject: str | None, register: bool, normalize: bool
) -> RegistryCodec | None:
    """The serde that uses a registry, None without one; `what` names it in errors."""
    for name, value in (("register", register), ("normalize", normalize)):
        require(isinstance(value, bool), PipelineError, f"{what}: {name}={value!r}", "True or False")
    if registry is None:
        rest = "subject" if subject is not None else "register" if not register else "normalize" if normalize else ""
        remedy = "pass registry=Registry(...), or leave it out"
        require(not rest, PipelineError, f"{what}: {rest} without a registry", "a registry that it is given", remedy)
        return None
    asked = callable(getattr(registry, "schema", None))
    require(asked, PipelineError, f"{what}: registry={registry!r}", "a Registry", 'write Registry("http://HOST:PORT")')
    good = isinstance(subject, str) and bool(subject)
    remedy = 'write subject="STREAM-value", or "STREAM-key" for a key'
    require(good, PipelineError, f"{what}: subject={subject!r}", "the subject of the registry to write under", remedy)
    return RegistryCodec(format, registry, subject or "", register, normalize, here())
