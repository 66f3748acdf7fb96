"""Which records are too large, and which may be: the cheap question is never wrong about one that is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl.message import Headers
from fluvial.runtime.kernel.code.record_sizes import RecordTooLarge, may_be_large, size_check
from fluvial.runtime.size_limit import SizeLimit, record_bytes

LIMIT = SizeLimit(1_000)


def test_a_record_as_large_as_the_limit_passes() -> None:
    check = size_check("out", LIMIT)
    check(b"k" * 10, b"v" * 990, ())
    check(None, b"v" * 1_000, ())
    check(b"k", None, (("h", b"x" * 982),))


def test_one_byte_more_is_reported_with_the_stream_and_the_size() -> None:
    with pytest.raises(RecordTooLarge, match=r"its record for the stream out has 1,001 bytes, more than .* takes"):
        size_check("out", LIMIT)(b"k" * 11, b"v" * 990, ())


@pytest.mark.parametrize("fits", [True, False])
def test_a_larger_record_passes_where_it_fits_nevertheless(fits: bool) -> None:
    asked: list[object] = []

    def fitting(*record: object) -> bool:
        asked.append(record)
        return fits

    check = size_check("out", SizeLimit(10, fits=fitting))
    check(b"k", b"v", ())
    assert not asked
    if fits:
        check(b"k", b"v" * 10, ())
    else:
        with pytest.raises(RecordTooLarge):
            check(b"k", b"v" * 10, ())
    assert asked == [(b"k", b"v" * 10, ())]


sizes = st.none() | st.integers(0, 1_100)
headers = st.sampled_from([(), (("h", b"x" * 600),)])


@given(sizes, sizes, headers)
def test_whatever_is_too_large_may_be(key: int | None, value: int | None, h: Headers) -> None:
    k, v = (None if size is None else b"x" * size for size in (key, value))
    may = eval(may_be_large(LIMIT, "k", "v", "h"), {"k": k, "v": v, "h": h})
    assert may or record_bytes(k, v, h) <= LIMIT.largest


def test_a_usual_record_is_none_that_may_be() -> None:
    assert not eval(may_be_large(SizeLimit(1 << 20), "k", "v", "h"), {"k": b"k" * 100, "v": b"v" * 900_000, "h": ()})
