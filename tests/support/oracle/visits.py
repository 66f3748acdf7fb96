"""Sessions of an access log in plain Python, with nothing of Fluvial in it."""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[4] / "shared" / "data" / "apache_access.log.gz"
GAP = 30 * 60 * 1000
LINE = re.compile(r'(\S+) \S+ \S+ \[(.+?)\] "(\S+) (.*?)(?: HTTP/[\d.]+)?" \d+ (\d+|-) "[^"]*" "[^"]*"$')

Hit = tuple[str, int, str, int]


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
