"""`start`: runs a pipeline in the background, as from a notebook, and returns a handle on the run."""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, require
from ..dsl.verb_calls import explained_call
from ..planner.settings import Settings
from .autosize.autosize_options import Autosize
from .containers.start import HostsArguments, prepared_on_hosts, refuse_without_hosts
from .data_frames.bindings import Backfill, data_frames
from .launch import EngineName, Until, checked_progress, prepared
from .local.coordination.membership import ContainerId
from .process.run_control import RUN_CONTROL, RunControl
from .report import OnProgress, Progress, Report
from .systems.contract import System

if TYPE_CHECKING:
    from .metrics.http import Metrics


class RunHandle:
    """A run that goes on in a thread of its own, which `start` has started. As a context manager it stops the run at
    its end. A process ends only once its runs have ended.

    >>> streams = open_system("memory:")
    >>> streams.admin().create("words", 1)
    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> with start(pipeline, system=streams) as handle:
    ...     handle.running
    True
    >>> handle.wait().written
    {}
    """

    def __init__(
        self, run_prepared: Callable[[OnProgress], Report], pipeline: Pipeline, progress: OnProgress | None
    ) -> None:
        self._name, self._run, self._on_progress = pipeline.name, run_prepared, progress
        self._control = RunControl()
        self._progress: Progress | None = None
        self._report: Report | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"fluvial-{pipeline.name}")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.stop()
        else:
            self._control.stop.request()
            self._thread.join()

    def __repr__(self) -> str:
        if self.running:
            how = "starting" if self._progress is None else _described(self._progress)
        else:
            how = "ended" if self._error is None else f"failed: {str(self._error).partition(chr(10))[0]}"
        return f"<run of {self._name}: {how}>"

    @property
    def running(self) -> bool:
        """Whether the run has not ended."""
        return self._thread.is_alive()

    @property
    def progress(self) -> Progress | None:
        """How far the run is, as of about a second ago; None until that is known first."""
        return self._progress

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the run; None if none has."""
        return None if self.running else self._error

    @property
    def queries(self) -> tuple[Any, ...]:
        """The queries of Spark that the run has started, each a `pyspark.sql.streaming.StreamingQuery`: for their
        progress, say. Do not stop them: `stop` ends the run between two batches. Empty on the local engine."""
        return self._control.queries

    def wait(self, timeout: timedelta | None = None) -> Report | None:
        """Wait until the run ends, and return its report; None if `timeout` has passed before. Raises the error that
        has ended the run, a `FluvialError` as of `run`."""
        _check(timeout)
        self._thread.join(None if timeout is None else timeout.total_seconds())
        if self.running:
            return None
        if self._error is not None:
            raise self._error
        return self._report

    def stop(self, timeout: timedelta | None = None) -> Report | None:
        """Ask the run to commit and stop, and do as `wait`. On Spark it stops between two batches."""
        _check(timeout)
        self._control.stop.request()
        return self.wait(timeout)

    def _work(self) -> None:
        RUN_CONTROL.set(self._control)
        try:
            self._report = self._run(self._note)
        except BaseException as error:
            self._error = error  # `wait` raises it in the thread of the caller

    def _note(self, progress: Progress) -> None:
        self._progress = progress
        if self._on_progress is not None:
            self._on_progress(progress)


def _check(timeout: object) -> None:
    valid = timeout is None or isinstance(timeout, timedelta)
    require(valid, UsageError, f"timeout={timeout!r}", "a timedelta, or None", "write timedelta(seconds=5)")


def _described(progress: Progress) -> str:
    lag = "" if progress.lag is None else f", {progress.lag:,} left"
    tasks = f", {progress.batch_tasks_done:,} of {progress.batch_tasks:,} tasks" if progress.batch_tasks else ""
    return f"{progress.phase}, {progress.read:,} read, {progress.written:,} written{lag}{tasks}"


@partial(explained_call, error=UsageError)
def start(
    pipeline: Pipeline,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    until: Until = "stopped",
    progress: OnProgress | None = None,
    metrics: "Metrics | None" = None,
    spark: Any = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    backfill: Backfill | None = None,
    containers: int | None = None,
    hosts: Any = None,
    autosize: Autosize | None = None,
) -> RunHandle:
    """Begin to run a pipeline in a thread of its own, and return a handle on the run: to wait for it, to stop it, and
    to see how far it is.

    The arguments are those of `run`; `containers` and `autosize` are for `hosts` alone. What `run` refuses before
    anything starts is raised here, all later errors by the handle's `wait`.

    >>> streams = open_system("memory:")
    >>> streams.admin().create("words", 1)
    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> handle = start(pipeline, system=streams, until="end")
    >>> handle.wait().read
    {}
    """
    checked_progress(progress)
    frames = data_frames(inputs, outputs, backfill)
    if hosts is not None:
        asked = HostsArguments(engine, until, spark, metrics, hosts, containers, bool(frames), autosize)
        return RunHandle(prepared_on_hosts(pipeline, system, settings, asked), pipeline, progress)
    refuse_without_hosts(autosize)
    if containers is not None:
        wrong, remedy = (
            f"containers={containers!r} without hosts=",
            "pass hosts=, or run each with run(container_id=...)",
        )
        raise UsageError(explain(wrong, "a cluster that they run on", remedy))
    run_prepared = prepared(pipeline, engine, system, settings, until, spark, ContainerId(), metrics, frames=frames)
    return RunHandle(run_prepared, pipeline, progress)
