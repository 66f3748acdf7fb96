"""What becomes of a message that failed: the run stops with all that is known, or it is counted and set aside."""

import errno
from typing import Any

import pytest

from fluvial.dsl import ErrorPolicy, Pane, Pipeline, Window, dead_letter, fail, skip
from fluvial.dsl.errors import MessageError, SystemProblem
from fluvial.runtime.kernel.failures import KEPT, FailedRecord, Failures, operator_of
from fluvial.runtime.size_limit import HEADER_BYTES, SizeLimit, record_bytes

WHERE = FailedRecord("in", 3, 17, (b"k", b"1", 7, (("h", b"x"),)))


def failures(policy: ErrorPolicy) -> Failures:
    pipeline = Pipeline("p", on_error=policy)
    pipeline.stream("in", value=int).map(abs).send_to("out")
    return Failures(pipeline)


def raised() -> Exception:
    try:
        int("x")
    except ValueError as error:
        return error
    raise AssertionError


def test_a_failure_tells_operator_message_error_and_the_line_in_the_user_s_file() -> None:
    with pytest.raises(MessageError) as found:
        failures(fail()).message(WHERE, raised(), "map-2")
    text = str(found.value)
    assert "map(abs) failed on the message at in, partition 3, offset 17, key 'k': ValueError: invalid" in text
    assert text.count("test_failures.py:") == 2  # where it was raised, and where the operator was written
    assert isinstance(found.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("key", "shown"),
    [(None, "key none"), (b"\xff", r"key b'\xff'"), (b"a\n", r"key b'a\n'"), ("\u00e9".encode(), "'\u00e9'")],
)
def test_a_key_is_shown_as_text_where_it_is_some(key: bytes | None, shown: str) -> None:
    with pytest.raises(MessageError) as found:
        failures(fail()).message(FailedRecord("in", 0, 0, (key, None, 0, ())), raised())
    assert f"{shown}: ValueError" in str(found.value)


def test_a_skipped_message_is_counted_for_its_operator() -> None:
    found = failures(skip())
    for operator in ("map-2", "map-2", None):
        found.message(WHERE, raised(), operator)
    assert (found.counts, found.dead_letters) == ({"map-2": 2, "stream-1": 1}, [])


def test_a_dead_letter_is_the_record_as_it_came_with_the_error_in_its_headers() -> None:
    found = failures(dead_letter())
    found.message(WHERE, raised(), "map-2")
    ((key, value, timestamp, headers),) = found.dead_letters
    assert (key, value, timestamp, headers[0]) == (b"k", b"1", 7, ("h", b"x"))
    told: dict[str, Any] = dict(headers)
    assert told["fluvial-error"].startswith(b"ValueError: invalid literal")
    assert b"test_failures.py:" in told["fluvial-written-at"]
    place = [told[f"fluvial-{name}"] for name in ("operator", "stream", "partition", "offset")]
    assert place == [b"map-2", b"in", b"3", b"17"]
    assert found.counts == {"map-2": 1}


@pytest.mark.parametrize("policy", [skip(on=(LookupError, ValueError)), dead_letter(on=(ValueError,))])
def test_an_error_of_another_class_than_the_policy_names_stops_the_run(policy: ErrorPolicy) -> None:
    found = failures(policy)
    found.message(WHERE, raised(), "map-2")
    found.message(WHERE, UnicodeError("a subclass"), "map-2")
    with pytest.raises(MessageError, match=rf"TypeError: no text\n(?s:.*)add TypeError to on= of {policy.action}\(\)"):
        found.message(WHERE, TypeError("no text"), "map-2")
    assert found.counts == {"map-2": 2}


def test_a_group_of_errors_is_of_a_class_if_all_in_it_are() -> None:
    found = failures(skip(on=(LookupError, ValueError)))
    found.message(WHERE, ExceptionGroup("two", [KeyError("a"), ExceptionGroup("one", [ValueError("b")])]), "map-2")
    with pytest.raises(MessageError, match="two"):
        found.message(WHERE, ExceptionGroup("two", [KeyError("a"), TypeError("b")]), "map-2")
    assert failures(skip()).pipeline.on_error.action_for(ExceptionGroup("one", [TypeError("b")])) == "skip"


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("half of a pair: \ud83d"), rb"ValueError: half of a pair: \ud83d"),
        (SilentError(), b"SilentError, whose __str__ raises ValueError"),
    ],
)
def test_an_error_whose_text_cannot_be_written_fails_its_message_alone(error: Exception, told: bytes) -> None:
    found = failures(dead_letter())
    found.message(WHERE, error, "map-2")
    assert dict(found.dead_letters[0][3])["fluvial-error"] == told
    with pytest.raises(MessageError) as stopped:
        failures(fail()).message(WHERE, error, "map-2")
    assert told in str(stopped.value).encode()


def test_an_error_with_a_long_text_makes_no_long_dead_letter() -> None:
    found = failures(dead_letter())
    found.message(WHERE, ValueError("y" * 2_000_000))
    told = dict(found.dead_letters[0][3])["fluvial-error"]
    assert told == b"ValueError: " + b"y" * 9_988 + b"... (2,000,012 characters)"


