"""Jobs of one task each, which Spark runs wherever there is a core: what containers of the local engine run in."""

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkFiles
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from ...dsl.errors import FluvialError, SystemProblem, UnsupportedError, UsageError
from ...dsl.text import visible
from ...dsl.validation import explain
from .query.java_process import quiet_client, reason
from .query.job_tasks import jobs_of_group, runs_a_task
from .query.session import session_for
from .query.supervision import python_problem

PORT = "spark.fluvial.port"
"""The setting of Spark with the port at which the driver listens for its tasks; any free one by default."""
SPECULATION = ("spark.speculation", "spark.speculation.task.duration.threshold")
"""With both Spark would begin a second task beside one that runs for long."""
IDLENESS = ("spark.python.worker.killOnIdleTimeout", "spark.python.worker.idleTimeoutSeconds")
"""With both Spark would kill a task that gives it nothing for so long: a container gives it nothing before its end."""
PYTHONPATH = "PYTHONPATH"
_JOIN_SECONDS = 5.0
"""The time in which the jobs of a run that is over end, all together."""
_ASK_SECONDS = 3.0
"""How long Java may take to say what it has: whoever asks does nothing else meanwhile, and hears no signal."""
_OTHER_VERSION = re.compile(r"No module named 'fluvial\.|Can't get attribute '\w+' on <module 'fluvial\.")
_UNKNOWN_CORES = "Spark does not say how many it has"
_GONE = (Py4JError, OSError, EOFError)
"""What a call of Java raises if its process has ended."""

Work = Callable[[bytes, Mapping[str, str]], str]
"""What a task does: it gets its order, and the environment for its children. Returns why it did nothing, or no text."""
JobEnded = Callable[[FluvialError | str], None]
"""Called by another thread with what `Work` has returned, why Spark could not run it, or an error that comes again."""


class DriverAddress(NamedTuple):
    """Where the driver listens: `host` and `port` to bind, and the name `known_as` by which workers find the host."""

    host: str
    port: int
    known_as: str


class TaskJobs:
    """The jobs of one `work`, each with an order of its own and a name that no other job has.

    Java is called by threads alone that nobody waits for: it may stand still, and whoever calls it would with it.
    `properties` are those of Java's for the jobs, as the thread of the run has them.
    """

    def __init__(self, context: SparkContext, work: Work, properties: Any = None) -> None:
        self._context, self._work, self._properties = context, work, properties
        self._threads: list[Thread] = []

    def submit(self, name: str, title: str, order: bytes, ended: JobEnded) -> None:
        """Submit a job. If Spark has ended, `ended` is called."""
        # A container that dies again and again has a job each time: without this the list would grow as long as the run
        # lasts.
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = Thread(target=self._run, args=(name, title, order, ended), name=title, daemon=True)
        self._threads.append(thread)
        thread.start()

    def cancel(self, name: str) -> None:
        """Let a job be cancelled, also one that Spark has not been given yet."""
        Thread(target=self._cancel, args=(name,), name=f"cancel {name}", daemon=True).start()

    def _cancel(self, name: str) -> None:
        with suppress(*_GONE, AttributeError):  # PySpark forgets a context that was stopped
            self._scala.cancelJobGroupAndFutureJobs(name)

    def load(self, names: Collection[str]) -> tuple[Collection[str], str]:
        """Which of these jobs have a task that runs, be it that its Python only starts; and how many tasks Spark can
        run at a time, and how many run."""
        said: list[tuple[Collection[str], str]] = []
        asking = Thread(target=lambda: said.append((self._begun(names), self._cores())), name="load", daemon=True)
        asking.start()
        # The thread is left behind where Java stands still: it is a daemon, and what it says later nobody reads.
        asking.join(_ASK_SECONDS)
        return said[0] if said else ((), _UNKNOWN_CORES)

    def _begun(self, names: Collection[str]) -> Collection[str]:
        try:
            return [name for name in names if runs_a_task(self._context, jobs_of_group(self._context, name))]
        except (*_GONE, AttributeError):
            return ()

    def _cores(self) -> str:
        try:
            profile = self._scala.resourceProfileManager().defaultResourceProfile()
            most = self._scala.maxNumConcurrentTasks(profile)
            run = sum(executor.numRunningTasks for executor in self._context.statusTracker().getExecutorInfos())
        except (*_GONE, AttributeError):
            return _UNKNOWN_CORES
        if not most:
            host = self._context.getConf().get("spark.driver.host")
            return (
                f"Spark has no executor, for which workers must have cores and memory, and reach this driver at {host}"
            )
        return f"Spark has room for {most} tasks at a time, and runs {run}"

    def join(self) -> None:
        """Wait until the jobs have ended, so that none is left to a session that lives on. If Java does not answer,
        they never do."""
        until = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def _scala(self) -> Any:
        context: Any = self._context._jsc
        return context.sc()

    def _run(self, name: str, title: str, order: bytes, ended: JobEnded) -> None:
        context = self._context
        try:
            # They belong to a thread of Java, and this is a new one: a pool of the scheduler, say, would be another
            # than the run's.
            if self._properties is not None:
                self._scala.setLocalProperties(self._properties.clone())
            context.setJobGroup(name, title, interruptOnCancel=False)
            one = context.parallelize([None], 1).mapPartitions(partial(_in_worker, self._work, order))
            problem: FluvialError | str = one.collect()[0]
        except Exception as error:  # of a thread, which nobody else would see
            problem = self._problem(error)
        ended(problem)

    def _problem(self, error: Exception) -> FluvialError | str:
        message = reason(error)
        if (problem := self._ended() or python_problem(message)) is not None:
            return problem
        if _OTHER_VERSION.search(message):
            wrong = "a worker has another version of Fluvial than the one that the run was started with"
            remedy = "install the same version on the driver and on every worker"
            return SystemProblem(explain(wrong, "one version of Fluvial", remedy, "a worker of Spark's"))
        if isinstance(error, PythonException):
            wrong = f"a worker of Spark's cannot run a task: {message}"
            expected, remedy = "workers with the same Python and packages as here", "see the logs of the executors"
            return SystemProblem(explain(wrong, expected, remedy, "a worker of Spark's"))
        return visible(message.partition("\n")[0])

    def _ended(self) -> SystemProblem | None:
        """The error if Spark has ended."""
        with suppress(*_GONE, AttributeError):  # PySpark forgets a context that was stopped
            if not self._scala.isStopped():
                return None
        wrong = "Spark has ended: its session was stopped, or its Java process does not answer"
        return SystemProblem(explain(wrong, "a session that lives as long as the run", "start the run again", "Spark"))


