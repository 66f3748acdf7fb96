"""Headers of messages that others have written, and of those that come back as they were, without a broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.systems.kafka.records import TIME_HEADER, record_of, stamped

TIMES = st.sampled_from([0, 1, -1, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
CONTENTS = st.binary(max_size=25) | TIMES.map(lambda time: b"%d" % time)
HEADERS = st.lists(st.tuples(st.sampled_from([TIME_HEADER, "kind"]), CONTENTS), max_size=3).map(tuple)


@pytest.mark.parametrize(
    "content",
    [
        b"abc",
        b"",
        None,
        b"9" * 5000,
        b"9" * 30,
        b"9223372036854775808",
        b"-9223372036854775809",
        b"1_0",
        b"007",
        b"-0",
        b"+5",
        b" 5",
        b"5\n",
        "\N{ARABIC-INDIC DIGIT FIVE}".encode(),
        b"\xff",
    ],
)
def test_a_header_that_is_no_time_is_the_users(content: bytes | None) -> None:
    headers = [("kind", b"a"), (TIME_HEADER, content)]
    expected = (("kind", b"a"), (TIME_HEADER, content or b""))
    assert record_of(b"k", b"v", 7, headers) == (b"k", b"v", 7, expected)


@given(TIMES, HEADERS, TIMES)
def test_a_written_time_comes_back(timestamp: int, headers: tuple[tuple[str, bytes], ...], latest: int) -> None:
    written, pairs = stamped(timestamp, headers, latest)
    told = [(name, content if isinstance(content, bytes) else None) for name, content in pairs or []]
    assert record_of(None, b"", written, told) == (None, b"", timestamp, headers)


@given(TIMES, HEADERS)
def test_headers_of_others_always_make_a_record(timestamp: int, headers: tuple[tuple[str, bytes], ...]) -> None:
    _, _, time, kept = record_of(None, b"", timestamp, headers)
    assert (time, kept) == (timestamp, headers) or (kept == headers[:-1] and headers[-1][1] == b"%d" % time)
