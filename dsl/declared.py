"""Types of keys and values as users declare them, checked where they are written."""

from typing import Any

from .errors import PipelineError
from .serde import key_serde, type_name, value_serde
from .validation import explain


def checked_value(what: str, value: Any) -> Any:
    """A value type or Serde as given, refused unless values of it can be decoded."""
    try:
        if value is None:
            raise TypeError("it is no type")
        value_serde(value)
    except (TypeError, NotImplementedError) as error:
        wrong = f"{what}: value={type_name(value)} cannot be decoded: {error}"
        expected = "a dataclass, Struct, TypedDict or builtin type, bytes, str, or a Serde"
        raise PipelineError(explain(wrong, expected)) from None
    return value


def checked_key(what: str, key: Any) -> Any:
    """A key type or Serde as given, refused unless it can be a key."""
    try:
        key_serde(key)
    except TypeError as error:
        raise PipelineError(explain(f"{what}: {error}", "str, bytes, int, a tuple of them, or a Serde")) from None
    return key
