"""Errors that help: what was wrong, where in the user's file, what was expected, what to do."""

from collections.abc import Callable
from typing import Any

import pytest

from fluvial.dsl import FluvialError
from fluvial.dsl.origin import Origin


def assert_explains(
    raised: FluvialError, wrong: str, place: Callable[..., Any] | None, expected: str, remedy: str = "", below: int = 0
) -> None:
    """Fail unless the error says all that; `place` is what did wrong, so many lines `below` its first."""
    lines = str(raised).splitlines()
    assert wrong in lines[0]
    if place is not None:
        code = place.__code__
        assert f"  at {Origin(code.co_filename, code.co_firstlineno + below)}" in lines
    assert any(line.startswith("  expected: ") and expected in line for line in lines), raised
    assert not remedy or any(line.startswith("  to do: ") and remedy in line for line in lines), raised


def error_of(call: Callable[[], Any], kind: type[FluvialError]) -> FluvialError:
    """What a call raises; of this very kind."""
    with pytest.raises(kind) as raised:
        call()
    assert type(raised.value) is kind
    return raised.value