def large(key: int = 1, value: int = 1, header: int = 1) -> FailedRecord:
    return FailedRecord("in", 3, 17, (b"k" * key, b"v" * value, 7, (("h", b"x" * header),)))


def letter(failed: FailedRecord, error: Exception | None = None, limit: int | None = None) -> tuple[Any, ...]:
    """The dead letter of a message: key, value, the user's headers, and what is told."""
    found = failures(dead_letter())
    found.limit = None if limit is None else SizeLimit(limit)
    found.message(failed, error or raised(), "map-2")
    ((key, value, _, headers),) = found.dead_letters
    return key, value, dict(headers)


def test_a_part_of_64_kb_is_whole_in_a_dead_letter() -> None:
    key, value, told = letter(large(KEPT, KEPT, KEPT - 1 - HEADER_BYTES))
    assert (len(key), len(value), len(told["h"])) == (KEPT, KEPT, KEPT - 1 - HEADER_BYTES)
    assert not [name for name in told if name.endswith("-size")]


def test_a_longer_value_is_cut_and_reported_with_its_size_and_its_place() -> None:
    key, value, told = letter(large(value=KEPT + 1))
    assert (key, value, told["h"]) == (b"k", b"v" * KEPT, b"x")
    place = [told[f"fluvial-{name}"] for name in ("value-size", "stream", "partition", "offset")]
    assert place == [b"65537", b"in", b"3", b"17"]


@pytest.mark.parametrize("shift", range(4))
def test_a_text_is_cut_between_two_characters(shift: int) -> None:
    _, value, _ = letter(FailedRecord("in", 3, 17, (None, b"v" * shift + "\u20ac".encode() * KEPT, 7, ())))
    assert KEPT - 3 < len(value) <= KEPT
    assert set(value.decode()) <= {"v", "\u20ac"}


def test_what_is_no_text_is_cut_nearby() -> None:
    _, value, _ = letter(FailedRecord("in", 3, 17, (None, b"\x80" * 2 * KEPT, 7, ())))
    assert KEPT - 4 <= len(value) <= KEPT


def test_so_is_a_longer_key_and_longer_headers_are_left_out() -> None:
    key, value, told = letter(large(KEPT + 1, 1, KEPT))
    assert (key, value, "h" in told) == (b"k" * KEPT, b"v", False)
    assert told["fluvial-key-size"] == b"65537"
    assert told["fluvial-headers-size"] == b"%d" % (KEPT + 1 + HEADER_BYTES)


@pytest.mark.parametrize("limit", [10_000, 100_000, 1 << 20])
def test_a_dead_letter_fits_its_stream_whatever_failed(limit: int) -> None:
    error = ValueError("\ud83d" * 20_000)  # of which each character takes six bytes
    key, value, told = letter(large(1 << 20, 1 << 20, 1 << 20), error, limit)
    assert record_bytes(key, value, tuple(told.items())) <= limit
    assert told["fluvial-value-size"] == b"1048576"


def test_of_a_long_key_the_beginning_is_reported() -> None:
    with pytest.raises(MessageError, match=rf"key '{'k' * 200}'\.\.\. \(1,000 bytes\): ValueError"):
        failures(fail()).message(large(key=1_000), raised(), "map-2")


def test_a_firing_that_failed_is_named_by_its_window() -> None:
    found = failures(dead_letter())
    found.firing("map-2", b"k", Pane("k", Window(0, 10), 3), 9, raised())
    ((key, value, timestamp, headers),) = found.dead_letters
    told = dict(headers)
    assert (key, value, timestamp) == (b"k", None, 9)
    assert (told["fluvial-firing"], told["fluvial-window"]) == (b"map-2", b"[0, 10)")


def test_two_rows_that_failed_together_are_named_by_their_time() -> None:
    found = failures(dead_letter())
    found.firing("map-2", b"k", "joined", 9, raised())
    ((key, value, timestamp, headers),) = found.dead_letters
    told = dict(headers)
    assert (key, value, timestamp) == (b"k", None, 9)
    assert (told["fluvial-firing"], told["fluvial-time"]) == (b"map-2", b"9")


@pytest.mark.parametrize("policy", [fail(), skip(), dead_letter()])
def test_an_error_that_was_reported_already_is_reported_as_it_is(policy: ErrorPolicy) -> None:
    told = MessageError("said")
    with pytest.raises(MessageError, match=r"^said$"):
        failures(policy).message(WHERE, told)


def test_an_error_from_outside_of_compiled_code_is_nobody_s() -> None:
    assert operator_of(raised()) is None


def test_a_full_disk_is_no_failure_of_the_message_whose_function_met_it() -> None:
    with pytest.raises(SystemProblem, match="free space"):
        failures(skip()).message(WHERE, OSError(errno.ENOSPC, "No space left on device"), "map-2")


def test_nor_is_a_lack_of_descriptors_that_a_client_tells_by_an_error_of_its_own() -> None:
    refused = RuntimeError("all connection attempts failed")
    refused.__cause__ = OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(SystemProblem, match="raise the limit of open files"):
        failures(skip()).message(WHERE, refused, "map-2")
