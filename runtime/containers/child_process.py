"""A container as a child of the process that started it: `python -m fluvial.runtime.containers.child_process FD TITLE`.

It is told what to run on standard input, which ends with its parent, and tells how it fares on the pipe FD.
TITLE is for people alone, who see it where processes are listed.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct, json
from msgspec.structs import replace

from ...dsl.errors import FluvialError, TakenOver
from ...planner.settings import Settings
from ..data_warnings.keyless import LOGGER as TABLES
from ..data_warnings.suspicious_times import LOGGER as TIMES
from ..launch import Until, start
from ..local.coordination.membership import Seat
from ..metrics.http import Address, serving
from ..pipeline_loader import load_pipeline
from ..preflight.input_streams import LOGGER as STREAMS
from ..process.standard_streams import forgiving_stderr
from ..report import Progress, Report
from ..systems.open import Opening, opened

INTERRUPTED = 130
LOGGERS = (TIMES, STREAMS, TABLES)


class Order(Struct, frozen=True, kw_only=True):
    """What a child is to run. It may hold secrets: it goes through a pipe, where nobody else sees it.

    `partitions` are those that the sources had when the run began: a child that is started again is one of the same
    run, whatever they have by then.
    """

    target: str
    system: Opening
    settings: Settings
    until: Until
    container: int
    containers: int
    run: str
    partitions: dict[str, int] = {}
    metrics: Address | None = None


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child tells: how far it is, what it did in the end, or that another has its place."""

    progress: Progress | None = None
    report: Report | None = None
    taken_over: bool = False


def main() -> int:
    """Run one container; returns the exit code."""
    order = json.decode(_read_line(), type=Order)
    for name in LOGGERS:
        logging.getLogger(name).disabled = True  # the parent logs what the containers tell it, once a run
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    with forgiving_stderr(), open(int(sys.argv[1]), "wb", buffering=0) as pipe:
        return run_order(order, lambda line: _tell(pipe.write, line))


def run_order(order: Order, tell: Callable[[Line], None]) -> int:
    """Do what is ordered; errors are told on stderr."""
    seat = Seat(order.container, order.containers, order.run)
    try:
        pipeline = load_pipeline(order.target)
        with serving(order.metrics, _say) as metrics:
            report = start(
                pipeline,
                "local",
                opened(order.system),
                order.settings,
                order.until,
                lambda progress: tell(Line(progress=replace(progress, facts=()))),
                None,
                seat,
                metrics,
                order.partitions,
            )
    except FluvialError as error:
        if isinstance(error, TakenOver):
            tell(Line(taken_over=True))
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    tell(Line(report=report))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _tell(write: Callable[[bytes], object], line: Line) -> None:
    with suppress(BrokenPipeError):  # the parent is gone: `_stop_with_parent` knows it too
        write(json.encode(line) + b"\n")


def _read_line() -> bytes:
    """The first line of standard input, read without a buffer: the end of the process would wait for its lock."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += os.read(0, 1 << 16) or b"\n"
    return bytes(line)


def _stop_with_parent() -> None:
    """Stop as if asked to, once standard input has ended."""
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
