"""Parses the values of options: pairs, numbers, durations, sizes, systems."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args, overload

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ...planner.settings import Grouping
from ..systems import KafkaSystem, System, open_system
from ..systems.start_points import StartPoint, parsed_start

T = TypeVar("T")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|KiB|MiB|GiB)")
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

MAX_LINE = "64MB"
TOPICS = "topics."


def wrong_option(option: str, given: str, expected: str, remedy: str = "") -> UsageError:
    """The error for an option with a wrong value: what was given, and what was expected."""
    return UsageError(explain(f"{option} {given}", expected, remedy, "the command line"))


def pairs(option: str, given: Sequence[str], form: str, value: Callable[[str], T]) -> dict[str, T]:
    """The values of an option that is written `NAME=VALUE` and may be repeated, by name.

    >>> pairs("--partitions", ["clicks=4"], "STREAM=N", parsed_count)
    {'clicks': 4}
    """
    values: dict[str, T] = {}
    for text in given:
        name, between, rest = text.partition("=")
        if not (name and between and rest):
            raise wrong_option(option, text, form, f"write {option} {form}, with a text before and after the =")
        if name in values:
            raise wrong_option(option, text, f"each name once; {name} was given before", "leave out one of them")
        values[name] = _value(option, text, rest, form, value)
    return values


def _value(option: str, given: str, text: str, form: str, value: Callable[[str], T]) -> T:
    try:
        return value(text)
    except ValueError as error:
        raise wrong_option(option, given, f"{form}: {error}", f"write {option} {form}") from None


def parsed_count(text: str) -> int:
    """A whole number, 1 or more, such as a number of partitions."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number, 1 or more")
    return int(text)


def parsed_duration(option: str, text: str) -> timedelta:
    """A duration such as `500ms`, `2s`, `1.5min`.

    >>> parsed_duration("--commit-interval", "500ms")
    datetime.timedelta(microseconds=500000)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise wrong_option(option, text, "a number with a unit: ms, s, min, h or d", f"write {option} 500ms")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise wrong_option(option, text, "a duration of less than 1,000,000,000 d", f"write {option} 500ms") from None


def size(option: str, text: str) -> int:
    """A number of bytes such as `64MB`, `500kB`, `1GiB`.

    >>> size("--max-line", "64MB")
    64000000
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise wrong_option(option, text, "a number with a unit: B, kB, MB, GB, KiB, MiB or GiB", f"write {option} 64MB")
    try:
        return int(float(match[1]) * _BYTES[match[2]])
    except OverflowError:
        raise wrong_option(option, text, "a size that a machine can have", f"write {option} 64MB") from None


def names_of(columns: str | None) -> tuple[str, ...] | None:
    """Names of columns, separated by commas."""
    return None if columns is None else tuple(name.strip() for name in columns.split(","))


def values_by_stream(option: str, given: Sequence[str]) -> dict[str, str]:
    """The values of an option that is written `[STREAM=]VALUE` and may be repeated, by stream. The value of all other
    streams has the name "".

    >>> values_by_stream("--key-field", ["id", "orders=customer"])
    {'': 'id', 'orders': 'customer'}
    """
    alone = [text for text in given if "=" not in text]
    if len(alone) > 1 or "" in alone:
        remedy = f"write {option} NAME once, and {option} STREAM=NAME for others"
        raise wrong_option(option, alone[-1], "one name for all streams, and exceptions as STREAM=NAME", remedy)
    named = pairs(option, [text for text in given if "=" in text], "[STREAM=]NAME", str)
    return {"": alone[0], **named} if alone else named


def group_by_of(given: Sequence[str], option: str = "--group-by") -> Grouping | dict[str, Grouping] | None:
    """The setting `group_by` of an option that is written `[STAGE=]GROUPING` and may be repeated; None if it was not
    given.

    >>> group_by_of(["stream-partition"]), group_by_of(["clicks=stream-partition"])
    ('stream-partition', {'clicks': 'stream-partition'})
    """
    alone = _of_all_stages(option, given, "GROUPING", "grouping", "have it")
    if alone is not None:
        return _grouping(option, alone)
    named = pairs(option, given, "STAGE=GROUPING", str)
    return {stage: _grouping(f"{option} {stage}=", text) for stage, text in named.items()} or None


