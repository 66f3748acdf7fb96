"""Options of the command line that are more than one word: pairs, durations, and systems."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, overload

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ..systems import KafkaSystem, System, open_system

T = TypeVar("T")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days"}


def refused(option: str, given: str, expected: str, remedy: str = "") -> UsageError:
    """An option with a wrong value."""
    return UsageError(explain(f"{option} {given}", expected, remedy, "the command line"))


def pairs(option: str, given: Sequence[str], form: str, value: Callable[[str], T]) -> dict[str, T]:
    """The values of an option that is written `NAME=VALUE` and may be repeated, by name.

    >>> pairs("--partitions", ["clicks=4"], "STREAM=N", count)
    {'clicks': 4}
    """
    found: dict[str, T] = {}
    for text in given:
        name, between, rest = text.partition("=")
        if not (name and between and rest):
            raise refused(option, text, form)
        if name in found:
            raise refused(option, text, f"each name once; {name} was given before")
        try:
            found[name] = value(rest)
        except ValueError as error:
            raise refused(option, text, f"{form}: {error}") from None
    return found


def count(text: str) -> int:
    """A number of partitions and the like."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number, 1 or more")
    return int(text)


def duration(option: str, text: str) -> timedelta:
    """A duration such as `500ms`, `2s`, `1.5min`.

    >>> duration("--commit-interval", "500ms")
    datetime.timedelta(microseconds=500000)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise refused(option, text, "a number with a unit: ms, s, min, h or d", f"write {option} 500ms")
    return timedelta(**{_UNITS[found[2]]: float(found[1])})


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|KiB|MiB|GiB)")
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size(option: str, text: str) -> int:
    """A number of bytes such as `64MB`, `500kB`, `1GiB`.

    >>> size("--max-line", "64MB")
    64000000
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise refused(option, text, "a number with a unit: B, kB, MB, GB, KiB, MiB or GiB", f"write {option} 64MB")
    return int(float(found[1]) * _BYTES[found[2]])


def by_stream(option: str, given: Sequence[str]) -> dict[str, str]:
    """The values of an option that is written `[STREAM=]VALUE` and may be repeated, by stream; "" is that of all.

    >>> by_stream("--key-field", ["id", "orders=customer"])
    {'': 'id', 'orders': 'customer'}
    """
    alone = [text for text in given if "=" not in text]
    if len(alone) > 1 or "" in alone:
        raise refused(option, alone[-1], "one name for all streams, and others as STREAM=NAME")
    named = pairs(option, [text for text in given if "=" in text], "[STREAM=]NAME", str)
    return {"": alone[0], **named} if alone else named


@overload
def system(url: str, kafka_conf: Path | None) -> System: ...
@overload
def system(url: str | None, kafka_conf: Path | None) -> System | None: ...
def system(url: str | None, kafka_conf: Path | None) -> System | None:
    """The system that is named, if one is; for Kafka with the settings in a file."""
    if kafka_conf is None:
        return None if url is None else open_system(url)
    if url is None or not url.startswith("kafka:"):
        raise refused(
            "--kafka-conf", f"with --system {url}" if url else "without --system", "--system kafka://HOST:PORT"
        )
    return KafkaSystem.named(url, **read_properties(kafka_conf))


TOPICS = "topics."


def read_properties(path: Path) -> dict[str, dict[str, str]]:
    """Settings from a file: `conf` of the client, and `topics`, whose names begin with `topics.` there.

    A line is `NAME=VALUE`, empty, or a comment that begins with `#`. No error shows a value, which may be a secret.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise refused("--kafka-conf", str(path), "a text file that can be read", str(error)) from None
    found: dict[str, dict[str, str]] = {"conf": {}, "topics": {}}
    for number, line in enumerate(lines, 1):
        name, between, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not between:
            raise refused("--kafka-conf", f"{path}, line {number}", "NAME=VALUE, or a comment that begins with #")
        kind = "topics" if name.startswith(TOPICS) else "conf"
        found[kind][name.removeprefix(TOPICS)] = value
    return found
