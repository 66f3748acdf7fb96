"""The Java process of Spark: how a run starts it, and what a run does if it ends before the run."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from threading import Event, Timer
from typing import Any, cast

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession, SQLContext

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain

_log = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
"""How long a Java process that a run has started may take to end with it; then it is killed."""

_IN_A_BATCH = "An exception was raised by the Python Proxy"
"""Spark's message if a batch has failed. Behind it is the traceback of the function that it calls with each batch."""


class QueryFailed(SystemProblem):
    """A query has failed with an error of Spark itself, not of the pipeline or of a system."""


def launch_java(errors: int, home: Path | None = None) -> Any:
    """Start Java in a process group of its own, and return the gateway to it. Under spark-submit it runs already.

    Signals to this process's group, such as Ctrl-C, do not reach Java. Java writes its standard error to the file
    descriptor `errors`. It is started from the Spark in `home`, or from the one that PySpark finds.

    The caller holds `SparkContext._lock`, as PySpark does when it starts Java. If this call is interrupted, it kills
    the Java process, since nothing else refers to it.
    """
    starting, module = _Starting(home), cast("Any", java_gateway)
    options = {"start_new_session": True, "stderr": errors}
    # PySpark hands its process out only once Java has answered. Until then nobody else could kill it.
    before, module.Popen = module.Popen, starting.popen
    try:
        # Signals do not interrupt a thread. Here one could come between the start of Java and `starting.process`.
        with ThreadPoolExecutor(max_workers=1) as thread:
            try:
                return thread.submit(module.launch_gateway, None, options).result()
            except BaseException:
                starting.give_up()  # before the executor waits for the thread, which waits for Java
                raise
    finally:
        module.Popen = before


@dataclass
class _Starting:
    """The Java process that PySpark is starting, the Spark it is started from, and whether the start was given up."""

    home: Path | None = None
    process: Popen[Any] | None = None
    given_up: bool = False

    def popen(self, *arguments: Any, **named: Any) -> Popen[Any]:
        if self.home is not None:
            named["env"] = {**named["env"], "SPARK_HOME": str(self.home)}
        process: Popen[Any] = Popen(*arguments, **named)
        self.process = process
        if self.given_up:
            _kill(process)
        return process

    def give_up(self) -> None:
        self.given_up = True  # `popen` kills a process that starts from now on
        if self.process is not None:
            _kill(self.process)


def _kill(process: Popen[Any]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # the group: Spark's launch script starts Java as its child
    if process.stdin is not None:
        process.stdin.close()


@contextmanager
def java_killed_if_it_stands_still(seconds: float = CLOSE_SECONDS) -> Iterator[None]:
    """Close what a run has in the Java process that it has started: if that takes longer than `seconds`, Java is
    killed, with a warning. A call of Java that stands still would never return."""
    gateway: Any = SparkContext._gateway
    process: Popen[Any] | None = None if gateway is None else gateway.proc
    if process is None:  # that of spark-submit is not ours
        yield
        return
    killed = Event()

    def kill() -> None:
        killed.set()
        _kill(process)

    timer = Timer(seconds, kill)
    # Else the end of this process would wait for it.
    timer.daemon = True
    timer.start()
    try:
        yield
    except (Py4JError, OSError, EOFError):
        if not killed.is_set():
            raise
    finally:
        timer.cancel()
        if killed.is_set():
            wrong = f"Spark's Java process {process.pid} did not end within {seconds:g} s, and was killed"
            remedy = "see the file that its messages go to; the next run goes on from the last batch that was done"
            _log.warning(
                explain(wrong, "a Java process that is not stopped, and has memory and processor time", remedy)
            )


def forget_ended_java() -> bool:
    """Make PySpark forget a Java process that has ended, so that the next session starts another. PySpark would use the
    first one for as long as this process lives. Returns whether there was an ended one."""
    with SparkContext._lock:
        gateway: Any = SparkContext._gateway
        if gateway is None or _answers(gateway):
            return False
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context._jsc = None  # stop() must not call the ended Java
            context.stop()
        gateway.shutdown_callback_server(raise_exception=False)
        if gateway.proc is not None:
            gateway.proc.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
    return True


def _answers(gateway: Any) -> bool:
    if gateway.proc is not None and gateway.proc.poll() is not None:
        return False
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def reason(error: BaseException) -> str:
    """The message of one of Spark's errors, without its Java traceback, nor the Python traceback of the call of a batch
    in which Java has failed."""
    text = str(error).partition("\n=== Streaming Query ===")[0].partition("\n\tat ")[0].strip()
    call, _, message = text.rpartition("\n: ") if _IN_A_BATCH in text else text.partition("\n: ")
    failed = call.startswith("An error occurred while calling ") or _IN_A_BATCH in call
    return message if failed and message else text


_CUT_OFF = (Py4JNetworkError, OSError, EOFError)
"""What a call of Java raises if Java ends meanwhile, or has ended."""


def quiet_accumulators(context: SparkContext) -> None:
    """Keep the server that gets accumulators from a context's Java from printing a traceback as Java ends."""
    server: Any = context._accumulatorServer
    handle = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), _CUT_OFF):
            handle(request, address)

    server.handle_error = handle_error


@contextmanager
def quiet_client(ending: Callable[[], bool]) -> Iterator[None]:
    """Keep PySpark's client of Java from logging the tracebacks of calls that the end of Java cuts off, which others
    report, and of all that are cut off while a run is `ending`."""

    def wanted(record: logging.LogRecord) -> bool:
        if record.module not in ("clientserver", "java_gateway"):
            return True
        cut_off = record.exc_info is not None and isinstance(record.exc_info[1], _CUT_OFF)
        # What a function of the user's raises as Java calls it is no call that is cut off.
        return not ending() and not (cut_off and record.funcName != "_call_proxy")

    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver", "py4j.java_gateway")]
    for logger in loggers:  # it logs some of them by the root
        logger.addFilter(wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(wanted)


@contextmanager
def java_end_explained(stopping: Callable[[], bool]) -> Iterator[None]:
    """Raise SystemProblem if Spark ends before the run. If the run was asked to stop, only log a warning.

    A service manager often sends SIGTERM to every process of a service. Java then ends at once, in the middle of a
    batch, and the next run repeats that batch.
    """
    try:
        with quiet_client(stopping):  # a call that a signal interrupts leaves a connection that py4j cannot close
            yield
    except (QueryFailed, Py4JError, ConnectionError, EOFError) as error:
        first = str(error).strip().partition("\n")[0]
        if stopping():
            _log.warning("Spark has ended before its batch did; the next run repeats it (%s)", first)
        elif isinstance(error, QueryFailed):
            raise
        else:
            wrong = f"Spark's Java process does not answer: {type(error).__name__}: {first}"
            remedy = "see the file that its messages go to, and whether the system has ended it for want of memory"
            # None of the calls that were cut off says more, and there are several by now.
            raise SystemProblem(explain(wrong, "a Java process that lives as long as the run", remedy)) from None
