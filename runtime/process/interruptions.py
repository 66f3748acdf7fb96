"""Interruptions that come back as another error: functions in C that do not expect one make a SystemError of it."""

from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTIONS = (KeyboardInterrupt, SystemExit)
"""What ends the process. All else that a user's function raises is an error of its message, also what is no
`Exception`, such as `asyncio.CancelledError`."""


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The interruption that an error was made of; None if it is another error."""
    cause = error.__cause__ if isinstance(error, SystemError) else None
    return cause if isinstance(cause, KeyboardInterrupt) else None


@contextmanager
def interruptions_raised() -> Iterator[None]:
    """Raise the interruption itself where an error was made of it. The client of Kafka does so, for one."""
    try:
        yield
    except SystemError as error:
        caught = interruption(error)
        if caught is None:
            raise
        raise caught from None
