"""Whether deep JSON is well formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.files.deep_json import check_deep_json

TOKENS = [
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    '"a"',
    '"\\u00e9\\n"',
    "1",
    "-0.5e+3",
    "01",
    "true",
    "nul",
    " ",
    "\n",
    '"\n"',
    '"',
    "é",
]
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def passes(text: str) -> bool:
    try:
        check_deep_json(text.encode())
    except ValueError:
        return False
    return True


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1]))
def test_json_passes(document: Any, ascii: bool, indent: int | None) -> None:
    check_deep_json(json.dumps(document, ensure_ascii=ascii, indent=indent).encode())


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
def test_what_passes_is_json(text: str) -> None:
    assert passes(text) == is_json(text)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 100_000])
def test_depth_has_no_bound(depth: int) -> None:
    check_deep_json(b'{"a":[ ' * depth + b"1" + b"]}" * depth)
    with pytest.raises(ValueError, match="it ends before its value does"):
        check_deep_json(b"[" * depth + b"]" * (depth - 1))


@pytest.mark.parametrize(
    "value", [b"\xff", b"", b" ", b'["\xff"]', b"NaN", b"[1,]", b'{"a",1}', b"[}", b"1 2", b"\x0b1"]
)
def test_what_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"byte|decode"):
        check_deep_json(value)
