"""`produce` and `consume`: what goes in comes out."""

import io
import json
import unicodedata
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.command_line import Fluvial
from engines.targets import write
from fluvial.runtime.cli.commands.streams import line_writer
from fluvial.runtime.files import json_of_bytes, unobeyed
from fluvial.runtime.systems import LogSystem


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_go_in_and_come_out(fluvial: Fluvial) -> None:
    ended = fluvial("produce", "words", "words.jsonl", "--system", "log:there")
    assert (ended.code, ended.out, ended.err) == (0, "words: 6 records in 1 partition\n", "")
    ended = fluvial("consume", "words", "--system", "log:there", "--values")
    assert (ended.code, ended.out) == (0, Path("words.jsonl").read_text())


def test_the_log_of_this_folder_is_the_default(fluvial: Fluvial, folder: Path) -> None:
    fluvial("produce", "words", "words.jsonl")
    assert (folder / ".fluvial").is_dir()
    assert len(fluvial("consume", "words").out.splitlines()) == 6


def test_records_are_shown_whole(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl", "--format", "json", "--key-field", "text", "--timestamp-field", "at")
    assert documents(fluvial("consume", "words", "--limit", "2").out) == [
        {
            "partition": 0,
            "offset": 0,
            "key": "apple",
            "timestamp": 0,
            "headers": [],
            "value": {"text": "apple", "at": 0},
        },
        {
            "partition": 0,
            "offset": 1,
            "key": "avocado",
            "timestamp": 100,
            "headers": [],
            "value": {"text": "avocado", "at": 100},
        },
    ]


def test_partitions_and_offsets(fluvial: Fluvial) -> None:
    ended = fluvial("produce", "words", "words.jsonl", "--partitions", "2")
    assert ended.out == "words: 6 records in 2 partitions\n"
    found = documents(fluvial("consume", "words", "--from-offset", "1").out)
    assert [(record["partition"], record["offset"]) for record in found] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_an_offset_behind_the_end_finds_nothing(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("consume", "words", "--from-offset", "7")
    assert (ended.code, ended.out) == (0, "")


@pytest.mark.parametrize(
    ("format", "first"),
    [("text", '"{\\"text\\":\\"apple\\",\\"at\\":0}"'), ("base64", '"eyJ0ZXh0IjoiYXBwbGUiLCJhdCI6MH0="')],
)
def test_how_values_are_shown(fluvial: Fluvial, format: str, first: str) -> None:
    fluvial("produce", "words", "words.jsonl")
    assert fluvial("consume", "words", "--values", "--limit", "1", "--format", format).out == first + "\n"


def test_a_value_that_is_no_json(fluvial: Fluvial, folder: Path) -> None:
    (folder / "lines.txt").write_text("1\nhello\n")
    fluvial("produce", "lines", "lines.txt")
    assert fluvial("consume", "lines", "--values").out == '1\n"hello"\n'
    ended = fluvial("consume", "lines", "--values", "--format", "json")
    assert ended.code == 2
    assert ended.err == (
        "the value is not JSON: JSON is malformed: invalid character (byte 0)\n"
        "  at stream lines, partition 0, offset 1\n  expected: values in JSON\n"
        "  to do: leave --format out, or write --format text\n"
    )


def test_standard_input(fluvial: Fluvial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a,b\n1,2\n"))))
    assert fluvial("produce", "rows", "-", "--format", "csv", "--quiet").out == ""
    assert fluvial("consume", "rows", "--values").out == '{"a":"1","b":"2"}\n'


def test_malformed_lines(fluvial: Fluvial, folder: Path) -> None:
    (folder / "some.jsonl").write_text("1\noh\n2\nno\n")
    ended = fluvial("produce", "some", "some.jsonl", "--format", "json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "no JSON: JSON is malformed: invalid character (byte 0)\n  at some.jsonl:2\n  expected: the format json\n"
        "  to do: correct the line, or skip such lines with --skip-malformed\n"
    )
    ended = fluvial("produce", "some", "some.jsonl", "--format", "json", "--skip-malformed")
    assert ended.out == (
        "some: 2 records in 1 partition, 2 malformed lines skipped; "
        "the first is line 2: no JSON: JSON is malformed: invalid character (byte 0)\n"
    )


def test_a_file_that_cannot_be_read_leaves_no_stream(fluvial: Fluvial, folder: Path) -> None:
    (folder / "some.jsonl").write_text("oh\n")
    assert fluvial("produce", "some", "some.jsonl", "--format", "json").code == 2
    (folder / "some.jsonl").write_text("1\n")
    ended = fluvial("produce", "some", "some.jsonl", "--format", "json", "--partitions", "4")
    assert (ended.code, ended.out) == (0, "some: 1 record in 4 partitions\n")


def test_a_missing_file(fluvial: Fluvial) -> None:
    ended = fluvial("produce", "words", "nope.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "there is no file 'nope.jsonl'\n  at nope.jsonl\n  expected: a file, or - for standard input\n"
        "  to do: correct the path; it is relative to the current folder\n"
    )


def test_a_missing_stream(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("consume", "word")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        "the stream 'word' does not exist in log:.fluvial; it has words\n  at the command line\n"
        "  expected: a stream that exists\n"
        "  to do: correct the name, or write it first: fluvial produce word --system log:.fluvial FILE\n"
    )


@pytest.mark.parametrize("kept", ["letters-checkpoints", "letters-coordinator", "letters-count-changelog"])
def test_what_the_log_keeps_beside_its_streams_is_no_stream_to_write(fluvial: Fluvial, kept: str) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("consume", kept)
    assert ended.code == 3
    assert ended.err.startswith(f"there is no stream {kept!r} in log:.fluvial, which keeps checkpoints and state, but")
    assert "produce" not in ended.err


def test_a_missing_stream_is_reported_as_a_run_tells_it(fluvial: Fluvial) -> None:
    fluvial("produce", "others", "words.jsonl")
    consumed, run = fluvial("consume", "words"), fluvial("run", "letters.py", "--until", "end")
    told = [line for line in consumed.err.splitlines() if not line.startswith("  at ")]
    assert told == [line for line in run.err.splitlines() if not line.startswith("  at ")]
    assert (consumed.code, run.code) == (3, 3)


DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize("value", [DEEP, DEEP[:5000], DEEP[:5000] + b"\n", b"\x80\xff", b"\x1b[2J", b"", b'{"a":\r1}'])
def test_any_bytes_are_shown_on_one_line(fluvial: Fluvial, folder: Path, value: bytes) -> None:
    LogSystem(folder / "there", fsync=False).admin().create("words", 1)
    write(LogSystem(folder / "there", fsync=False), {"words": [[(value, value, 0, (("name", value),))]]})
    ended = fluvial("consume", "words", "--system", "log:there")
    assert ended.code == 0
    (found,) = documents(ended.out)
    assert len(ended.out.splitlines()) == 1
    assert found["value"] in ({"a": 1}, value.decode(errors="replace"), {"base64": b64encode(value).decode()})


@given(st.binary() | st.text().map(str.encode) | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_what_is_shown_is_json_that_no_terminal_obeys(value: bytes) -> None:
    line = unobeyed(line_writer("words", "records", json_of_bytes("auto"))(0, 0, (value, value, 0, (("n", value),))))
    json.loads(line)
    assert not any(unicodedata.category(character) == "Cc" for character in line.decode())


def test_deep_json_is_shown_where_json_is_wanted(fluvial: Fluvial, folder: Path) -> None:
    write(LogSystem(folder / "there", fsync=False), {"words": [[(None, DEEP, 0, ()), (None, DEEP + b"]", 0, ())]]})
    words = ("consume", "words", "--system", "log:there", "--format", "json")
    ended = fluvial(*words, "--values", "--limit", "1")
    assert (ended.code, ended.out) == (0, DEEP.decode() + "\n")
    ended = fluvial(*words, "--limit", "1")
    assert ended.out.endswith(f'"value":{DEEP.decode()}}}\n')
    ended = fluvial(*words, "--from-offset", "1")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("the value is not JSON: another token is expected (byte 10000)\n")


def test_escapes_of_terminals_are_shown_and_not_obeyed(fluvial: Fluvial, folder: Path) -> None:
    (folder / "bad.jsonl").write_bytes(b'{"\x7f\xc2\x9b2J":1}\n')
    words = ("produce", "words", "bad.jsonl", "--format", "json", "--key-field", "k")
    assert fluvial(*words).err.startswith("no field 'k' among \\x7f\\x9b2J\n")
    assert "among \\x7f\\x9b2J" in fluvial(*words, "--skip-malformed").out
    (folder / "loud.py").write_text("raise ValueError('\\x1b[2Jgone\\r')\n")
    for debug in ((), ("--debug",)):
        ended = fluvial("plan", "loud.py", *debug)
        assert "\\x1b[2Jgone\\r" in ended.err
        assert "\x1b" not in ended.err


def test_a_system_that_is_none(fluvial: Fluvial) -> None:
    ended = fluvial("consume", "words", "--system", "file:x")
    assert ended.code == 2
    assert ended.err.startswith("'file:x' names no system\n  at the command line\n")


def test_a_system_out_of_reach(fluvial: Fluvial, folder: Path) -> None:
    (folder / "taken").write_text("a file")
    ended = fluvial("consume", "words", "--system", "log:taken")
    assert (ended.code, ended.out) == (4, "")
    assert "taken" in ended.err
    assert "Traceback" not in ended.err


def test_fields_of_lines_of_text(fluvial: Fluvial) -> None:
    ended = fluvial("produce", "words", "words.jsonl", "--key-field", "text")
    assert ended.code == 2
    assert ended.err == (
        "lines of plain text have no field 'text'\n  at the options for reading files\n"
        "  expected: one of json, csv, access-log, which have fields\n"
        "  to do: name the format of the file\n"
    )
