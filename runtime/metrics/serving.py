"""The metrics of a run over HTTP."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from ...dsl.checks import explain
from ...dsl.errors import FluvialError, UsageError
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..report import OnProgress, Progress
from .collecting import ProgressCollector
from .health import Health
from .notes import noted

LOOPBACK = "127.0.0.1"
MEMORY = "process_resident_memory_bytes"
TEXT, JSON = "text/plain; charset=utf-8", "application/json"
REQUEST_SECONDS = 10
"""A client that is slower is hung up on."""
CLOSE_SECONDS = 0.05
"""Most time that closing waits."""

Address = tuple[str, int]
"""A host and a port, 0 for any that is free."""

STATE = "/state/"
"""Where tables are looked into."""

ROWS = 100
"""Rows of a table, if nothing else is asked for."""

Rows = Callable[[str, str | None, int], object]
"""What a table holds: the row of a key, or so many rows; as what JSON can hold."""

Answer = tuple[int, str, bytes]
"""A status, a content type, and the body."""


class Metrics:
    """Serves what a run measures over HTTP, from when it is opened (`with`) until it is closed.

    `/metrics` is for Prometheus; `/livez` answers 503 once nothing has moved for `Settings.stall_timeout` while there
    is input, `/readyz` until state is restored; `/plan.json` and `/progress.json` are the plan and the latest
    `Progress`; `/state/TABLE/KEY` is a row of a table, `/state/TABLE?limit=100` are the first ones, both as of the last
    commit on the local engine.

    `port=0` takes a free one; nobody else can reach the default `host`. There are no passwords: do not bind it where
    strangers are.

    Raises `UsageError` on opening where the address cannot be had.

    >>> from urllib.request import urlopen
    >>> streams = open_system("memory:")
    >>> streams.admin().create("words", 1)
    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> with Metrics() as metrics:
    ...     report = run(pipeline, system=streams, until="end", metrics=metrics)
    ...     lines = urlopen(metrics.url + "/metrics").read().decode().splitlines()
    >>> [line for line in lines if line.startswith("fluvial_messages_processed_total")]
    ['fluvial_messages_processed_total{container="0",partition="0",...,stream="words",task="words/0"} 0.0']
    """

    def __init__(self, *, port: int = 0, host: str = LOOPBACK, clock: Callable[[], float] = time.monotonic) -> None:
        self._port, self._host, self._clock = port, host, clock
        self._server: ThreadingHTTPServer | None = None
        self._plan: Plan | None = None
        self._stall_timeout = Settings().stall_timeout.total_seconds()
        self._health = Health()
        self._latest: Progress | None = None
        self._registry = CollectorRegistry()
        self._process = ProcessCollector(registry=self._registry)
        self._registry.register(ProgressCollector(lambda: self._latest))
        self._answers: Mapping[str, Callable[[str], Answer]] = {
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/plan.json": self._plan_json,
            "/progress.json": self._progress_json,
        }
        self._rows: Rows | None = None

    @property
    def url(self) -> str:
        """Where it is served, such as `http://127.0.0.1:9100`."""
        if self._server is None:
            raise UsageError(explain("metrics that are not open have no url", "with Metrics() as metrics: ..."))
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @contextmanager
    def following(
        self, plan: Plan, settings: Settings, progress: OnProgress | None, rows: "Rows | None" = None
    ) -> Iterator[OnProgress]:
        """Follow a run: gives what it is to call with its progress, which is handed on to `progress`; `rows` looks into
        its tables."""

        def listen(told: Progress) -> None:
            self.look(told)
            if progress is not None:
                progress(told)

        self._plan, self._rows = plan, rows
        self._health.begin(self._clock())
        self._stall_timeout = settings.stall_timeout.total_seconds()
        try:
            with noted(plan.name, self.url):
                yield listen
        finally:
            self._health.end()

    def look(self, progress: Progress) -> None:
        """Take in the progress of a run."""
        self._latest = msgspec.structs.replace(progress, memory=_resident(self._process), process=os.getpid())
        self._health.look(progress, self._clock())

    def __enter__(self) -> Self:
        self._server = _server(self._host, self._port, self._answer)
        serve = partial(self._server.serve_forever, poll_interval=CLOSE_SECONDS)
        threading.Thread(target=serve, name="fluvial-metrics", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    # What is answered.

    def _answer(self, url: str, accept: str) -> Answer:
        asked = urlsplit(url)
        answer = self._answers.get(asked.path)
        if answer is not None:
            return answer(accept)
        if asked.path.startswith(STATE):
            return self._state(asked.path.removeprefix(STATE), asked.query)
        return 404, TEXT, f"There is {', '.join(self._answers)}, {STATE}TABLE and {STATE}TABLE/KEY.\n".encode()

    def _state(self, path: str, query: str) -> Answer:
        """The row of a key, or the first rows of a table."""
        table, slash, key = path.partition("/")
        if self._rows is None:
            return _EARLY
        try:
            limit = int(parse_qs(query).get("limit", [str(ROWS)])[0])
            found = self._rows(unquote(table), unquote(key) if slash else None, limit)
        except (FluvialError, ValueError) as error:
            return 404, TEXT, f"{error}\n".encode()
        return 200, JSON, msgspec.json.encode(found)

    def _metrics(self, accept: str) -> Answer:
        encode, content_type = choose_encoder(accept)
        return 200, content_type, encode(self._registry)

    def _livez(self, _: str) -> Answer:
        stalled = self._health.stalled(self._clock())
        if stalled > self._stall_timeout:
            return 503, TEXT, f"nothing has moved for {stalled:.0f} s while there is something to do\n".encode()
        return 200, TEXT, b"ok\n"

    def _readyz(self, _: str) -> Answer:
        if self._health.ready:
            return 200, TEXT, b"ok\n"
        return 503, TEXT, b"not running: state is restored first\n"

    def _plan_json(self, _: str) -> Answer:
        return _EARLY if self._plan is None else (200, JSON, self._plan.to_json().encode())

    def _progress_json(self, _: str) -> Answer:
        return _EARLY if self._latest is None else (200, JSON, msgspec.json.encode(self._latest))


@contextmanager
def serving(address: Address | None, say: Callable[[str], None]) -> Iterator[Metrics | None]:
    """Serve metrics at an address, if there is one, and say where."""
    if address is None:
        yield None
        return
    with Metrics(host=address[0], port=address[1]) as metrics:
        say(f"metrics at {metrics.url}/metrics")
        yield metrics


_EARLY: Answer = (503, TEXT, b"the run has not begun\n")


def _resident(process: ProcessCollector) -> int | None:
    """Bytes of memory that this process holds, None where the system does not tell."""
    found = (sample.value for family in process.collect() for sample in family.samples if sample.name == MEMORY)
    held = next(found, None)
    return None if held is None else int(held)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """As that of a web server, but ask no name server what this machine is called, which may take long."""
        TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no concern of the run's."""


def _server(host: str, port: int, answer: Callable[[str, str], Answer]) -> ThreadingHTTPServer:
    """A server at an address, that is not started yet."""

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            status, content_type, body = answer(self.path, self.headers.get("Accept", ""))
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said of requests."""

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        return Server((host, port), Handler)
    except (OSError, OverflowError) as error:
        wrong = f"metrics cannot be served at {host}, port {port}: {error}"
        raise UsageError(
            explain(wrong, "an address of this machine, and a port that is free", "name another port, or 0 for any")
        ) from error
