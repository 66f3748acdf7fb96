"""Files of each format become records, and malformed lines are named or counted."""

import csv
import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fluvial.dsl import UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.files import ReadOptions, RecordFile, open_records
from fluvial.runtime.files.lines import LineReader
from fluvial.runtime.kernel.time.bounds import EARLIEST, LATEST

LINE = b'::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 -'


def clock() -> float:
    return 5.0


def read(content: bytes, reading: ReadOptions) -> tuple[list[Record], RecordFile]:
    lines = LineReader("file", io.BufferedReader(io.BytesIO(content)), reading.max_line)
    file = RecordFile(lines, reading, clock)
    return [record for batch in file.batches() for record in batch], file


def records(content: bytes, reading: ReadOptions) -> list[Record]:
    return read(content, reading)[0]


def values(content: bytes, reading: ReadOptions) -> list[Any]:
    return [msgspec.json.decode(value or b"") for _, value, _, _ in records(content, reading)]


def test_lines_are_values_without_key_at_the_time_of_reading() -> None:
    assert records(b"a\n\nb", ReadOptions()) == [(None, b"a", 5000, ()), (None, b"", 5000, ()), (None, b"b", 5000, ())]


def test_json_lines_are_kept_as_they_are() -> None:
    content = b'{"a": 1}\n\n  \n[1,2]\r\n"x"\n'
    assert [value for _, value, _, _ in records(content, ReadOptions("json"))] == [b'{"a": 1}', b"[1,2]", b'"x"']


def test_rows_of_csv_are_objects_of_texts() -> None:
    content = '\ufeffname,"the age"\nada,36\n\n"é, ""x""\nsecond line",\n'.encode()
    assert values(content, ReadOptions("csv")) == [
        {"name": "ada", "the age": "36"},
        {"name": 'é, "x"\nsecond line', "the age": ""},
    ]


def test_the_delimiter_of_csv() -> None:
    assert values(b"a;b\n1,5;2\n", ReadOptions("csv", delimiter=";")) == [{"a": "1,5", "b": "2"}]


def test_lines_of_an_access_log_are_requests() -> None:
    (value,) = values(LINE + b"\n\n", ReadOptions("access-log"))
    names = ["host", "user", "time", "method", "path", "protocol", "status", "bytes", "referrer", "agent"]
    assert list(value) == names
    assert (value["host"], value["user"], value["time"], value["bytes"]) == ("::1", None, 1431857103000, 0)


@pytest.mark.parametrize("format", ["lines", "json", "csv", "access-log"])
def test_an_empty_file_has_no_records(format: Any) -> None:
    assert records(b"", ReadOptions(format)) == []


def test_a_batch_ends_where_the_next_line_must_be_waited_for() -> None:
    pieces = [b"1\n2\n", b"\n", b"3\n"]

    class Pipe:
        def read1(self, _: int, /) -> bytes:
            return pieces.pop(0) if pieces else b""

    file = RecordFile(LineReader("pipe", Pipe()), ReadOptions("json"), clock)
    assert [[value for _, value, _, _ in batch] for batch in file.batches()] == [[b"1", b"2"], [b"3"]]


def test_batches_are_bounded() -> None:
    file = RecordFile(LineReader("file", io.BufferedReader(io.BytesIO(b"x\n" * 25_000))), ReadOptions(), clock)
    assert [len(batch) for batch in file.batches()] == [10_000, 10_000, 5_000]


KEYS = ReadOptions("json", key_field="k", timestamp_field="t")


@pytest.mark.parametrize(
    ("line", "key", "timestamp"),
    [
        (b'{"k":"ada","t":17}', b"ada", 17),
        (b'{"k":1,"t":"17"}', b"\0\0\0\0\0\0\0\1", 17),
        (b'{"k":null,"t":"2024-05-17T10:05:03Z"}', None, 1715940303000),
        (b'{"k":"","t":"2024-05-17T12:05:03.250+02:00"}', b"", 1715940303250),
    ],
)
def test_keys_and_times_are_taken_from_fields(line: bytes, key: bytes | None, timestamp: int) -> None:
    assert records(line, KEYS) == [(key, line, timestamp, ())]


