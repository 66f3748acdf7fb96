"""Connections to the server of metrics: how many, and for how long."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from fluvial.runtime.metrics.connections import TEXT, Answer, BoundedServer, Limits, serve_at

LIMITS = Limits(connections=4, request_seconds=10.0, answer_seconds=60.0)
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FOR_LARGE = WHOLE.replace(b"/", b"/large", 1)
LARGE = bytes(1 << 25)
"""More than the buffers of a connection hold."""


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Answers:
    """What is answered: "ok", once the gate is open; and `LARGE` to who asks for that."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Semaphore(0)

    def __call__(self, path: str, _: str) -> Answer:
        self.asked.release()
        self.gate.wait()
        return 200, TEXT, LARGE if path == "/large" else b"ok"


@contextmanager
def served(answers: Answers, clock: Clock) -> Iterator[BoundedServer]:
    server = serve_at(("127.0.0.1", 0), answers, frozenset(), LIMITS, clock)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        answers.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def connected(server: BoundedServer, stack: ExitStack, sent: bytes = b"") -> socket.socket:
    made = stack.enter_context(socket.create_connection(server.server_address[:2], timeout=60))  # type: ignore[arg-type]
    made.sendall(sent)
    return made


def rest(of: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := of.recv(1 << 16):
            found += piece
    return found


def test_a_request_that_does_not_come_whole_in_time_is_hung_up_on() -> None:
    clock = Clock()
    with served(Answers(), clock) as server, ExitStack() as stack:
        dripping = connected(server, stack, b"GET / HTTP/1.1\r\nX: ")
        answered = connected(server, stack, WHOLE)
        assert rest(answered).endswith(b"ok")  # so the first was taken in, too
        clock.now = 9.9
        dripping.sendall(b"a")
        assert rest(connected(server, stack, WHOLE)).endswith(b"ok")
        clock.now = 10.0
        assert rest(dripping) == b""


def test_an_answer_that_is_not_taken_in_time_is_given_up() -> None:
    clock, answers = Clock(), Answers()
    answers.gate.clear()
    with served(answers, clock) as server, ExitStack() as stack:
        slow = connected(server, stack, WHOLE)
        answers.asked.acquire()
        clock.now = 59.9
        answers.gate.set()
        assert rest(connected(server, stack, WHOLE)).endswith(b"ok")
        assert rest(slow).endswith(b"ok")
        answers.gate.clear()
        slower = connected(server, stack, WHOLE)
        answers.asked.acquire()  # of the one before
        answers.asked.acquire()
        clock.now = 200.0
        assert rest(slower) == b""


def test_the_request_that_has_been_coming_for_longest_makes_room() -> None:
    with served(Answers(), Clock()) as server, ExitStack() as stack:
        dripping = [connected(server, stack, b"GET ") for _ in range(50)]
        assert [rest(one) for one in dripping[:40]] == [b""] * 40
        # Those that were hung up on count until their threads have noticed.
        assert any(rest(connected(server, stack, WHOLE)) for _ in range(1000))


def answered(server: BoundedServer, stack: ExitStack) -> socket.socket:
    """A connection that is being answered. Those that were hung up on count until their threads have noticed, so that
    a new one may be refused."""
    while True:
        connection = connected(server, stack, FOR_LARGE)
        try:
            if connection.recv(1, socket.MSG_PEEK):
                return connection
        except ConnectionResetError:
            pass


def test_the_oldest_answer_makes_room() -> None:
    with served(Answers(), Clock()) as server, ExitStack() as stack:
        slow = [answered(server, stack) for _ in range(20)]  # each is being answered, later than those before it
        assert rest(connected(server, stack, WHOLE)).endswith(b"ok")
        cut = [len(rest(one)) < len(LARGE) for one in slow[: 20 - LIMITS.connections // 2]]
        assert all(cut)


def test_requests_that_drip_end_no_answer() -> None:
    answers = Answers()
    answers.gate.clear()
    with served(answers, Clock()) as server, ExitStack() as stack:
        answered = connected(server, stack, WHOLE)
        answers.asked.acquire()
        dripping = [connected(server, stack, b"GET ") for _ in range(20)]
        assert rest(dripping[0]) == b""
        answers.gate.set()
        assert rest(answered).endswith(b"ok")


@pytest.mark.parametrize("request_of_two", [b"Host: localhost\r\nHost: localhost\r\n"])
def test_two_hosts_are_refused(request_of_two: bytes) -> None:
    with served(Answers(), Clock()) as server, ExitStack() as stack:
        asked = connected(server, stack, b"GET / HTTP/1.1\r\n" + request_of_two + b"\r\n")
        assert b" 421 " in rest(asked)


def test_one_without_a_host_is_no_browser() -> None:
    with served(Answers(), Clock()) as server, ExitStack() as stack:
        assert rest(connected(server, stack, b"GET / HTTP/1.0\r\n\r\n")).endswith(b"ok")
