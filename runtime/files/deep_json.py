"""JSON that is nested more deeply than decoders follow: whether it is well formed, found without recursion."""

import re

_TOKEN = re.compile(
    r"[ \t\r\n]*(?:"
    r'(?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(?P<plain>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
    r"|(?P<mark>[\[\]{}:,]))"
)
_CLOSING = {"[": "]", "{": "}"}
_KEY, _VALUE = "a key", "a value"
_ANY_VALUE = frozenset({_VALUE, "[", "{"})


def check_deep_json(value: bytes) -> None:
    """Raise ValueError unless it is one JSON value, however deep.

    >>> check_deep_json(b"[" * 5000 + b"]" * 5000)
    >>> check_deep_json(b"[" * 5000)
    Traceback (most recent call last):
        ...
    ValueError: it ends before its value does (byte 5000)
    """
    text = value.decode()
    open_marks: list[str] = []
    allowed = _ANY_VALUE
    at, length = 0, len(text.rstrip(" \t\r\n"))
    while at < length:
        token = _TOKEN.match(text, at)
        kind = "" if token is None else _kind(token, allowed)
        if token is None or kind not in allowed:
            raise _malformed(text, at, "another token is expected")
        at = token.end()
        allowed = _follow(kind, open_marks)
    if allowed:
        raise _malformed(text, length, "it ends before its value does")


def _kind(token: re.Match[str], allowed: frozenset[str]) -> str:
    """What a token is where it stands: a mark itself, a key where one is due, else a value."""
    mark = token["mark"]
    if mark is not None:
        return mark
    return _KEY if token["string"] is not None and _KEY in allowed else _VALUE


def _follow(kind: str, open_marks: list[str]) -> frozenset[str]:
    """What may come after a token; nothing after the whole value."""
    if kind in _CLOSING:
        open_marks.append(kind)
        return _ANY_VALUE | {"]"} if kind == "[" else frozenset({_KEY, "}"})
    if kind == _KEY:
        return frozenset({":"})
    if kind == ":":
        return _ANY_VALUE
    if kind == ",":
        return _ANY_VALUE if open_marks[-1] == "[" else frozenset({_KEY})
    if kind in _CLOSING.values():
        open_marks.pop()
    return frozenset({",", _CLOSING[open_marks[-1]]}) if open_marks else frozenset()


def _malformed(text: str, at: int, why: str) -> ValueError:
    return ValueError(f"{why} (byte {len(text[:at].encode())})")
