"""Checks that every system makes, and the errors that they raise, in the same words."""

import re
from collections.abc import Collection
from difflib import get_close_matches

from ...dsl.errors import SystemProblem, UsageError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_stream(stream: str, partitions: int) -> None:
    """Raise UsageError unless a stream can be made with this name and partition count."""
    if not _NAME.fullmatch(stream) or not stream.strip("."):
        raise UsageError(
            f"{stream!r} cannot name a stream. A name has 1 to 200 of the characters A-Z a-z 0-9 . _ - "
            "and is not made of dots alone. Choose another name."
        )
    if partitions < 1:
        raise UsageError(f"Stream {stream!r} cannot have {partitions} partitions. Expected 1 or more.")


def other_count(stream: str, count: int, wanted: int, where: str) -> SystemProblem:
    """The stream exists with another partition count."""
    return SystemProblem(
        f"Stream {stream!r} of {where} has {count} partitions, expected {wanted}. The count of a stream never changes. "
        f"Ask for {count} partitions, or use another stream name."
    )


def unknown_stream(stream: str, known: Collection[str], where: str) -> SystemProblem:
    """There is no such stream; the text lists those with a similar name, else some that exist."""
    near = get_close_matches(stream, known, n=3, cutoff=0.5)
    listed = near or sorted(known)[:5]
    names = ", ".join(map(repr, listed)) or "none"
    label = "Streams with a similar name" if near else "Streams that exist"
    return SystemProblem(
        f"There is no stream {stream!r} in {where}. {label}: {names}. Correct the name, or create the stream first."
    )


def unknown_partition(stream: str, partition: int, count: int, where: str) -> SystemProblem:
    """The stream has no partition of this number."""
    return SystemProblem(
        f"Stream {stream!r} of {where} has no partition {partition}. Expected 0 to {count - 1}. Correct the number."
    )


def outside(stream: str, partition: int, offset: int, start: int, end: int, where: str) -> SystemProblem:
    """The offset is not between the start and the end of the partition."""
    wrong = f"offset {offset} lies outside partition {partition} of stream {stream!r} of {where}"
    remedy = (
        f"if the stream was deleted and made anew, read it from its start: fluvial reset PIPELINE --stream {stream} "
    )
    remedy += "on Kafka, --all elsewhere; if its records were removed too soon, keep them longer"
    return SystemProblem(f"{wrong}\n  expected: {start} to {end}\n  to do: {remedy}")


def claimed(pipeline: str, container: str, where: str, holder: str) -> SystemProblem:
    """Another run of the pipeline is under way."""
    problem = f"pipeline {pipeline!r} (container {container}) is running on {where} already: {holder or 'unknown'}"
    expected = "one run of a pipeline at a time, for two would both publish"
    remedy = "stop the other run first, or give this pipeline another name"
    return SystemProblem(f"{problem}\n  expected: {expected}\n  to do: {remedy}")


def ended() -> UsageError:
    """The transaction was committed or prepared before."""
    return UsageError("This transaction is over: it was committed or prepared. Call begin() for the next one.")


def unknown_token(where: str, why: str) -> SystemProblem:
    """The bytes do not name a transaction that this system could publish."""
    return SystemProblem(
        f"The token names no transaction prepared in {where}: {why}. Expected the bytes that prepare() returned for "
        "this same system. Publish it where it was prepared; what cannot be published has to be produced again."
    )
