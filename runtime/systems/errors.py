"""Checks that every system makes, and the errors that they raise, in the same words. An error of a system names the
system, or the file in it, as its place."""

import re
from collections.abc import Collection
from difflib import get_close_matches

from ...dsl.errors import SystemProblem, TakenOver, UsageError
from ...dsl.text import plural
from ...dsl.validation import explain


class Fenced(TakenOver):
    """A system refuses what this process writes, as if another had replaced it. It also does so to a process that stood
    still for longer than a transaction may be open; `lapsed` is the error of that."""

    def __init__(self, text: str, lapsed: SystemProblem) -> None:
        super().__init__(text)
        self.lapsed = lapsed


_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_stream(stream: str, partitions: int) -> None:
    """Raise UsageError unless a stream can be made with this name and partition count."""
    if not _NAME.fullmatch(stream) or not stream.strip("."):
        expected = "1 to 200 of the characters A-Z a-z 0-9 . _ -, and not dots alone"
        raise UsageError(explain(f"{stream!r} cannot name a stream", expected, "choose another name"))
    if partitions < 1:
        wrong = f"stream {stream!r} cannot have {partitions} partitions"
        raise UsageError(explain(wrong, "1 or more", "correct the partition count"))


def other_count(stream: str, existing: int, asked: int, where: str) -> SystemProblem:
    """The stream exists with another partition count."""
    count = plural(existing, "partition")
    wrong, expected = (
        f"stream {stream!r} has {count}, not {asked}",
        f"{count}, since the count of a stream never changes",
    )
    return SystemProblem(explain(wrong, expected, f"ask for {count}, or use another stream name", at=where))


def unknown_stream(stream: str, known: Collection[str], where: str) -> SystemProblem:
    """There is no such stream; the text lists those with a similar name, else some that exist."""
    near = get_close_matches(stream, known, n=3, cutoff=0.5)
    names = ", ".join(map(repr, near or sorted(known)[:5])) or "none"
    label = "streams with a similar name" if near else "streams that exist"
    wrong = f"there is no stream {stream!r}"
    expected = f"the name of a stream; {label}: {names}"
    return SystemProblem(explain(wrong, expected, "correct the name, or create the stream first", at=where))


def unknown_partition(stream: str, partition: int, count: int, where: str) -> SystemProblem:
    """A caller named a partition that is below 0 or not below `count`, the number of partitions that the stream has."""
    wrong = f"stream {stream!r} has no partition {partition}"
    return SystemProblem(explain(wrong, f"0 to {count - 1}", "correct the number", at=where))


class OffsetOutside(SystemProblem):
    """A partition does not have the offset from which it is to be read."""


def offset_outside(stream: str, partition: int, offset: int, start: int, end: int, where: str) -> OffsetOutside:
    """Records that a run goes on with are gone: removed by retention, or the stream was made anew."""
    wrong = f"offset {offset} lies outside partition {partition} of stream {stream!r}"
    remedy = (
        "if the stream was deleted and created again, read it from its start: "
        f"fluvial reset PIPELINE --stream {stream} on Kafka, --all elsewhere; "
        "if its records were removed too soon, keep them longer"
    )
    return OffsetOutside(explain(wrong, f"{start} to {end}", remedy, at=where))


def already_claimed(pipeline: str, container: str, where: str, holder: str) -> SystemProblem:
    """Another run of the pipeline is under way."""
    wrong = f"pipeline {pipeline!r} (container {container}) is running on {where} already: {holder or 'unknown'}"
    expected = "one run of a pipeline at a time, since two would both publish"
    remedy = "stop the other run first, or give this pipeline another name"
    return SystemProblem(explain(wrong, expected, remedy))


def ended() -> UsageError:
    """The transaction was committed or prepared before."""
    wrong = "this transaction is over: it was committed or prepared"
    return UsageError(explain(wrong, "an open transaction", "call begin() for the next one"))


def unknown_token(where: str, why: str) -> SystemProblem:
    """The bytes do not name a transaction that this system could publish."""
    wrong = f"the token names no transaction prepared here: {why}"
    expected = "the bytes that prepare() returned for this same system"
    remedy = "publish it where it was prepared; produce again what cannot be published"
    return SystemProblem(explain(wrong, expected, remedy, at=where))
