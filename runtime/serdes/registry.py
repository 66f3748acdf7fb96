"""The client of a schema registry: its address, its settings and its requests."""

import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import schema_registry as client
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from ...dsl.errors import SystemProblem, UsageError
from ...dsl.text import error_text
from ...dsl.validation import explain
from .schemas import Reference, RegisteredSchema, Schema

T = TypeVar("T")

_URL = re.compile(r"https?://[^\s,@]+(,\s*https?://[^\s,@]+)*")
_SECRET = re.compile(r"password|secret|user\.info|token|key\.pem")
# From a dropped connection, which the next attempt mends, to a server that starts, and is not to be flooded.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# One that hangs is given up, since the next may reach another of the servers in the URL.
_ONE_REQUEST = 10.0

_REFUSED: Mapping[str, str] = {
    "url": "the first argument says it",
    "max.retries": "give_up_after says how long a request is made again",
    "retries.wait.ms": "give_up_after says how long a request is made again",
    "retries.max.wait.ms": "give_up_after says how long a request is made again",
}
"""Settings of the client that are not for users, with the reason."""

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses after which a request is repeated."""

_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
"""The registry's own codes."""


class Registry:
    """A schema registry that speaks Confluent's HTTP API. Connects with the first request of a process; can be shared
    by threads, and pickled.

    `url` is `http://HOST:PORT` or `https://HOST:PORT`; more after commas are asked where the first does not answer.
    `conf` holds settings of Confluent's client: `basic.auth.user.info`, `ssl.ca.location`, `bearer.auth.token` and so
    on. No secret among them is ever shown.

    A request that gets no answer is made again for `give_up_after`; then `SystemProblem` is raised, which ends a run
    under every error policy: no message is to blame. Raises UsageError for settings that the client refuses.

    >>> Registry("https://schemas:8081", conf={"basic.auth.user.info": "ada:secret"})
    Registry('https://schemas:8081')
    """

    def __init__(
        self, url: str, *, conf: Mapping[str, Any] | None = None, give_up_after: timedelta = timedelta(seconds=30)
    ) -> None:
        if not isinstance(give_up_after, timedelta) or give_up_after < timedelta(milliseconds=100):
            raise UsageError(explain(f"give_up_after={give_up_after!r}", "a timedelta of at least 100 ms"))
        self.url = _checked(url)
        self._conf = dict(conf or {})
        for name in self._conf.keys() & _REFUSED.keys():
            wrong = f"the setting {name!r} of a registry is not yours to choose"
            raise UsageError(explain(wrong, _REFUSED[name], "leave it out"))
        self._patience = give_up_after
        self._lock = Lock()
        self._client: SchemaRegistryClient | None = None
        self._process = 0
        if self._conf:
            self._connected()  # raises UsageError for a wrong setting

    def __reduce__(self) -> tuple[Any, ...]:
        return _of, (self.url, self._conf, self._patience)

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, id: int, form: str | None = None) -> Schema:
        """The schema with an id, in a format of the registry; raises ValueError if the registry has none."""
        try:
            return _ours(self._ask(lambda asked: asked.get_schema(id, fmt=form)))
        except SchemaRegistryError as error:
            if error.error_code == _NO_SCHEMA:
                raise ValueError(f"the message names schema {id}, which {self.url} does not have") from None
            raise self._refused(f"give schema {id}", error) from None

    def referenced(self, schema: Schema) -> list[Schema]:
        """The schemas that a schema uses, each after those that it uses itself."""
        schemas: dict[Reference, Schema] = {}
        self._collect(schema, schemas)
        return list(schemas.values())

    def _collect(self, schema: Schema, schemas: dict[Reference, Schema]) -> None:
        for reference in schema.references:
            if reference not in schemas:
                used = self._version(reference.subject, reference.version)
                self._collect(used, schemas)
                schemas[reference] = used

    def register(self, subject: str, schema: Schema, *, normalize: bool) -> int:
        """Give a subject a schema, which it may have already; the schema's id. Raises SystemProblem where the registry
        refuses it."""
        try:
            return self._ask(lambda asked: asked.register_schema(subject, _theirs(schema), normalize))
        except SchemaRegistryError as error:
            raise self._refused(f"take the schema for subject {subject!r}", error) from None

    def find(self, subject: str, schema: Schema, *, normalize: bool) -> RegisteredSchema | None:
        """The version of this very schema under a subject, if it has one."""
        try:
            answer = self._ask(lambda asked: asked.lookup_schema(subject, _theirs(schema), normalize))
        except SchemaRegistryError as error:
            if error.error_code in (_NO_SUBJECT, _NO_SCHEMA):
                return None
            raise self._refused(f"look for the schema of subject {subject!r}", error) from None
        return RegisteredSchema(answer.schema_id or 0, answer.version or 0)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version of a subject, if there is one."""
        try:
            answer = self._ask(lambda asked: asked.get_version(subject))
        except SchemaRegistryError as error:
            if error.error_code in (_NO_SUBJECT, _NO_VERSION):
                return None
            raise self._refused(f"give the newest version of subject {subject!r}", error) from None
        return RegisteredSchema(answer.schema_id or 0, answer.version or 0)

    def fits(self, subject: str, schema: Schema, *, normalize: bool) -> bool:
        """Whether the rules of a subject, which has versions, allow a schema as its next one."""
        try:
            return self._ask(
                lambda asked: asked.test_compatibility(subject, _theirs(schema), "latest", normalize=normalize)
            )
        except SchemaRegistryError as error:
            raise self._refused(f"judge the schema for subject {subject!r}", error) from None

    def _version(self, subject: str, version: int) -> Schema:
        try:
            answer = self._ask(lambda asked: asked.get_version(subject, version))
        except SchemaRegistryError as error:
            raise self._refused(f"give version {version} of subject {subject!r}", error) from None
        return _ours(answer.schema)

    def _ask(self, request: Callable[[SchemaRegistryClient], T]) -> T:
        """The result of a request. A SchemaRegistryError is an answer as well."""
        connected, patience = self._connected_here(), self._patience.total_seconds()
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                return request(connected)
            except SchemaRegistryError as error:
                if error.http_status_code not in _AGAIN:
                    raise
                why = str(error)
            except Exception as error:  # the client lets through whatever its HTTP library raises
                why = error_text(error)
            if time.monotonic() + pause > deadline:
                raise self._out_of_reach(patience, why) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connected_here(self) -> SchemaRegistryClient:
        try:
            return self._connected()
        except UsageError as error:  # such as a certificate that another machine has; no message is to blame
            raise SystemProblem(str(error)) from None

    def _connected(self) -> SchemaRegistryClient:
        with self._lock:
            if self._client is None or self._process != os.getpid():  # a connection does not survive a fork
                self._client, self._process = self._new_client(), os.getpid()
            return self._client

    def _new_client(self) -> SchemaRegistryClient:
        timeout = min(self._patience.total_seconds(), _ONE_REQUEST)
        try:
            # Without the client's own retries, which know nothing of the time that the user allows.
            return SchemaRegistryClient({"timeout": timeout, **self._conf, "url": self.url, "max.retries": 0})
        except (ValueError, TypeError, OSError) as error:
            wrong = f"the client of the registry at {self.url} refuses its settings: {self._hide(str(error))}"
            raise UsageError(explain(wrong, "settings of Confluent's SchemaRegistryClient")) from None

    def _out_of_reach(self, seconds: float, why: str) -> SystemProblem:
        wrong = f"the schema registry at {self.url} is out of reach: it has not answered for {seconds:g} s; the last "
        wrong += f"error: {self._hide(why)}"
        expected = "a server that speaks the API of Confluent's Schema Registry"
        remedy = "start it, or correct the address or the settings of TLS"
        return SystemProblem(explain(wrong, expected, remedy, at=self.url))

    def _refused(self, what: str, error: SchemaRegistryError) -> SystemProblem:
        wrong = f"the schema registry at {self.url} would not {what}: {self._hide(str(error))}"
        remedy = _REMEDIES.get(error.http_status_code, "read the log of the registry")
        return SystemProblem(explain(wrong, "a registry that accepts this request", remedy, at=self.url))

    def _hide(self, text: str) -> str:
        for name, value in self._conf.items():
            if _SECRET.search(name) and str(value):
                text = text.replace(str(value), "***")
        return text


_REMEDIES: Mapping[int, str] = {
    401: "give basic.auth.user.info, or what else the registry wants, in Registry(conf=...)",
    403: "let the user of this pipeline read and write the subject",
    404: "correct the address: it is not, or not all of it, that of a registry",
    409: "make the schema compatible with the subject's versions, or choose another subject",
    422: "correct the schema",
}


def _of(url: str, conf: Mapping[str, Any], patience: timedelta) -> Registry:
    registry = Registry(url, give_up_after=patience)
    registry._conf = dict(conf)  # checked where it was written; its files may lie elsewhere here
    return registry


def _checked(url: str) -> str:
    if isinstance(url, str) and _URL.fullmatch(url):
        return url
    if isinstance(url, str) and "@" in url:  # the text is not shown: it may hold a password
        remedy = "give basic.auth.user.info in conf"
        raise UsageError(explain("the URL of a registry has a user or a password in it", "http://HOST:PORT", remedy))
    raise UsageError(explain(f"{url!r} names no registry", "http://HOST:PORT or https://HOST:PORT"))


def _theirs(schema: Schema) -> client.Schema:
    references = [client.SchemaReference(one.name, one.subject, one.version) for one in schema.references]
    return client.Schema(schema.text, schema.kind, references)


def _ours(schema: client.Schema) -> Schema:
    references = tuple(
        Reference(one.name or "", one.subject or "", one.version or 0) for one in schema.references or []
    )
    kind: Any = schema.schema_type or "AVRO"
    return Schema(kind, schema.schema_str or "", references)