@contextmanager
def task_jobs(spark: Any, argument: str, work: Work) -> Iterator[tuple[TaskJobs, DriverAddress]]:
    """Let Spark run jobs while the context is open. `spark` is a session or the URL of a master, which the user has
    given as `argument`; a session that is started for it ends with the context."""
    with quiet_client(_always), _session(spark, argument) as session:
        context: Any = session.sparkContext
        _refuse_shared_threads(context)
        setting = context.getConf().get
        _refuse_switches(setting)
        known_as = setting("spark.driver.host") or "localhost"
        bound = setting("spark.driver.bindAddress") or known_as
        address = DriverAddress(bound.strip("[]"), _port(setting(PORT) or "0"), known_as.strip("[]"))
        jobs = TaskJobs(context, work, context._jsc.sc().getLocalProperties().clone())
        try:
            yield jobs, address
        finally:
            jobs.join()


@contextmanager
def _session(spark: Any, argument: str) -> Iterator[SparkSession]:
    sessions = session_for(spark, argument)
    session = sessions.__enter__()
    try:
        yield session
    finally:
        with suppress(*_GONE):
            sessions.__exit__(None, None, None)


def _always() -> bool:
    """Whether the end of Java is reported by others, so that its client need not."""
    return True


def _in_worker(work: Work, order: bytes, _: Iterable[object]) -> Iterator[str]:
    yield work(order, environment_with(os.environ, sys.path, SparkFiles.getRootDirectory()))


def environment_with(environment: Mapping[str, str], path: Iterable[str], root: str) -> dict[str, str]:
    """The environment of a worker for its children, which also import what Spark has brought to this worker: what of
    its `path` lies in the folder `root`."""
    brought = [entry for entry in path if entry and Path(entry).is_relative_to(root)]
    return {**environment, PYTHONPATH: os.pathsep.join([*brought, *filter(None, [environment.get(PYTHONPATH)])])}


def _refuse_switches(setting: Callable[[str], str | None]) -> None:
    """Refuse settings of Spark's, which `setting` gives, that would end containers which nothing is wrong with."""
    for (switch, bound), would in (
        (SPECULATION, "run a second task of a container"),
        (IDLENESS, "kill containers, which give it nothing before their end"),
    ):
        if (setting(switch) or "").lower() == "true" and setting(bound) not in (None, "0"):
            wrong = f"{switch}=true with {bound}: Spark would {would}"
            raise UnsupportedError(explain(wrong, "one task for each container, until it ends", f"leave out {bound}"))


def _refuse_shared_threads(context: SparkContext) -> None:
    """Refuse a session in which the threads of Python share those of Java: the name of a job belongs to its thread of
    Java, and by the name it is cancelled."""
    if not isinstance(context._gateway, ClientServer):
        wrong = "PYSPARK_PIN_THREAD=false in the environment of this session"
        raise UnsupportedError(
            explain(wrong, "threads of Java for each of Python's", "leave it out", "the environment")
        )


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 1 << 16:
        return int(text)
    raise UsageError(explain(f"{PORT}={text}", "the number of a port, or 0 for any free one", "correct the setting"))
