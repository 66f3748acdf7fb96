"""Keys and values of a test as the bytes of a stream."""

from collections.abc import Callable
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.serde import Serde, type_name
from ...dsl.text import error_text
from ...dsl.validation import explain


def encoded(what: str, given: Any, serde_of: Callable[[Any], Serde[Any]], type_: Any) -> bytes:
    """Encode a key or value; raises UsageError if the stream cannot hold it."""
    try:
        return serde_of(type(given) if type_ is None else type_).encode(given)
    except Exception as error:
        wrong = f"send: {what}={given!r} cannot be encoded: {error_text(error)}"
        if isinstance(type_, type) and not isinstance(given, type_):  # Python's words are of methods of str
            wrong = f"send: {what}={given!r} is of type {type(given).__name__}"
        expected = f"a {what} of type {type_.name if isinstance(type_, Serde) else type_name(type_)}"
        expected = "a key of type str, bytes, int or a tuple of them" if type_ is None else expected
        raise UsageError(explain(wrong, expected, f"correct it, or {what}= of the stream")) from error
