"""The example of visitor sessions, on the log of a real web site and beside an oracle without any Fluvial in it."""

import gzip
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples import traffic
from fluvial.runtime.cli import main

DATA = Path(__file__).parents[3] / "shared" / "data" / "apache_access.log.gz"
GAP = 30 * 60 * 1000
LINE = re.compile(r'(\S+) \S+ \S+ \[(.+?)\] "(\S+) (.*?)(?: HTTP/[\d.]+)?" \d+ (\d+|-) "[^"]*" "[^"]*"$')

Hit = tuple[str, int, str, int]
Values = Callable[[Path], list[dict[str, Any]]]


def hits(lines: Iterable[str]) -> list[Hit]:
    """Host, ms, page and bytes of the lines that are requests, sorted."""
    found = filter(None, map(LINE.match, lines))
    return sorted(
        (host, millis(time), page, 0 if size == "-" else int(size))
        for host, time, _, page, size in (match.groups() for match in found)
    )


def millis(time: str) -> int:
    return int(datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp()) * 1000


def sessions(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The sessions of each host: its sorted requests, cut where more than the gap lies between two."""
    parts: list[list[Hit]] = []
    for hit in hits(lines):
        goes_on = parts and parts[-1][-1][0] == hit[0] and hit[1] - parts[-1][-1][1] <= GAP
        parts[-1].append(hit) if goes_on else parts.append([hit])
    return [
        {
            "visitor": part[0][0],
            "start": part[0][1],
            "end": part[-1][1],
            "pages": len(part),
            "bytes": sum(hit[3] for hit in part),
            "entry_page": part[0][2],
            "exit_page": part[-1][2],
        }
        for part in parts
    ]


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["visitor"], row["start"]))


def run_on(run: Callable[..., str], lines: list[str], values: Values, folder: Path) -> list[dict[str, Any]]:
    (folder / "access.log").write_text("".join(f"{line}\n" for line in lines))
    files = ("--input", f"access-log={folder}/access.log", "--output", f"sessions={folder}/sessions")
    run("visitor_sessions.py", *files, "--output", f"visitor-sessions-dead-letters={folder}/letters", "--raw")
    return in_order(values(folder / "sessions"))


@pytest.fixture(scope="session")
def real_log() -> list[str]:
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is not beside the repository")
    with gzip.open(DATA, "rt") as file:
        return file.read().splitlines()


def test_sessions_of_a_real_log_are_those_of_the_oracle(
    run: Callable[..., str], values: Values, real_log: list[str], tmp_path: Path
) -> None:
    expected = in_order(sessions(real_log))
    assert len(expected) > 3_000
    assert run_on(run, real_log, values, tmp_path) == expected


def test_sessions_of_made_traffic_are_those_of_the_oracle(
    run: Callable[..., str], values: Values, tmp_path: Path
) -> None:
    lines = traffic.lines(2_000)
    expected = in_order(sessions(lines))
    assert run_on(run, lines, values, tmp_path) == expected
    assert set((tmp_path / "letters").read_text().splitlines()) == {traffic.GARBLED}


def test_malformed_lines_are_dead_letters_with_reason_and_position(
    run: Callable[..., str], capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    lines = ["garbled", *traffic.lines(20, seed=1), ""]
    (tmp_path / "access.log").write_text("".join(f"{line}\n" for line in lines))
    url = f"log:{tmp_path}/log"
    run("visitor_sessions.py", "--system", url, "--input", f"access-log={tmp_path}/access.log")

    main(["consume", "visitor-sessions-dead-letters", "--system", url])

    letters = [msgspec.json.decode(line) for line in capsysbinary.readouterr().out.splitlines()]
    told = {letter["value"]: dict(letter["headers"]) for letter in letters}
    assert set(told) == {"garbled", ""}
    assert [told[line]["fluvial-offset"] for line in ("garbled", "")] == ["0", str(len(lines) - 1)]
    assert all("no line of an access log: expected" in headers["fluvial-error"] for headers in told.values())
