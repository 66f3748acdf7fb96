"""A server of metrics in a process that may open few files."""

import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("resource")

SERVED = """
import os, resource, sys, threading
from contextlib import ExitStack
from fluvial.runtime.metrics.connections import TEXT, Limits, serve_at

here = ExitStack()
others = [here.enter_context(open(os.devnull)) for _ in range(10)]
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
server = serve_at(("127.0.0.1", 0), lambda *_: (200, TEXT, bytes(1 << 25)), frozenset(), Limits(64, 3600.0, 3600.0))
resource.setrlimit(resource.RLIMIT_NOFILE, (others[-1].fileno() + 60, most))
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.readline()
for _ in range(25):
    here.enter_context(open(os.devnull))
print("had room", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("sent", [b"GET ", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["coming", "answered"])
def test_connections_leave_a_run_most_of_what_it_may_open(sent: bytes) -> None:
    with ExitStack() as stack:
        words = [sys.executable, "-c", SERVED]
        process = stack.enter_context(subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, text=True))
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        connections = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(100)]
        for connection in connections:
            with suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(sent)
        for connection in connections[:80]:  # each is over, or is being answered
            with suppress(ConnectionResetError):
                connection.recv(1)
        process.stdin.write("\n")
        process.stdin.flush()
        out, errors = process.communicate("\n")
        assert "had room" in out, errors
