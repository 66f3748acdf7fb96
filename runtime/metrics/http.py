"""Serves the metrics, the health, the plan and the tables of a run over HTTP."""

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from ...dsl.errors import FluvialError, UsageError
from ...dsl.validation import explain, require
from ...dsl.verb_calls import explained_call
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..report import OnProgress, Progress
from .connections import TEXT, Answer, BoundedServer, Limits, serve_at
from .endpoints import announced
from .health import Health
from .process_memory import ProcessMemory

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LOOPBACK = "127.0.0.1"
JSON = "application/json"
CLOSE_SECONDS = 0.05
"""The longest time that closing takes."""


class Address(NamedTuple):
    """The address of a metrics server: a host and a port, 0 for any free one. `aliases` are other names of the host."""

    host: str
    port: int
    aliases: tuple[str, ...] = ()


STATE = "/state/"
"""The path of the tables."""

ROWS = 100
"""The number of rows without `limit`."""
MOST_ROWS = 10_000
"""The largest `limit` of a request."""
READERS = 2
"""The most requests that read tables at once: each opens the stores again."""
MOST_READING = 8
"""The most requests that read tables or wait for that. Further ones get 503 at once."""
READ_SECONDS = 5.0
"""The longest wait of a request for tables."""
PIECE_BYTES = 1 << 16
"""Rows are sent in pieces of about this size."""


class Tables(Protocol):
    """The tables of a run, with rows that JSON can hold. The methods raise FluvialError for an unknown table or key."""

    def row(self, table: str, key: str) -> object:
        """A row in a form that JSON can hold; `key` is the text of the key, as it stands in a URL."""
        ...

    def rows(self, table: str, limit: int) -> Iterable[object]:
        """The first rows, as they are read."""
        ...


