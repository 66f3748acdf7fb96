"""The Java process of a Spark that a run starts, and a Spark that ends before the run does."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from ...dsl.checks import explain
from ...dsl.errors import SystemProblem

_log = logging.getLogger(__name__)


class QueryFailed(SystemProblem):
    """A query has ended with an error of Spark's, not of the pipeline or of a system."""


def launched(conf: SparkConf) -> Any:
    """Start Java in a process group of its own, and return the way to it: signals to this process's group, such as
    Ctrl-C, are for this process to heed.

    In a thread, which no signal interrupts: a Java whose start is not waited for never ends.
    """
    started: list[Any] = []
    launch = cast("Any", launch_gateway)
    try:
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(lambda: started.append(launch(conf, {"start_new_session": True}))).result()
    except BaseException:
        for process in (gateway.proc for gateway in started if gateway.proc is not None):
            process.stdin.close()  # Java ends when nobody can write to it
        raise
    return started[0]


def reason(error: BaseException) -> str:
    """What an error of Spark's says, without where in Java it was raised."""
    text = str(error).partition("\n=== Streaming Query ===")[0].partition("\n\tat ")[0].strip()
    called, _, told = text.partition("\n: ")
    return told if called.startswith("An error occurred while calling ") and told else text


@contextmanager
def outlived(asked: Callable[[], bool]) -> Iterator[None]:
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
