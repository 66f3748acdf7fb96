"""Trailers and control messages come back as they were written, and are told from each other."""

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.kernel.time.border_watermarks import (
    TRAILER_HEADER,
    TRAILER_SIZE,
    ControlMessage,
    control_record,
    pack_trailer,
    read_control,
    unpack_trailer,
    with_trailer,
    without_trailer,
)
from fluvial.runtime.kernel.time.bounds import END, START

PRODUCERS = st.integers(0, 2**24 - 1)
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
WATERMARKS = st.integers(START, END)


@given(PRODUCERS, WATERMARKS)
def test_a_trailer_comes_back_and_is_no_control_message(producer: int, watermark: int) -> None:
    trailer = pack_trailer(producer, watermark)
    assert unpack_trailer(trailer) == (producer, watermark)
    assert read_control(trailer) is None


@given(st.none() | st.binary(max_size=20), st.lists(st.tuples(st.text(), st.binary())), PRODUCERS, WATERMARKS)
def test_a_record_comes_back_from_behind_a_border(
    value: bytes | None, headers: list[tuple[str, bytes]], producer: int, watermark: int
) -> None:
    record = b"key", value, 7, tuple(headers)
    assert without_trailer(with_trailer(record, pack_trailer(producer, watermark))) == record


@given(
    st.builds(ControlMessage, st.just(uuid4().hex), st.integers(0, 9), PRODUCERS, PRODUCERS, WATERMARKS, st.booleans())
)
def test_a_control_message_comes_back_from_the_last_header_of_its_record(control: ControlMessage) -> None:
    key, value, timestamp, headers = control_record(control, 7)
    assert (key, value, timestamp, [name for name, _ in headers]) == (None, None, 7, [TRAILER_HEADER])
    assert read_control(headers[-1][1]) == control


@given(PRINTABLE.filter(lambda text: len(text) >= TRAILER_SIZE).map(lambda text: text[-TRAILER_SIZE:]))
def test_text_is_no_trailer(text: str) -> None:
    with pytest.raises(ValueError, match="no stage of this pipeline wrote the message"):
        unpack_trailer(text.encode())


@given(PRINTABLE.filter(lambda text: len(text) != TRAILER_SIZE).map(str.encode))
def test_what_others_write_is_no_control_message(content: bytes) -> None:
    with pytest.raises(ValueError, match="no stage of this pipeline wrote the message"):
        read_control(content)
