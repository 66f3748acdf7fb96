"""A container as a child of the process that started it: `python -m fluvial.runtime.containers.child_process FD TITLE`.

Its supervisor writes a `ChildConfig` to its standard input, and keeps that open as long as it lives. The child writes
`ChildReport`s to the pipe FD. TITLE is for people, who see it in lists of processes.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout, suppress
from functools import partial

from msgspec import Struct, json
from msgspec.structs import replace

from ...dsl.errors import FluvialError, TakenOver
from ...dsl.pipeline import Pipeline
from ...planner.settings import Settings
from ..autosize.load_meter import MEASURED
from ..data_warnings.keyless import LOGGER as TABLES
from ..data_warnings.suspicious_times import LOGGER as TIMES
from ..launch import Until, run_container
from ..local.coordination.membership import ContainerId
from ..metrics.http import Address, serving
from ..metrics.process_memory import ProcessMemory
from ..metrics.samples import samples_of
from ..pipeline_loader import load_pipeline
from ..preflight.input_streams import LOGGER as STREAMS
from ..process.gc_tuning import keep_imports
from ..process.standard_streams import forgiving_stderr
from ..report import Progress, Report
from ..spark.lowering.shipped_plan import ShippedPlan
from ..systems.open import Opening, opened

# As shells tell of a process that SIGINT has ended: 128 and its number.
INTERRUPTED = 130
LOGGERS = (TIMES, STREAMS, TABLES)


class ChildConfig(Struct, frozen=True, kw_only=True):
    """What a child is to run. It may hold secrets, so it goes through a pipe, which no other user can read.

    The pipeline is the one that `target` names, or comes along as `shipped`, on a machine that lacks its files.
    `partitions` are the partition counts of the sources at the begin of the run. A child that is restarted belongs to
    the same run, so it reads the same partitions. With `measured` it reports its load too.
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
    shipped: ShippedPlan | None = None
    measured: bool = False


class ChildReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child writes to its supervisor: its progress, its report at the end, or that another process has replaced
    it."""

    progress: Progress | None = None
    report: Report | None = None
    taken_over: bool = False


def main() -> int:
    """Run one container; returns the exit code."""
    keep_imports()
    config = json.decode(_read_line(), type=ChildConfig)
    for name in LOGGERS:
        logging.getLogger(name).disabled = True  # the supervisor logs the warnings of all containers, each once
    threading.Thread(target=_stop_with_supervisor, daemon=True).start()
    with (
        forgiving_stderr(),
        # On another machine, what functions print is for the supervisor, and no error once that is gone.
        nullcontext() if config.shipped is None else redirect_stdout(sys.stderr),
        open(int(sys.argv[1]), "wb", buffering=0) as pipe,
    ):
        return run_child(config, lambda report: _write_report(pipe.write, report))


def run_child(config: ChildConfig, report_to_supervisor: Callable[[ChildReport], None]) -> int:
    """Run a container. Errors are printed on stderr."""
    container = ContainerId(config.container, config.containers, config.run)
    shown = partial(_load_of, ProcessMemory()) if config.measured else _to_be_merged
    try:
        pipeline = _pipeline(config)
        with serving(config.metrics, _print_error) as metrics:
            report = run_container(
                pipeline,
                "local",
                opened(config.system),
                config.settings,
                config.until,
                lambda progress: report_to_supervisor(ChildReport(progress=shown(progress))),
                None,
                container,
                metrics,
                config.partitions,
            )
    except FluvialError as error:
        if isinstance(error, TakenOver):
            report_to_supervisor(ChildReport(taken_over=True))
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    report_to_supervisor(ChildReport(report=report))
    return 0


def _pipeline(config: ChildConfig) -> Pipeline:
    if config.shipped is None:
        return load_pipeline(config.target)
    from ..spark.lowering.packaging import unpack_pipeline  # noqa: PLC0415 - an extra, which most containers need not

    return unpack_pipeline(config.shipped)


def _to_be_merged(progress: Progress) -> Progress:
    """The part of a progress that a supervisor needs: of the samples the lags, each of which counts once."""
    return replace(progress, facts=tuple(samples_of([progress], "lag_messages")), hot_keys=())


def _load_of(memory: ProcessMemory, progress: Progress) -> Progress:
    """The part of a progress that a supervisor needs that changes the size of the run."""
    facts = tuple(sample for sample in progress.facts if sample.metric in MEASURED)
    return replace(progress, facts=facts, memory=memory.resident())


def _print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write_report(write: Callable[[bytes], object], report: ChildReport) -> None:
    with suppress(BrokenPipeError):  # the supervisor has ended: `_stop_with_supervisor` notices it too
        write(json.encode(report) + b"\n")


def _read_line() -> bytes:
    """Read the first line of standard input, without a buffer: a buffer has a lock, and another thread that reads would
    hold it when the process exits."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += os.read(0, 1 << 16) or b"\n"
    return bytes(line)


def _stop_with_supervisor() -> None:
    """Send SIGTERM to this process once its standard input has ended."""
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
