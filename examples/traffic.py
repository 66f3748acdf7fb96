"""Traffic of a web site that does not exist: lines of an access log, the same for the same seed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

VISITORS = 200
PAGES = ("/", "/about", "/cart", "/catalogue", "/catalogue/boots", "/catalogue/hats", "/contact", "/search?q=hats")
GARBLED = "\x16\x03\x01 no request at all"

_BEGIN = datetime(2024, 5, 17, 8, tzinfo=UTC).timestamp()
_DAY = 24 * 60 * 60
_DELAY = 50
"""Seconds by which a line may be late, for it is written when its answer has been sent."""


def lines(requests: int, *, seed: int = 7) -> list[str]:
    """About `requests` lines in the order in which a server would write them; one in 500 is garbled.

    Visitors come several times, look at a few pages, and some of their pauses are close to half an hour.
    """
    random = Random(seed)
    written: list[tuple[float, str]] = []
    while len(written) < requests:
        visitor = f"203.0.113.{random.randrange(VISITORS)}"
        for at in _visit(random):
            line = GARBLED if random.random() < 1 / 500 else _line(random, visitor, at)
            written.append((at + random.uniform(0, _DELAY), line))
    return [line for _, line in sorted(written)]


def _visit(random: Random) -> Iterator[int]:
    """The times of one visit's requests, in seconds since epoch."""
    at = _BEGIN + random.uniform(0, _DAY)
    for _ in range(random.randint(1, 12)):
        yield int(at)
        at += random.choice((0, 5, 40, 300, 30 * 60 - 1, 30 * 60, 30 * 60 + 1))


def _line(random: Random, visitor: str, at: int) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    size = random.choice(("-", str(random.randrange(200, 20_000))))
    return f'{visitor} - - [{when}] "GET {random.choice(PAGES)} HTTP/1.1" 200 {size} "-" "Browser/1.0"'