@partial(explained_call, error=UsageError)
class Metrics:
    """Serves the metrics of a run over HTTP, while it is open (`with`).

    `/metrics` is for Prometheus; `/livez` answers 503 once nothing has moved for `Settings.stall_timeout` while there
    is input, `/readyz` until state is restored; `/plan.json` and `/progress.json` are the plan and the latest
    `Progress`; `/state/TABLE/KEY` is a row of a table, `/state/TABLE?limit=100` are the first ones, at most 10,000,
    both as of the last commit on the local engine.

    `port=0` takes a free port; the default `host` is reachable from this machine only. There are no passwords: do not
    bind it to a public address. A request names the server by an address, by a name without a dot, or by the name of
    this machine; other names, such as that of a proxy, are its `aliases`.

    Raises `UsageError` on opening if the address cannot be bound.

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

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = LOOPBACK,
        aliases: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require(
            type(port) is int, UsageError, f"Metrics: port={port!r}", "the number of a port, or 0", "write port=9100"
        )
        require(
            isinstance(host, str), UsageError, f"Metrics: host={host!r}", "a name or an address", 'write host="0.0.0.0"'
        )
        good = not isinstance(aliases, str) and isinstance(aliases, Collection)
        good = good and all(isinstance(name, str) for name in aliases)
        require(
            good,
            UsageError,
            f"Metrics: aliases={aliases!r}",
            "names of this machine, in a list",
            'write aliases=["proxy.example"]',
        )
        self._port, self._host, self._clock = port, host, clock
        self._names = frozenset(name.lower() for name in (host, socket.gethostname(), *aliases))
        self._server: BoundedServer | None = None
        self._plan: Plan | None = None
        self._stall_timeout = Settings().stall_timeout.total_seconds()
        self._health = Health()
        self._latest: Progress | None = None
        self._registry = self._registered()
        self._memory = ProcessMemory(self._registry)
        self._answers: Mapping[str, Callable[[str], Answer]] = {
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/plan.json": self._plan_json,
            "/progress.json": self._progress_json,
        }
        self._tables: Tables | None = None
        self._reading_or_waiting = threading.BoundedSemaphore(MOST_READING)
        self._reads = threading.BoundedSemaphore(READERS)

    def _registered(self) -> "CollectorRegistry":
        """What is served of the run. The library takes a tenth of the start of a run to load, and few runs need it."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415

        from .collector import ProgressCollector  # noqa: PLC0415

        registry = CollectorRegistry()
        registry.register(ProgressCollector(lambda: self._latest))
        return registry

    @property
    def url(self) -> str:
        """The URL of the server, such as `http://127.0.0.1:9100`."""
        if self._server is None:
            raise UsageError(explain("metrics that are not open have no url", "with Metrics() as metrics: ..."))
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @contextmanager
    def following(
        self, plan: Plan, settings: Settings, progress: OnProgress | None, tables: Tables | None = None
    ) -> Iterator[OnProgress]:
        """Follow a run. Yields the function that the run calls with its progress, which passes it on to `progress`.
        `tables` are the tables of the run."""

        def listen(latest: Progress) -> None:
            self.look(latest)
            if progress is not None:
                progress(latest)

        self._plan, self._tables = plan, tables
        # A run that never reports counts as stalled from here on.
        self._health.begin(self._clock())
        self._stall_timeout = settings.stall_timeout.total_seconds()
        try:
            with announced(plan.name, self.url):
                yield listen
        finally:
            self._health.end()

    def look(self, progress: Progress) -> None:
        """Update with the progress of a run."""
        self._latest = msgspec.structs.replace(progress, memory=self._memory.resident(), process=os.getpid())
        self._health.update(progress, self._clock())

    def __enter__(self) -> Self:
        try:
            self._server = serve_at((self._host, self._port), self._answer, self._names, Limits())
        except (OSError, OverflowError, TypeError) as error:  # a TypeError of a host that is no text
            wrong = f"metrics cannot be served at {self._host}, port {self._port}: {error}"
            raise UsageError(
                explain(wrong, "an address of this machine, and a port that is free", "name another port, or 0 for any")
            ) from error
        serve = partial(self._server.serve_forever, poll_interval=CLOSE_SECONDS)
        threading.Thread(target=serve, name="fluvial-metrics", daemon=True).start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, url: str, accept: str) -> Answer:
        try:
            asked = urlsplit(url)
        except ValueError as error:
            return 400, TEXT, f"the address cannot be read: {error}\n".encode()
        answer = self._answers.get(asked.path)
        if answer is not None:
            return answer(accept)
        if asked.path.startswith(STATE):
            return self._state(asked.path.removeprefix(STATE), asked.query)
        return 404, TEXT, f"There is {', '.join(self._answers)}, {STATE}TABLE and {STATE}TABLE/KEY.\n".encode()

    def _state(self, path: str, query: str) -> Answer:
        """The row of a key, or the first rows of a table."""
        table, slash, key = path.partition("/")
        if self._tables is None:
            return _EARLY
        limit = _limit(query)
        if limit is None:
            return 400, TEXT, f"limit is a whole number, 1 to {MOST_ROWS:,}\n".encode()
        try:
            if slash:
                with self._reading():
                    return 200, JSON, msgspec.json.encode(self._tables.row(unquote(table), unquote(key)))
            rows = self._pieces(self._tables, unquote(table), limit)
            return 200, JSON, _continued(next(rows), rows)
        except TimeoutError:
            return 503, TEXT, b"other requests read the tables: ask again\n"
        except FluvialError as error:
            return 404, TEXT, f"{error}\n".encode()

    def _pieces(self, tables: Tables, table: str, limit: int) -> Generator[bytes, None, None]:
        with self._reading():
            yield from json_pieces(tables.rows(table, limit))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Hold one of the permits to read tables. Raises TimeoutError where none is free in time, or too many wait."""
        with _acquired(self._reading_or_waiting, 0.0), _acquired(self._reads, READ_SECONDS):
            yield

    def _metrics(self, accept: str) -> Answer:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        encode, content_type = choose_encoder(accept)
        return 200, content_type, encode(self._registry)

    def _livez(self, _: str) -> Answer:
        stalled = self._health.stalled(self._clock())
        if stalled > self._stall_timeout:
            return 503, TEXT, f"nothing has moved for {stalled:.0f} s while there is work to do\n".encode()
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
    """Serve metrics at an address, if there is one, and print the URL."""
    if address is None:
        yield None
        return
    with Metrics(host=address.host, port=address.port, aliases=address.aliases) as metrics:
        say(f"metrics at {metrics.url}/metrics")
        yield metrics


@contextmanager
def _acquired(permits: threading.Semaphore, seconds: float) -> Iterator[None]:
    """Hold a permit of a semaphore. Raises TimeoutError where none is free within `seconds`."""
    if not permits.acquire(timeout=seconds):
        raise TimeoutError
    try:
        yield
    finally:
        permits.release()


_EARLY: Answer = (503, TEXT, b"the run has not begun\n")


def _limit(query: str) -> int | None:
    """The `limit` of a request; None where it is no number, or too large."""
    given = parse_qs(query, keep_blank_values=True).get("limit", [str(ROWS)])[0]
    limit = int(given) if given.isdecimal() and len(given) <= len(str(MOST_ROWS)) else 0
    return limit if 1 <= limit <= MOST_ROWS else None


def _continued(first: bytes, rest: Generator[bytes, None, None]) -> Generator[bytes]:
    yield first
    yield from rest


def json_pieces(rows: Iterable[object]) -> Iterator[bytes]:
    """Rows as one array of JSON, in pieces. The first piece has the first row: an error before it still becomes a
    status, a later one cuts the body off.

    >>> b"".join(json_pieces([1, 2])), b"".join(json_pieces([]))
    (b'[1,2]', b'[]')
    """
    piece = bytearray(b"[")
    for number, row in enumerate(rows):
        piece += (b"," if number else b"") + msgspec.json.encode(row)
        if number == 0 or len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b"]"
