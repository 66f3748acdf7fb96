"""Lines come out as they went in, whatever the file."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import UsageError
from fluvial.runtime.files.lines import Lines, open_lines, open_output


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
    assert list(Lines("pipe", Pieces(pieces))) == whole.removesuffix(b"\n").split(b"\n") * bool(whole)


def test_lines_are_numbered_and_say_when_the_next_must_be_waited_for() -> None:
    lines = Lines("pipe", Pieces([b"a\nb\nc", b"\nd"]))
    assert [(line, lines.number, lines.drained) for line in lines] == [
        (b"a", 1, False),
        (b"b", 2, True),
        (b"c", 3, True),
        (b"d", 4, True),
    ]


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
