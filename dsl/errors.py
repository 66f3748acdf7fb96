"""Everything that Fluvial raises.

FluvialError
    PipelineError          the pipeline cannot mean anything; raised where it is written          exit 3
        PlanError          the pipeline has a meaning but no plan                                  exit 3
        UnsupportedError   the plan is fine, this engine or system cannot run it                   exit 3
    UsageError             an argument outside the pipeline is wrong: a file, a setting, a target  exit 2
        MissingExtraError  an optional package is not installed                                    exit 2
    SystemProblem          a system is out of reach, or does not hold what was expected            exit 4
    MessageError           a message failed under `on_error=fail()`                                exit 5
    NoProgressError        there is input, and nothing has moved for too long                      exit 6

Each message says what was wrong, where in the user's file, what was expected and what to do.
"""


class FluvialError(Exception):
    """Base of all errors of this package; `exit_code` is what the command line ends with."""

    exit_code = 1


class PipelineError(FluvialError):
    """The pipeline cannot mean anything."""

    exit_code = 3


class PlanError(PipelineError):
    """The pipeline has a meaning but no plan."""


class UnsupportedError(PipelineError):
    """The plan is fine, but this engine or system cannot run it."""


class UsageError(FluvialError):
    """An argument outside the pipeline is wrong."""

    exit_code = 2


class MissingExtraError(UsageError):
    """An optional package is not installed; the message names the command that installs it."""


class SystemProblem(FluvialError):
    """A system is out of reach, or does not hold what was expected."""

    exit_code = 4


class MessageError(FluvialError):
    """A message failed and the pipeline says to stop."""

    exit_code = 5


class NoProgressError(FluvialError):
    """There is input, and nothing has moved for too long."""

    exit_code = 6
