"""Errors in a worker, on their way to the driver.

Those of the pipeline travel as rows: the task succeeds, or Spark would run it again up to four times, with all its
calls. The driver then fails the batch. Spark sends the tracebacks of all other errors as text.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import pyarrow as pa

from ....dsl.errors import FluvialError, MessageError, NoProgressError, PipelineError, UsageError
from ....dsl.text import visible
from ....dsl.validation import explain
from ...kernel.failures import ended_by_exit
from ..batch_report import BatchReport, Failure
from ..rows import Row, arrow_batch
from .outputs import Outputs

LASTING: Mapping[str, type[FluvialError]] = MappingProxyType(
    {kind.__name__: kind for kind in (MessageError, NoProgressError, PipelineError, UsageError)}
)
"""The errors of a pipeline, by name. They come again however often a task is run."""

_LONGEST_TRACE = 20_000
"""Characters of a traceback that travel: the last ones."""


def failure_rows(error: BaseException, outputs: Outputs) -> list[Row]:
    """An error of the pipeline as rows; any other is raised."""
    for name, kind in LASTING.items():
        if isinstance(error, kind):
            trace = visible("".join(traceback.format_exception(error)))[-_LONGEST_TRACE:]
            return outputs.failure_rows(BatchReport(failure=Failure(name, str(error), trace)))
    raise error


def failures_as_rows(
    batches: Iterable[pa.RecordBatch],
    outputs: Outputs,
    made: Callable[[Sequence[Row]], pa.RecordBatch] = arrow_batch,
) -> Iterator[pa.RecordBatch]:
    """The batches of a task; where an error of the pipeline ends them, its rows, of which Arrow batches are `made`, are
    the last ones."""
    try:
        yield from batches
    except tuple(LASTING.values()) as error:
        yield made(failure_rows(error, outputs))


def lost_files(wrong: str, before: str = "") -> str:
    """The text of an error of a checkpoint that lacks files, or parts of them. What is to be tried `before` that comes
    first."""
    remedy = (
        f"{before}restore the checkpoint from a copy, on the embedded log together with the log, or start over with "
        "fluvial reset --all"
    )
    return explain(wrong, "the files of the checkpoint as the last run left them", remedy)


class _TaskTraceback(Exception):
    """The traceback of a task that has failed, as the cause of the error that the driver raises."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def checked_report(reports: Iterable[BatchReport]) -> BatchReport:
    """In the driver: add up the reports of the tasks of a batch, and raise the error by which one has failed, if one
    has."""
    report = BatchReport()
    for one in reports:
        report.add(one)
    raise_failure(report)
    return report


def raise_failure(report: BatchReport) -> None:
    """Raise the error by which a task has failed, if its report has one."""
    if (failure := report.failure) is not None:
        raise LASTING[failure.kind](failure.text) from _TaskTraceback(failure.trace)


@contextmanager
def sendable_errors(pipeline: str) -> Iterator[None]:
    """Raise errors in a form that reaches the driver. `sys.exit` in a user's function is an error, as on the local
    engine.

    Spark's worker announces a traceback, and then encodes it as UTF-8. Where that fails, as for half of a surrogate
    pair in the text of any error of the chain, Spark would wait for the traceback for ever.
    """
    try:
        yield
    except SystemExit as ended:
        raise ended_by_exit(pipeline, ended) from None
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        try:
            text.encode()
        except UnicodeEncodeError:
            # Without the chain, whose texts are not ours: the message of an error of ours can always be encoded.
            raise (error if isinstance(error, FluvialError) else RuntimeError(visible(text))) from None
        raise