def test_a_request_gives_key_and_time() -> None:
    ((key, _, timestamp, _),) = records(LINE, ReadOptions("access-log", "host", "time"))
    assert (key, timestamp) == (b"::1", 1431857103000)


@pytest.mark.parametrize(
    ("format", "content", "line", "why"),
    [
        ("json", b'1\n\n{"a":}\n', 3, "no JSON: JSON is malformed: invalid character (byte 5)"),
        ("json", b'"\xff"', 1, "no JSON: 'utf-8' codec can't decode byte 0xff"),
        ("json", b"[" * 100_000, 1, "no JSON: "),
        ("csv", b"a,b\n1,2\n3\n", 3, "1 columns, the header has 2"),
        ("csv", b'a,b\n1,2\n"3"x,4\n', 3, "no row of CSV: ',' expected after '\"'"),
        ("csv", b"a,b\n1,\xff\n", 2, "not UTF-8"),
        ("access-log", LINE + b"\nhello\n", 2, "no line of an access log: expected the identity"),
        ("access-log", b"\xff\n", 1, "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_malformed_line_is_named(format: Any, content: bytes, line: int, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        records(content, ReadOptions(format))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(why)
    assert rest == [
        f"  at file:{line}",
        f"  expected: the format {format}",
        "  to do: correct the line, or skip such lines with --skip-malformed",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1]", "no object with a field 'k'"),
        (b'{"x":1,"y":2}', "no field 'k' among x, y"),
        (b"{}", "no field 'k' among none"),
        (b'{"k":1.5,"t":1}', "a key is str, bytes, int or a tuple of them, not float: 1.5"),
        (b'{"k":"a","t":true}', "field 't' is True, expected ms since epoch, or a time such as 2024-05-17T10:05:03Z"),
        (b'{"k":"a","t":"2024-05-17T10:05:03"}', "field 't' is '2024-05-17T10:05:03', expected ms since epoch"),
        (b'{"k":"a","t":1e31}', "field 't' is 1e+31, expected ms since epoch"),
        (b'{"k":"a","t":"%s"}' % (b"9" * 5000), "field 't' is '999999999999999"),
        (b'{"k":18446744073709551615,"t":1}', "key 18446744073709551615 does not fit 64 bits"),
    ],
)
def test_a_field_that_gives_no_key_or_time(line: bytes, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        records(line, KEYS)
    assert str(caught.value).startswith(why)


@given(st.integers(min_value=LATEST + 1) | st.integers(max_value=EARLIEST - 1), st.booleans())
@example(10**31, False)
@example(LATEST + 1, True)
@example(EARLIEST - 1, False)
def test_a_time_that_no_message_may_have(at: int, quoted: bool) -> None:
    line = msgspec.json.encode({"k": "a", "t": str(at) if quoted else at})
    with pytest.raises(UsageError, match=r"field 't'.* ms since epoch"):
        records(line, KEYS)


@given(st.integers(EARLIEST, LATEST))
@example(EARLIEST)
@example(LATEST)
def test_a_time_that_a_message_may_have(at: int) -> None:
    assert records(msgspec.json.encode({"k": "a", "t": at}), KEYS)[0][2] == at


def test_json_with_a_mark_and_blank_lines() -> None:
    assert values(b'\xef\xbb\xbf\n{"a":1}\n\n \r\n{"a":2}\n\n', ReadOptions("json")) == [{"a": 1}, {"a": 2}]


def test_csv_without_a_header() -> None:
    named = ReadOptions("csv", columns=("a", "b"))
    assert values(b"\xef\xbb\xbf1,2\n\n3,4\n", named) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    with pytest.raises(UsageError, match="3 columns, --columns names 2\n  at file:2"):
        records(b"1,2\n3,4,5\n", named)


def test_a_field_of_csv_may_be_as_long_as_a_line() -> None:
    (value,) = values(b'a,b\n"' + b"x\n" * 200_000 + b'",1\n', ReadOptions("csv"))
    assert len(value["a"]) == 400_000


def test_a_row_of_csv_over_many_lines_is_bounded_too() -> None:
    quoted = b'a,b\n1,2\n"' + b"xxxxxxxxx\n" * 20
    with pytest.raises(UsageError, match="the row has more than 100 bytes\n  at file:3\n"):
        records(quoted, ReadOptions("csv", max_line=100))


@pytest.mark.parametrize("most", [100, 300_000])
@pytest.mark.parametrize("skip_malformed", [False, True])
def test_a_row_of_csv_that_is_nothing_but_line_ends_is_bounded_too(most: int, skip_malformed: bool) -> None:
    quoted = b'a,b\n1,"' + b"\n" * 2 * most + b'"\n'
    with pytest.raises(UsageError, match=f"the row has more than {most:,} bytes\n  at file:2\n"):
        records(quoted, ReadOptions("csv", max_line=most, skip_malformed=skip_malformed))


def test_a_line_of_csv_may_be_as_long_as_the_bound_says() -> None:
    assert values(b'a,b\n"123",5\n', ReadOptions("csv", max_line=7)) == [{"a": "123", "b": "5"}]


def test_malformed_lines_can_be_counted() -> None:
    found, file = read(b'a,b\n1,2\n3\n"4"x,5\n6,7\n', ReadOptions("csv", skip_malformed=True))
    assert [value for _, value, _, _ in found] == [b'{"a":"1","b":"2"}', b'{"a":"6","b":"7"}']
    assert file.malformed == 2
    assert file.first_malformed is not None
    assert file.first_malformed.line == 3


@pytest.mark.parametrize(
    ("header", "why"),
    [(b"a,b,a\n", "the header names 'a' twice"), (b"a,,c\n", "the header has a column without a name")],
)
def test_headers_of_csv(header: bytes, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        records(header, ReadOptions("csv"))
    assert str(caught.value).startswith(f"{why}\n  at file:1\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"format": "xml"}, "format 'xml'"),
        ({"key_field": "k"}, "lines of plain text have no field 'k'"),
        ({"format": "access-log", "key_field": "ip"}, "a request of an access log has no field 'ip'"),
        ({"format": "csv", "delimiter": "::"}, "delimiter '::'"),
        ({"format": "json", "columns": ("a",)}, "--columns with the format json"),
        ({"format": "csv", "columns": ("a", "a")}, "--columns names 'a' twice"),
        ({"format": "csv", "columns": ("a", "")}, "--columns has a column without a name"),
        ({"max_line": 0}, "--max-line 0"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        ReadOptions(**options)
    assert str(caught.value).startswith(why)


def test_the_clock_is_the_computers_unless_told(tmp_path: Path) -> None:
    tmp_path.joinpath("f").write_bytes(b"a\n")
    with open_records(str(tmp_path / "f"), ReadOptions()) as file:
        (((_, value, timestamp, _),),) = file.batches()
    assert value == b"a"
    assert timestamp > 1_700_000_000_000


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


@given(st.lists(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS, st.lists)))
def test_json_is_read_back(documents: list[Any]) -> None:
    content = b"".join(msgspec.json.encode(document) + b"\n" for document in documents)
    assert values(content, ReadOptions("json")) == documents


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_csv_is_read_back(rows: list[tuple[str, str]]) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("left", "right"), *rows])
    assert values(file.getvalue().encode(), ReadOptions("csv")) == [{"left": a, "right": b} for a, b in rows]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (ReadOptions("json", key_field="usr"), "write --key-field user"),
        (ReadOptions("json", key_field="id"), "correct --key-field: name a field that the lines have"),
        (ReadOptions("json", timestamp_field="at_ms"), "write --timestamp-field at"),
    ],
)
def test_a_field_that_the_first_lines_lack_is_the_options_mistake(options: ReadOptions, remedy: str) -> None:
    line = b'{"user":"ann","at":1}\n'
    with pytest.raises(UsageError) as caught:
        records(2 * line, options)
    assert "among user, at\n  at file:1\n" in str(caught.value)
    assert str(caught.value).endswith(f"  to do: {remedy}")


def test_a_field_that_a_later_line_lacks_is_the_lines_mistake() -> None:
    with pytest.raises(UsageError) as caught:
        records(b'{"k":"a"}\n{"b":1}\n', ReadOptions("json", key_field="k"))
    assert str(caught.value).endswith("  to do: correct the line, or skip such lines with --skip-malformed")
