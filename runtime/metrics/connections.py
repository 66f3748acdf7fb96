"""The HTTP server of the metrics: it bounds the number and the time of connections, and checks the host of requests."""

import errno
import ipaddress
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, cast
from urllib.parse import urlsplit

TEXT = "text/plain; charset=utf-8"

Body = bytes | Generator[bytes, None, None]
"""A whole body, or its pieces as they are made. If a later piece fails, the connection is cut off."""

Answer = tuple[int, str, Body]
"""A status, a content type, and the body."""

Answering = Callable[[str, str], Answer]
"""Answers a request, by its path and its `Accept` header."""

HostPort = tuple[str, int]
"""A host and a port, 0 for any that is free."""

NOT_THIS_HOST = (
    b"the request names another host than this one: use its address, or serve that name with --metrics-alias\n"
)
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
REST_SECONDS = 0.05
"""Pause between two checks of the deadlines, and after a connection that could not be accepted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of clients. `connections` is the most that are open: half for requests that are being received, half
    for answers that are being sent, so that neither blocks the other. One more ends the oldest of its half. A process
    that may open few files allows fewer (`share_of_files`). A request must be received within `request_seconds`, and
    the client must read the answer within `answer_seconds`."""

    connections: int = 64
    request_seconds: float = 10.0
    answer_seconds: float = 60.0


@dataclass(slots=True)
class _Connection:
    """An open connection: when it is closed at the latest, and whether its request is still being received."""

    deadline: float
    receiving: bool = True
    over: bool = False


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection, and no more connections than the limits say."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: HostPort,
        handler: Callable[..., BaseHTTPRequestHandler],
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._limits, self._clock = limits, clock
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Connection] = {}
        self._most = limits.connections
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind as a web server does, without the DNS lookup of the name of this machine, which may take long."""
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Pauses while this process has no file descriptor left for one."""
        try:
            return super().get_request()
        except OSError as error:
            if (
                error.errno in OUT_OF_FILES
            ):  # the connection stays in the queue: without a pause this would be a busy loop
                time.sleep(REST_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it if there are too many."""
        if self._admit(request):
            super().process_request(request, client_address)
        else:
            self.close_request(request)

    def received(self, connection: socket.socket) -> None:
        """The request is complete: from now on the connection has the deadline of an answer."""
        with self._lock:
            held = self._open.get(connection)
            if held is not None and not held.over:
                self._make_room(receiving=False)
                held.receiving, held.deadline = False, self._clock() + self._limits.answer_seconds

    def service_actions(self) -> None:
        """Close the connections whose deadline has passed."""
        now = self._clock()
        with self._lock:
            for connection, held in self._open.items():
                if held.deadline <= now:
                    _hang_up(connection, held)

    def close_request(self, request: Any) -> None:
        """Close a connection, which makes room for another."""
        with self._lock:
            self._open.pop(request, None)
            super().close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that closes its connection early."""

    def _admit(self, connection: socket.socket) -> bool:
        """Accept a connection, unless the threads of too many closed ones have not ended yet."""
        with self._lock:
            self._most = min(self._limits.connections, share_of_files(connection.fileno(), len(self._open)))
            if len(self._open) >= 2 * self._most:
                return False
            self._make_room(receiving=True)
            self._open[connection] = _Connection(self._clock() + self._limits.request_seconds)
            return True

    def _make_room(self, *, receiving: bool) -> None:
        """Close the oldest requests, or the oldest answers, until there is capacity for one more."""
        those = [one for one in self._open.items() if one[1].receiving is receiving and not one[1].over]
        for connection, held in those[: max(0, len(those) + 1 - self._most // 2)]:
            _hang_up(connection, held)


def share_of_files(newest: int, connections: int) -> int:
    """How many connections may be open, so that the process can still open the files that it needs: a quarter of the
    descriptors that other files leave, and at least two. `newest` is the latest descriptor. It was the lowest free
    number, so it says about how many are open.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    others = newest - connections
    return max(2, (most - others) // 4)


def _hang_up(connection: socket.socket, held: _Connection) -> None:
    """Shut down a connection that another thread reads or writes. That thread then closes it."""
    held.over = True
    with suppress(OSError):  # the client has closed it already
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers the request of one connection: see `serve_at`."""

    def __init__(self, answer: Answering, names: frozenset[str], seconds: float, *connection: Any) -> None:
        self._answering, self._names, self._seconds = answer, names, seconds
        super().__init__(*connection)

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self._seconds)

    def do_GET(self) -> None:
        self._respond()

    def do_HEAD(self) -> None:
        self._respond(whole=False)

    def _respond(self, *, whole: bool = True) -> None:
        cast("BoundedServer", self.server).received(self.connection)
        status, content_type, body = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if whole:
                self.wfile.write(body)
            return
        with closing(body):
            self.end_headers()
            for piece in body if whole else ():
                self.wfile.write(piece)

    def _answer(self) -> Answer:
        hosts = self.headers.get_all("Host", [])
        if all(is_own_name(host, self._names) for host in hosts) and len(hosts) < 2:
            return self._answering(self.path, self.headers.get("Accept", ""))
        return 421, TEXT, NOT_THIS_HOST

    def log_message(self, format: str, *args: object) -> None:
        """Log no requests."""


def serve_at(
    address: HostPort,
    answer: Answering,
    names: frozenset[str],
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
) -> BoundedServer:
    """Bind a server to an address, without starting it.

    `answer` is called with the path of a request and its `Accept` header. A request is refused where `is_own_name` is
    False for its host. Raises OSError, OverflowError or, of a host that cannot be
    encoded, TypeError where the address cannot be bound.
    """
    return BoundedServer(address, partial(_Handler, answer, names, limits.request_seconds), limits, clock)


def is_own_name(host: str, names: frozenset[str]) -> bool:
    """Whether a request's `Host` can mean this server: an address, a name without a dot, or one of `names`.

    This stops DNS rebinding: a web site can point a name of its own at this machine, and read answers through the
    browser of a user. Such a name has a dot.

    >>> [is_own_name(host, frozenset(["metrics.example.org"])) for host in ("127.0.0.1:9100", "[::1]", "localhost:80")]
    [True, True, True]
    >>> is_own_name("metrics.example.org:9100", frozenset(["metrics.example.org"])), is_own_name("a.b", frozenset())
    (True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    name = name.removesuffix(".")
    if name in names or (name and "." not in name and ":" not in name):
        return True
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
