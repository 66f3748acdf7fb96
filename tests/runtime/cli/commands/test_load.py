"""Files are loaded whole or not at all, and records go where their keys belong."""

import io
from pathlib import Path

import pytest

from fluvial.dsl import SystemProblem, UsageError
from fluvial.runtime.cli.commands.load import load
from fluvial.runtime.files import ReadOptions
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.systems.partitioner import partition_for
from fluvial.runtime.systems.reads import read_to_ends


@pytest.fixture(params=["log", "memory"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    """An empty system of each kind."""
    return LogSystem(tmp_path / "log", fsync=False) if request.param == "log" else MemorySystem()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ten lines of JSON: the numbers 0 to 9 with the names of three people."""
    lines = (f'{{"n":{number},"who":"{["ada", "bob", "eve"][number % 3]}"}}\n' for number in range(10))
    path = tmp_path / "numbers.jsonl"
    path.write_text("".join(lines))
    return path


def values(system: System, stream: str) -> list[list[bytes]]:
    ends = system.admin().ends(stream)
    found: list[list[bytes]] = [[] for _ in ends]
    for batch in read_to_ends(system, stream, [0] * len(ends), ends):
        found[batch.partition] += [value or b"" for _, value, _, _ in batch.records]
    return found


def test_a_new_stream_has_one_partition_and_keeps_the_order(system: System, file: Path) -> None:
    loaded = load(system, "numbers", str(file), ReadOptions(), None)
    assert (loaded.partitions, loaded.records, loaded.malformed) == (1, 10, 0)
    assert values(system, "numbers") == [file.read_bytes().splitlines()]


def test_without_keys_lines_take_turns(system: System, file: Path) -> None:
    load(system, "numbers", str(file), ReadOptions(), 3)
    lines = file.read_bytes().splitlines()
    assert values(system, "numbers") == [lines[0::3], lines[1::3], lines[2::3]]


def test_with_keys_lines_go_where_they_belong(system: System, file: Path) -> None:
    load(system, "numbers", str(file), ReadOptions("json", key_field="who"), 5)
    for partition, lines in enumerate(values(system, "numbers")):
        assert {partition_for(line.split(b'"')[5], 5) for line in lines} <= {partition}


def test_a_stream_that_exists_keeps_its_partitions(system: System, file: Path) -> None:
    system.admin().create("numbers", 2)
    assert load(system, "numbers", str(file), ReadOptions(), None).partitions == 2
    with pytest.raises(SystemProblem, match="has 2 partitions, not 3"):
        load(system, "numbers", str(file), ReadOptions(), 3)


def test_a_file_that_is_wrong_somewhere_leaves_nothing(system: System, file: Path) -> None:
    with file.open("a") as more:
        more.write("{}\n" * 20_000 + "not JSON\n")
    with pytest.raises(UsageError, match=r"numbers.jsonl:20011"):
        load(system, "numbers", str(file), ReadOptions("json"), None)
    assert values(system, "numbers") == [[]]


def test_a_file_that_is_missing_makes_no_stream(system: System) -> None:
    with pytest.raises(UsageError, match="there is no file 'nope'"):
        load(system, "numbers", "nope", ReadOptions(), None)
    assert system.admin().streams() == {}


def test_standard_input_is_seen_as_it_comes(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"1\n" * 20_000 + b"oh\n")))
    monkeypatch.setattr("sys.stdin", lines)
    with pytest.raises(UsageError, match="standard input:20001"):
        load(system, "numbers", "-", ReadOptions("json"), None)
    assert len(values(system, "numbers")[0]) >= 10_000


def test_standard_input_that_waits_has_its_stream_before_its_first_line(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_any: list[dict[str, int]] = []

    class Waiting(io.RawIOBase):
        """Standard input that looks at the system when it is asked for its first line, and then ends."""

        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            before_any.append(system.admin().streams())
            return 0

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Waiting())))
    load(system, "numbers", "-", ReadOptions("json"), 2)
    assert before_any[0] == {"numbers": 2}
