"""Kills its parent process if that was asked to stop and cannot: `python -IS watchdog.py FD PID SECONDS`.

FD is the socket to which the parent's signal handler writes the numbers of its signals. Python's handler in C does that
even while another function in C holds the interpreter. SECONDS after SIGTERM the parent, process PID, is killed. The
watchdog ends with its parent.

The script imports nothing of Fluvial, so that it starts within milliseconds and needs little memory. Of `signal` and
`socket` it has the parts in C alone: the others make enumerations of their numbers, which is half of such a start.
"""

import _signal as signal  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import _socket as socket
import os
import select
import sys
import time

CHECK_SECONDS = 10.0
"""How soon the watchdog notices the end of its parent if children of that still have the socket open."""
# Polled, since a process can wait for the end of a child, but not for that of its parent.
PAUSE_SECONDS = 0.05
DYING_SECONDS = 5.0
"""Time in which a killed process ends. The first process of a PID namespace cannot be killed from within."""
# `signal.alarm` takes whole seconds alone.
LAST_WORDS_SECONDS = 1
KILLED = (
    b"The process was asked to stop, and a function in C kept it from hearing that: it is killed. "
    b"It goes on from its last commit.\n"
)
LIVES_ON = (
    b"The process was asked to stop, and a function in C keeps it from hearing that. It cannot be killed from here: "
    b"as the first process of a container it needs an init before it (docker run --init).\n"
)


def main(arguments: list[str]) -> None:
    """Wait for SIGTERM; then kill the process if it does not end in time."""
    # A signal to all processes of a service is for the run, which ends the watchdog itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    process, seconds = int(arguments[1]), float(arguments[2])
    receiver = socket.socket(fileno=int(arguments[0]))
    asked = _is_asked_to_stop(receiver, process)
    receiver.close()
    if not asked or _ends(process, seconds):
        return
    os.kill(process, signal.SIGKILL)
    said = KILLED if _ends(process, DYING_SECONDS) else LIVES_ON
    signal.alarm(LAST_WORDS_SECONDS)  # it ends the watchdog if nobody reads standard error
    os.write(2, said)


def _ends(process: int, seconds: float) -> bool:
    """Wait for the end of the process. Returns whether it ended in time."""
    until = time.monotonic() + seconds
    while os.getppid() == process:
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def _is_asked_to_stop(receiver: socket.socket, process: int) -> bool:
    """Wait for SIGTERM. Returns False if the process ends first. It only peeks, since the process reads the socket
    too."""
    signals = select.poll()  # select() takes no descriptor above 1023, and the process may have more files open
    signals.register(receiver, select.POLLIN)
    while os.getppid() == process:
        if signals.poll(CHECK_SECONDS * 1000):
            try:
                numbers = receiver.recv(1 << 16, socket.MSG_PEEK)
            except BlockingIOError:  # the process has read the numbers since `poll`
                continue
            if signal.SIGTERM in numbers:
                return True
            if not numbers:
                return False
            time.sleep(PAUSE_SECONDS)  # until the process has read the others
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
