"""Lines come out as they went in, whatever the file."""

import gzip
import io
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import UsageError
from fluvial.runtime.files.lines import LineReader, open_lines, open_output


def lines_of(path: Path) -> list[bytes]:
    with open_lines(str(path)) as lines:
        return list(lines)


class Pieces:
    """A file that gives what it is told, a piece at a time, as a pipe does."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [*filter(None, pieces)]

    def read1(self, _: int, /) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@given(st.lists(st.text("ab\n", max_size=6).map(str.encode)))
def test_pieces_do_not_show(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert list(LineReader("pipe", Pieces(pieces))) == whole.removesuffix(b"\n").split(b"\n") * bool(whole)


def test_lines_are_numbered_and_say_when_the_next_must_be_waited_for() -> None:
    lines = LineReader("pipe", Pieces([b"a\nb\nc", b"\nd"]))
    assert [(line, lines.number, lines.drained) for line in lines] == [
        (b"a", 1, False),
        (b"b", 2, True),
        (b"c", 3, True),
        (b"d", 4, True),
    ]


@pytest.mark.parametrize("pieces", [[b"\xef\xbb\xbfa\n\xef\xbb\xbfb"], [b"\xef", b"\xbb\xbf", b"a\n\xef\xbb\xbfb"]])
def test_a_mark_before_the_first_line_is_none_of_it(pieces: list[bytes]) -> None:
    assert list(LineReader("pipe", Pieces(pieces))) == [b"a", b"\xef\xbb\xbfb"]


@given(st.lists(st.text("ab\n", max_size=6).map(str.encode)), st.integers(1, 8))
def test_no_line_is_longer_than_it_may_be(pieces: list[bytes], most: int) -> None:
    expected = list(LineReader("pipe", Pieces(pieces)))
    lines = LineReader("pipe", Pieces(pieces), most)
    if all(len(line) <= most for line in expected):
        assert list(lines) == expected
        return
    first = next(number for number, line in enumerate(expected, 1) if len(line) > most)
    with pytest.raises(UsageError, match=f"the line has more than {most} bytes\n  at pipe:{first}\n"):
        list(lines)


@pytest.mark.slow
def test_a_bomb_of_gzip_is_given_up_at_once(tmp_path: Path) -> None:
    """Of 200 MB without an end of line a few are unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with (tmp_path / "f").open("wb") as file:
        for _ in range(20):
            file.write(packer.compress(bytes(10_000_000)))
        file.write(packer.flush())
    tracemalloc.start()
    with (
        pytest.raises(UsageError, match="the line has more than 5,000,000 bytes"),
        open_lines(str(tmp_path / "f"), 5_000_000) as lines,
    ):
        list(lines)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000


def test_an_empty_line_is_a_line(tmp_path: Path) -> None:
    tmp_path.joinpath("f").write_bytes(b"\na\n\n")
    assert lines_of(tmp_path / "f") == [b"", b"a", b""]


def test_both_ends_of_lines(tmp_path: Path) -> None:
    tmp_path.joinpath("f").write_bytes(b"a\r\nb\rc\n")
    assert lines_of(tmp_path / "f") == [b"a", b"b\rc"]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    tmp_path.joinpath("f.txt").write_bytes(gzip.compress(b"a\nb\n") + gzip.compress(b"c\n"))
    assert lines_of(tmp_path / "f.txt") == [b"a", b"b", b"c"]


def test_a_name_that_ends_in_gz_is_not_believed(tmp_path: Path) -> None:
    tmp_path.joinpath("f.gz").write_bytes(b"a\n")
    assert lines_of(tmp_path / "f.gz") == [b"a"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a\nb"))))
    with open_lines("-") as lines:
        assert (list(lines), lines.name) == ([b"a", b"b"], "standard input")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        lines_of(tmp_path / "nope")
    path = tmp_path / "nope"
    assert str(caught.value) == (
        f"there is no file '{path}'\n  at {path}\n  expected: a file, or - for standard input\n"
        "  to do: correct the path; it is relative to the current folder"
    )


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        lines_of(tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: data[:12] + b"????" + data[16:]])
def test_damaged_gzip(tmp_path: Path, damage: "type") -> None:
    tmp_path.joinpath("f").write_bytes(damage(gzip.compress(b"line\n" * 1000)))
    with pytest.raises(UsageError, match=r"the file cannot be read: .*\n  at .*f\n  expected: a readable file"):
        lines_of(tmp_path / "f")


def test_a_long_line_is_whole(tmp_path: Path) -> None:
    tmp_path.joinpath("f").write_bytes(b"x" * 2_000_000 + b"\ny")
    assert [len(line) for line in lines_of(tmp_path / "f")] == [2_000_000, 1]


@pytest.mark.parametrize("name", ["f", "f.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    with open_output(str(tmp_path / name)) as file:
        file.write(b"a\nb\n")
    assert lines_of(tmp_path / name) == [b"a", b"b"]


def test_equal_content_gives_equal_gzip(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with open_output(str(tmp_path / name)) as file:
            file.write(b"a")
    assert tmp_path.joinpath("a.gz").read_bytes() == tmp_path.joinpath("b.gz").read_bytes()
    assert tmp_path.joinpath("a.gz").read_bytes().startswith(b"\x1f\x8b")


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="the file cannot be written: No such file or directory"),
        open_output(str(tmp_path / "no" / "f")),
    ):
        pass


@pytest.mark.parametrize("pieces", [[b"ab\nabc\n"], [b"ab\na", b"bc\n"], [b"ab\nabcdef"]])
def test_a_line_that_is_too_long_is_named_by_its_number(pieces: list[bytes]) -> None:
    lines = iter(LineReader("pipe", Pieces(pieces), 2))
    assert next(lines) == b"ab"
    with pytest.raises(UsageError, match="at pipe:2"):
        next(lines)
