"""Errors in a worker, whose tracebacks Spark sends to the driver as text."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ....dsl.errors import FluvialError
from ....dsl.text import visible
from ...kernel.failures import ended_by_exit


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
