"""Kills the process that started it where that was told to stop and cannot: `python -IS watchdog.py FD PID SECONDS`.

FD is the socket on which the process hears of its signals. The handler that Python has in C writes their numbers there,
whatever else the process does, also while a function in C keeps the interpreter for itself. SECONDS after SIGTERM the
process PID is killed. The watchdog ends with the process.

A script that imports nothing of Fluvial: it is ready within milliseconds, and small.
"""

import os
import select
import signal
import socket
import sys
import time

LOOK_SECONDS = 10.0
"""How soon the watchdog notices the end of a process that has left the socket to children of its own."""
REST_SECONDS = 0.05
DYING_SECONDS = 5.0
"""Time in which a process that was killed is gone. The first one of a PID namespace cannot be killed from within."""
LAST_WORDS_SECONDS = 1
KILLED = (
    b"The process was asked to stop, and a function in C kept it from hearing that: it is killed. "
    b"It goes on from its last commit.\n"
)
LIVES_ON = (
    b"The process was asked to stop, and a function in C keeps it from hearing that. It cannot be killed from here: "
    b"as the first process of a container it needs an init before it (docker run --init).\n"
)


def main(words: list[str]) -> None:
    """Wait for SIGTERM, then for the end of the process, as long as it may take."""
    # Whoever stops all processes of a service at once means the run, which ends the watchdog itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    process, seconds = int(words[1]), float(words[2])
    with socket.socket(fileno=int(words[0])) as hearing:
        if not _is_asked_to_stop(hearing, process):
            return
    if _ends(process, seconds):
        return
    os.kill(process, signal.SIGKILL)
    said = KILLED if _ends(process, DYING_SECONDS) else LIVES_ON
    signal.alarm(LAST_WORDS_SECONDS)  # which ends it if nobody reads
    os.write(2, said)


def _ends(process: int, seconds: float) -> bool:
    """Whether the process ends within that time."""
    until = time.monotonic() + seconds
    while os.getppid() == process:
        if time.monotonic() >= until:
            return False
        time.sleep(REST_SECONDS)
    return True


def _is_asked_to_stop(hearing: socket.socket, process: int) -> bool:
    """Wait for SIGTERM; False where the process ends first. It reads the same socket, so that all stays there."""
    signals = select.poll()  # select() takes no descriptor above 1023, and the process may have more files open
    signals.register(hearing, select.POLLIN)
    while os.getppid() == process:
        if signals.poll(LOOK_SECONDS * 1000):
            numbers = hearing.recv(1 << 16, socket.MSG_PEEK)
            if signal.SIGTERM in numbers:
                return True
            if not numbers:
                return False
            time.sleep(REST_SECONDS)  # until the process has read the others
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
