"""Finds the KeyboardInterrupt behind a SystemError: extension modules that do not expect an interruption raise one in
its place."""

from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTIONS = (KeyboardInterrupt, SystemExit)
"""What ends the process. All else that a user's function raises is an error of its message, also what is no
`Exception`, such as `asyncio.CancelledError`."""


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt that a SystemError replaces; None for any other error."""
    cause = error.__cause__ if isinstance(error, SystemError) else None
    return cause if isinstance(cause, KeyboardInterrupt) else None


@contextmanager
def interruptions_raised() -> Iterator[None]:
    """Raise a KeyboardInterrupt instead of the SystemError that replaces it, as Kafka's client raises it."""
    try:
        yield
    except SystemError as error:
        caught = interruption(error)
        if caught is None:
            raise
        raise caught from None
