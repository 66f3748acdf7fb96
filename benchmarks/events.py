"""The input: clicks in a shop, made from a seed, so that the same numbers give the same messages everywhere."""

from collections.abc import Iterator
from itertools import accumulate
from operator import attrgetter
from random import Random

from msgspec import Struct

from benchmarks.sources import BASE, JITTER, SPAN, Source

USERS = 100_000
PAGES = 1_000
NOBODY = "_nobody"
"""The user, and the page, of markers: they stand behind the events in every partition, for engines whose windows close
by the time of later messages alone. They are no part of what is measured or checked."""

_SEED = 20_261_121
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Macintosh; arm64)", "Mobile Safari/604.1 (iPhone)")


class Event(Struct, frozen=True, gc=False):
    """A click, about 180 bytes of JSON. `at` is ms since epoch, `cents` what was spent with it."""

    seq: int
    user: str
    session: str
    page: str
    at: int
    cents: int
    agent: str
    referrer: str


def events(count: int, seed: int = _SEED) -> Iterator[Event]:
    """Events by time, up to the jitter; few users and pages have many of them, most have few."""
    random = Random(seed)
    users = list(range(USERS))
    random.shuffle(users)
    by_whom = random.choices(users, cum_weights=_zipf(USERS, 1.0), k=count)
    of_what = random.choices(range(PAGES), cum_weights=_zipf(PAGES, 0.8), k=count)
    for seq, (user, page) in enumerate(zip(by_whom, of_what, strict=True)):
        at = BASE + seq * SPAN // count + int(random.random() * JITTER)
        yield Event(
            seq=seq,
            user=f"u{user:06d}",
            session=f"{user * 2_654_435_761 % 2**32:08x}-{seq * 31 % 65_536:04x}",
            page=f"/shop/p{page:04d}",
            at=at,
            cents=int(random.random() * 10_000),
            agent=_AGENTS[seq % len(_AGENTS)],
            referrer=f"https://example.com/q?c={seq % 97}",
        )


def markers() -> list[Event]:
    """Those behind a partition: so late that all windows of events are over, and more than one, for some engines
    close windows only at the next message."""
    end = BASE + SPAN + JITTER + 2 * 3_600_000
    return [_marker(-1 - number, end + number * 120_000) for number in range(3)]


def _marker(seq: int, at: int) -> Event:
    return Event(seq, NOBODY, NOBODY, NOBODY, at, 0, "", "")


def _zipf(count: int, exponent: float) -> list[float]:
    return list(accumulate(1 / (rank + 1) ** exponent for rank in range(count)))


EVENTS = Source("events", events, attrgetter("user"), markers=tuple(markers()))
