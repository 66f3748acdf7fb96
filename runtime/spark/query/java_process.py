"""The Java process of a Spark that a run starts, and a Spark that ends before the run does."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession, SQLContext

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain

_log = logging.getLogger(__name__)


class QueryFailed(SystemProblem):
    """A query has ended with an error of Spark's, not of the pipeline or of a system."""


def launch_java(conf: SparkConf, errors: int) -> Any:
    """Start Java in a process group of its own, and return the way to it: signals to this process's group, such as
    Ctrl-C, are for this process to heed. Java writes its standard error to the file of this descriptor.

    Hold `SparkContext._lock`, as PySpark does whenever it starts Java. Whatever ends this call ends that process at
    once: nobody else knows it.
    """
    starting, module = _Starting(), cast("Any", java_gateway)
    told = {"start_new_session": True, "stderr": errors}
    before, module.Popen = module.Popen, starting.popen
    try:
        # In a thread, which no signal interrupts: else one might come between the start and the note of it.
        with ThreadPoolExecutor(max_workers=1) as thread:
            try:
                return thread.submit(module.launch_gateway, conf, told).result()
            except BaseException:
                starting.give_up()  # before the thread is waited for, which else ends when Java is up
                raise
    finally:
        module.Popen = before


@dataclass
class _Starting:
    """A Java that PySpark starts, and whether it is still wanted."""

    process: Popen[Any] | None = None
    given_up: bool = False

    def popen(self, *arguments: Any, **named: Any) -> Popen[Any]:
        process: Popen[Any] = Popen(*arguments, **named)
        self.process = process
        if self.given_up:
            _kill(process)
        return process

    def give_up(self) -> None:
        self.given_up = True  # a process that is not there yet will be ended as soon as it is
        if self.process is not None:
            _kill(self.process)


def _kill(process: Popen[Any]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started: scripts of Spark's look for Java first
    if process.stdin is not None:
        process.stdin.close()


def forget_ended_java() -> bool:
    """Let PySpark forget a Java that has ended, so that the next session starts another; else it keeps to the first as
    long as this process lives. Returns whether there was one to forget."""
    with SparkContext._lock:
        gateway: Any = SparkContext._gateway
        if gateway is None or _answers(gateway):
            return False
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context._jsc = None  # there is nothing left to tell
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
    """What an error of Spark's says, without where in Java it was raised."""
    text = str(error).partition("\n=== Streaming Query ===")[0].partition("\n\tat ")[0].strip()
    called, _, told = text.partition("\n: ")
    return told if called.startswith("An error occurred while calling ") and told else text


@contextmanager
def java_end_explained(asked: Callable[[], bool]) -> Iterator[None]:
    """Raise SystemProblem where Spark ends before the run does; but end quietly where the run was asked to stop.

    Who stops services often sends SIGTERM to each process of a group, or of a service: Java ends at once, and cannot
    finish the batch. The next run goes on behind the last batch that was.
    """
    try:
        yield
    except (QueryFailed, Py4JError, ConnectionError, EOFError) as error:
        first = str(error).strip().partition("\n")[0]
        if asked():
            _log.warning("Spark has ended before its batch did; the next run repeats it (%s)", first)
        elif isinstance(error, QueryFailed):
            raise
        else:
            wrong = f"Spark's Java process does not answer: {type(error).__name__}: {first}"
            remedy = "see the file that its messages go to, and whether the system has ended it for want of memory"
            raise SystemProblem(explain(wrong, "a Java process that lives as long as the run", remedy)) from error
