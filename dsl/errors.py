"""Everything that Fluvial raises.

FluvialError
    PipelineError          the pipeline cannot mean anything; raised where it is written          exit 3
        NoSuchVerb         a stream, table or pipeline has no verb of that name                    exit 3
        PlanError          the pipeline has a meaning but no plan                                  exit 3
        UnsupportedError   the plan is fine, this engine or system cannot run it                   exit 3
    UsageError             an argument outside the pipeline is wrong: a file, a setting, a target  exit 2
        MissingExtraError  an optional package is not installed                                    exit 2
    SystemProblem          a system is out of reach, or does not hold what was expected            exit 4
        TakenOver          another process has replaced this one                                   exit 4
    MessageError           a message failed under `on_error=fail()`                                exit 5
    NoProgressError        there is input, and nothing has moved for too long                      exit 6
    ContainerFailed        one of several containers has ended the run                             its exit code

Each message says what was wrong, where in the user's file, what was expected and what to do. What it quotes may be
anything, so escapes of terminals are shown in it and not obeyed.
"""

from .text import visible


class FluvialError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line ends with.

    >>> try:
    ...     plan(Pipeline("empty"))
    ... except FluvialError as error:
    ...     error.exit_code
    3
    """

    exit_code = 1

    def __str__(self) -> str:
        return visible(super().__str__())


class PipelineError(FluvialError):
    """The pipeline cannot mean anything; raised where it is written.

    >>> Pipeline("a pipeline")
    Traceback (most recent call last):
    fluvial.dsl.errors.PipelineError: pipeline name 'a pipeline'
      at ...
      expected: letters, digits, '_' and '-', at most 200 of them
      to do: choose such a name; it becomes part of names of topics, stores and checkpoints
    """

    exit_code = 3


class NoSuchVerb(PipelineError, AttributeError):
    """A stream, table or pipeline has no verb of that name. It is an AttributeError too, so that `hasattr` works.

    >>> Pipeline("p").stream("words", value=str).fliter(len)
    Traceback (most recent call last):
    fluvial.dsl.errors.NoSuchVerb: MessageStream has no 'fliter'
      at ...
      expected: one of async_flat_map, broadcast, deduplicate, filter, ...
      to do: write .filter
    """


class PlanError(PipelineError):
    """The pipeline has a meaning but no plan; raised by `plan`, and by `run` before anything starts.

    >>> pipeline = Pipeline("unfinished")
    >>> words = pipeline.stream("words", value=str)
    >>> plan(pipeline)
    Traceback (most recent call last):
    fluvial.dsl.errors.PlanError: nothing reads what stream words emits
      at ...
      expected: a terminal operator
      to do: end it with .send_to(...) or .sink(...)
    """


class UnsupportedError(PipelineError):
    """The plan is fine, but this engine or system cannot run it.

    >>> issubclass(UnsupportedError, PipelineError)
    True
    """


class UsageError(FluvialError):
    """An argument outside the pipeline is wrong: a file, a setting, a target, the name of a stream.

    >>> Settings(output_partitions=0)
    Traceback (most recent call last):
    fluvial.dsl.errors.UsageError: Settings: output_partitions=0
      at ...
      expected: a whole number, 1 or more, or None
      to do: correct it, or leave it out: the default is None
    """

    exit_code = 2


class MissingExtraError(UsageError):
    """An optional package is not installed; the message names the command that installs it.

    >>> issubclass(MissingExtraError, UsageError)
    True
    """


class SystemProblem(FluvialError):
    """A system is out of reach, or does not hold what was expected.

    >>> open_system("memory:").admin().ends("clicks")
    Traceback (most recent call last):
    fluvial.dsl.errors.SystemProblem: there is no stream 'clicks'
      at memory:
      expected: the name of a stream; streams that exist: none
      to do: correct the name, or create the stream first
    """

    exit_code = 4


class TakenOver(SystemProblem):
    """Another process has replaced this one: the same container of the pipeline, or all of it.

    >>> TakenOver.exit_code
    4
    """


class MessageError(FluvialError):
    """A message failed and the pipeline says to stop.

    >>> pipeline = Pipeline("shares")
    >>> pipeline.stream("numbers", value=int).map(lambda number: 12 // number).send_to("shares")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("numbers", 0)
    Traceback (most recent call last):
    fluvial.dsl.errors.MessageError: ...
    """

    exit_code = 5


class NoProgressError(FluvialError):
    """There is input, and nothing has moved for `Settings.stall_timeout`.

    >>> NoProgressError.exit_code
    6
    """

    exit_code = 6


class ContainerFailed(FluvialError):
    """One of several containers has ended the run; `exit_code` is the container's, 128 and the signal if it was killed.
    The last lines that it printed are a note of the error, which tracebacks show.

    >>> ContainerFailed("container 1 ended with exit code 5", 5).exit_code
    5
    """

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code
