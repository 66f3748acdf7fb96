"""What a record counts as: all of its parts."""

from fluvial.runtime.size_limit import HEADER_BYTES, headers_bytes, record_bytes


def test_a_record_is_as_large_as_its_key_its_value_and_its_headers() -> None:
    assert record_bytes(None, None, ()) == 0
    assert record_bytes(b"key", None, ()) == 3
    assert record_bytes(b"key", b"value", (("name", b"text"),)) == 3 + 5 + 8 + HEADER_BYTES


def test_a_name_of_a_header_counts_as_its_bytes() -> None:
    assert headers_bytes((("\u00e9", b""),)) == 2 + HEADER_BYTES