@overload
def start_points_of(option: str, given: Sequence[str], *, named: Literal[True]) -> dict[str, StartPoint]: ...
@overload
def start_points_of(option: str, given: Sequence[str]) -> StartPoint | dict[str, StartPoint] | None: ...
def start_points_of(
    option: str, given: Sequence[str], *, named: bool = False
) -> StartPoint | dict[str, StartPoint] | None:
    """The start points of an option that is written `[STREAM[/PARTITION]=]WHERE` and may be repeated; None if it was
    not given. With `named` it is always written with a stream.

    >>> start_points_of("--to", ["latest"]), start_points_of("--to", ["clicks/0=7", "orders=earliest"])
    ('latest', {'clicks/0': 7, 'orders': 'earliest'})
    """
    alone = None if named else _of_all(option, given, "WHERE", "STREAM", ("start point", "stream", "begin elsewhere"))
    if alone is not None:
        return _value(option, alone, alone, "WHERE", parsed_start)
    return pairs(option, given, "STREAM[/PARTITION]=WHERE", parsed_start) or ({} if named else None)


def _of_all_stages(option: str, given: Sequence[str], form: str, noun: str, purpose: str) -> str | None:
    """The value of an option that is given without the id of a stage; None if it is given for some stages, or for
    none."""
    return _of_all(option, given, form, "STAGE", (noun, "stage", purpose))


def _of_all(option: str, given: Sequence[str], form: str, name: str, said: tuple[str, str, str]) -> str | None:
    """The value of an option that is given without a name; None if it is given with names, or not at all. An error
    says what the value is, what has it, and what it is for."""
    noun, owner, purpose = said
    alone = [text for text in given if "=" not in text]
    if alone and len(given) > 1:
        remedy = f"write {option} {form} once, or {option} {name}={form} for each {owner} that is to {purpose}"
        raise wrong_option(option, alone[-1], f"one {noun} for all {owner}s, or one for each of some", remedy)
    return alone[0] if alone else None


def _grouping(option: str, text: str) -> Grouping:
    for known in get_args(Grouping):
        if text == known:
            return cast("Grouping", known)
    separated = option if option.endswith("=") else f"{option} "
    wrong, remedy = f"{separated}{text}", f"write {separated}stream-partition"
    raise UsageError(explain(wrong, " or ".join(get_args(Grouping)), remedy, "the command line"))


def elasticity_of(given: Sequence[str], option: str = "--elasticity") -> int | dict[str, int] | None:
    """The setting `elasticity` of an option that is written `[STAGE=]N` and may be repeated; None if it was not given.

    >>> elasticity_of(["4"]), elasticity_of(["clicks=2", "visits-by-user=8"])
    (4, {'clicks': 2, 'visits-by-user': 8})
    """
    alone = _of_all_stages(option, given, "N", "number", "be split")
    if alone is not None:
        return _value(option, alone, alone, "N", parsed_count)
    return pairs(option, given, "STAGE=N", parsed_count) or None


@overload
def named_system(url: str, kafka_conf: Path | None) -> System: ...
@overload
def named_system(url: str | None, kafka_conf: Path | None) -> System | None: ...
def named_system(url: str | None, kafka_conf: Path | None) -> System | None:
    """The system that a URL names, None without a URL. `kafka_conf` is a file with settings of the Kafka client."""
    if kafka_conf is None:
        return None if url is None else open_system(url)
    if url is None or not url.startswith("kafka:"):
        given, remedy = (
            f"with --system {url}" if url else "without --system",
            "name the brokers, or leave out --kafka-conf",
        )
        raise wrong_option("--kafka-conf", given, "--system kafka://HOST:PORT", remedy)
    return KafkaSystem.named(url, **read_properties(kafka_conf))


def read_properties(path: Path) -> dict[str, dict[str, str]]:
    """Settings from a file, by kind: `conf` for the client, and `topics` for new topics. In the file the names of
    settings for topics begin with `topics.`.

    A line is `NAME=VALUE`, empty, or a comment that begins with `#`. No error shows a value, which may be a secret.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        wrong, remedy = f"{path}: {error}", "correct the path; it is relative to the current folder"
        raise wrong_option("--kafka-conf", wrong, "a text file that can be read", remedy) from None
    properties: dict[str, dict[str, str]] = {"conf": {}, "topics": {}}
    for number, line in enumerate(lines, 1):
        name, between, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not between:
            raise wrong_option(
                "--kafka-conf", f"{path}, line {number}", "NAME=VALUE, or a comment with #", "correct the line"
            )
        kind = "topics" if name.startswith(TOPICS) else "conf"
        properties[kind][name.removeprefix(TOPICS)] = value
    return properties
