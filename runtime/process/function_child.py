"""The program of a process that makes calls of a function: `python -m fluvial.runtime.process.function_child FD PID`.

FD is a socket to the process PID, which has started this one."""

import sys
from multiprocessing.connection import Connection

from .function_server import serve

if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
