"""The HTTP server of the metrics: how many connections it holds, for how long, and whose requests it answers."""

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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import urlsplit

TEXT = "text/plain; charset=utf-8"

Body = bytes | Generator[bytes, None, None]
"""All of a body at once, or its pieces as they are made; what is begun and cannot be finished is cut off."""

Answer = tuple[int, str, Body]
"""A status, a content type, and the body."""

Address = tuple[str, int]
"""A host and a port, 0 for any that is free."""

NOT_THIS_HOST = (
    b"the request names another host than this one: use its address, or serve that name with --metrics-alias\n"
)
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
REST_SECONDS = 0.05
"""Time between two looks at the deadlines, and after a connection that could not be taken in."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may use. `connections` bounds those that are open, half of them for requests that are still coming
    and half for answers, so that neither keeps the other out. Where there are more, the oldest of its half is ended.
    There are fewer where the process may open few files (`share_of_files`). A whole request is received within
    `request_seconds`, and answered within `answer_seconds`, however slowly the client reads."""

    connections: int = 64
    request_seconds: float = 10.0
    answer_seconds: float = 60.0


@dataclass(slots=True)
class _Connection:
    """An open connection: when it is hung up on, and whether its request is still coming."""

    deadline: float
    receiving: bool = True
    over: bool = False


class BoundedServer(ThreadingHTTPServer):
    """A thread for each connection, and no more connections than the limits say."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: Address,
        handler: type[BaseHTTPRequestHandler],
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
        """As that of a web server, but ask no name server what this machine is called, which may take long."""
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in OUT_OF_FILES:  # the connection goes on to wait: without a rest this would be a busy loop
                time.sleep(REST_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._admit(request):
            super().process_request(request, client_address)
        else:
            self.close_request(request)

    def received(self, connection: socket.socket) -> None:
        """The whole request has come: from now on the connection counts as an answer, with the deadline of one."""
        with self._lock:
            held = self._open.get(connection)
            if held is not None and not held.over:
                self._make_room(receiving=False)
                held.receiving, held.deadline = False, self._clock() + self._limits.answer_seconds

    def service_actions(self) -> None:
        """Hang up on those whose time is over."""
        now = self._clock()
        with self._lock:
            for connection, held in self._open.items():
                if held.deadline <= now:
                    _hang_up(connection, held)

    def close_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
            super().close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no concern of the run's."""

    def _admit(self, connection: socket.socket) -> bool:
        """Take a connection in, unless too many wait for their threads to notice that they were ended."""
        with self._lock:
            self._most = min(self._limits.connections, share_of_files(connection.fileno(), len(self._open)))
            if len(self._open) >= 2 * self._most:
                return False
            self._make_room(receiving=True)
            self._open[connection] = _Connection(self._clock() + self._limits.request_seconds)
            return True

    def _make_room(self, *, receiving: bool) -> None:
        """End the oldest requests, or the oldest answers, until one more has its place."""
        those = [one for one in self._open.items() if one[1].receiving is receiving and not one[1].over]
        for connection, held in those[: max(0, len(those) + 1 - self._most // 2)]:
            _hang_up(connection, held)


def share_of_files(newest: int, connections: int) -> int:
    """How many connections may be open, so that the process can still open the files that it needs: a quarter of what
    it may open beside `connections`, and two at least. `newest` is the descriptor that was opened last: it is the
    lowest that was free, so its number tells how many there are.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    others = newest - connections
    return max(2, (most - others) // 4)


def _hang_up(connection: socket.socket, held: _Connection) -> None:
    """End a connection that another thread reads or writes; that thread closes it."""
    held.over = True
    with suppress(OSError):  # the client was faster
        connection.shutdown(socket.SHUT_RDWR)


def serve_at(
    address: Address,
    answer: Callable[[str, str], Answer],
    names: frozenset[str],
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
) -> BoundedServer:
    """A server at an address, that is not started yet.

    `answer` is given a request's path and what it accepts. A request for a host that is not `is_own_name` is refused.
    Raises OSError or OverflowError for an address that cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = limits.request_seconds

        def do_GET(self) -> None:
            self._respond()

        def do_HEAD(self) -> None:
            self._respond(whole=False)

        def _respond(self, *, whole: bool = True) -> None:
            server.received(self.connection)
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
            if all(is_own_name(host, names) for host in hosts) and len(hosts) < 2:
                return answer(self.path, self.headers.get("Accept", ""))
            return 421, TEXT, NOT_THIS_HOST

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said of requests."""

    server = BoundedServer(address, Handler, limits, clock)
    return server


def is_own_name(host: str, names: frozenset[str]) -> bool:
    """Whether a request's `Host` can mean this server: an address, a name without a dot, or one of `names`.

    A page of a stranger's may let a name of its own lead here, and read with the user's browser what is answered. Such
    a name has a dot.

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
