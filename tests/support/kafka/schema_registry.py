"""A schema registry on loopback: as much of Confluent's HTTP API as serdes use, with its error codes, and outages."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, dict[str, Any]]

_PROMOTED = {"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}}
_EITHER = {frozenset({"string", "bytes"})}


@dataclass
class SchemaRegistry:
    """What it holds. `requests` are the methods and paths that were asked; the next `unwell` of them get a 503.

    With `login`, `USER:PASSWORD`, others are refused. Avro alone is judged: a subject takes schemas that can read what
    its newest one has written, or any if its level is NONE.
    """

    url: str
    login: str = ""
    unwell: int = 0
    requests: list[str] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)

    def add(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema, as another program would; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._added(subject, {"schema": text, "schemaType": kind, "references": list(references)})

    def schema(self, subject: str, version: int = -1) -> Any:
        """A schema of a subject, as JSON."""
        return json.loads(self.schemas[self.subjects[subject][version] - 1]["schema"])

    def asked(self, method: str = "POST") -> list[str]:
        """The paths that were asked by a method."""
        return [path for one, _, path in (request.partition(" ") for request in self.requests) if one == method]

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        """What is answered to a request."""
        match method, [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case "GET", ["schemas", "ids", id]:
                known = 0 < int(id) <= len(self.schemas)
                return (200, self.schemas[int(id) - 1]) if known else _error(404, 40403, "Schema not found")
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "POST", ["subjects", subject]:
                return self._look_up(subject, body)
            case "GET", ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case "POST", ["compatibility", "subjects", subject, "versions", "latest"]:
                return 200, {"is_compatible": self._fits(subject, body)}
            case _:
                return _error(404, 404, "HTTP 404 Not Found")

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        if not self._fits(subject, body):
            return _error(409, 409, "Schema being registered is incompatible with an earlier schema")
        return 200, {"id": self._added(subject, body)}

    def _look_up(self, subject: str, body: dict[str, Any]) -> Answer:
        if subject not in self.subjects:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        for version, id in enumerate(self.subjects[subject], 1):
            if _same(self.schemas[id - 1], body):
                return 200, {"subject": subject, "id": id, "version": version, **body}
        return _error(404, 40403, "Schema not found")

    def _version(self, subject: str, version: str) -> Answer:
        if subject not in self.subjects:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        number = len(self.subjects[subject]) if version == "latest" else int(version)
        if not 0 < number <= len(self.subjects[subject]):
            return _error(404, 40402, f"Version {version} not found.")
        id = self.subjects[subject][number - 1]
        return 200, {"subject": subject, "id": id, "version": number, **self.schemas[id - 1]}

    def _added(self, subject: str, schema: dict[str, Any]) -> int:
        id = next((number for number, one in enumerate(self.schemas, 1) if _same(one, schema)), 0)
        if not id:
            kept = {name: schema[name] for name in ("schema", "schemaType", "references") if schema.get(name)}
            self.schemas.append(kept)
            id = len(self.schemas)
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        return id

    def _fits(self, subject: str, body: dict[str, Any]) -> bool:
        ids = self.subjects.get(subject)
        if not ids or body["schemaType"] != "AVRO" or self.levels.get(subject) == "NONE":
            return True
        return can_read(json.loads(body["schema"]), self.schema(subject))


def can_read(reader: Any, writer: Any) -> bool:
    """Whether one schema of Avro reads what another has written: records, unions and simple types."""
    if isinstance(writer, list):
        return all(can_read(reader, one) for one in writer)
    if isinstance(reader, list):
        return any(can_read(one, writer) for one in reader)
    if isinstance(reader, dict) and isinstance(writer, dict) and "fields" in reader and "fields" in writer:
        written = {one["name"]: one["type"] for one in writer["fields"]}
        return all(
            can_read(one["type"], written[one["name"]]) if one["name"] in written else "default" in one
            for one in reader["fields"]
        )
    have, want = (one["type"] if isinstance(one, dict) else one for one in (writer, reader))
    return have == want or want in _PROMOTED.get(have, ()) or frozenset({have, want}) in _EITHER


@contextmanager
def schema_registry(login: str = "") -> Iterator[SchemaRegistry]:
    """A registry that answers, until the block ends."""
    registry = SchemaRegistry("", login)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            registry.requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = self._judged(json.loads(body or b"{}"))
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _judged(self, body: dict[str, Any]) -> Answer:
            if registry.unwell:
                registry.unwell -= 1
                return _error(503, 50301, "Service Unavailable")
            wanted = f"Basic {b64encode(registry.login.encode()).decode()}"
            if registry.login and self.headers.get("Authorization") != wanted:
                return _error(401, 40101, "Unauthorized")
            return registry.answer(self.command, self.path, body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    return Handler


def _error(status: int, code: int, text: str) -> Answer:
    return status, {"error_code": code, "message": text}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def key(schema: dict[str, Any]) -> tuple[Any, ...]:
        return schema["schema"], schema.get("schemaType", "AVRO"), json.dumps(schema.get("references") or [])

    return key(one) == key(other)
