"""Calls of a remote table that fail, last too long or are cancelled: none waits for good, and none begins too early."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import cycle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import Adaptive, Batch, Breaker, Cache, Pipeline, Retry
from fluvial.runtime.kernel.calls.circuit import Circuit
from fluvial.runtime.kernel.operators.remote_tables import RemoteTableClient
from fluvial.runtime.testing.virtual_clock import VirtualLoop
from generators.how_many import examples

SECOND = timedelta(seconds=1)
MOST = 2
"""Calls of each function at once."""


class Service:
    """Calls take as many seconds as `script` says, and fail if it says so. It notes what is wrong with their begins."""

    def __init__(self, script: Sequence[tuple[int, bool]], circuit: Circuit | None, *, hedged: bool) -> None:
        self._script, self._circuit, self._hedged = cycle(script), circuit, hedged
        self.running: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.rows: dict[str, list[str | None]] = {}

    async def _call(self, kind: str) -> None:
        seconds, fails = next(self._script)
        tries = self._circuit is not None and self._circuit.open
        kinds = [kind, "try"] if tries else [kind]
        self.running.update(kinds)
        # A second call belongs to the first.
        if self.running[kind] > (1 + self._hedged) * MOST or self.running["try"] > 1 + self._hedged:
            self.wrong.append(f"{self.running}")
        try:
            await asyncio.sleep(seconds)
        finally:
            self.running.subtract(kinds)
        if fails:
            raise OSError("away")

    async def read(self, key: str) -> str | None:
        await self._call("read")
        return key

    async def write(self, key: str, row: str | None) -> None:
        await self._call("write")
        self.rows.setdefault(key, []).append(row)

    async def read_each(self, keys: Sequence[str]) -> Mapping[str, str]:
        await self._call("read")
        return {key: key for key in keys}

    async def write_each(self, rows: Mapping[str, str | None]) -> None:
        await self._call("write")
        for key, row in rows.items():
            self.rows.setdefault(key, []).append(row)


SCRIPTS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=8)
ASKS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.booleans(), st.none() | st.integers(1, 9)), max_size=12
)
"""When a row is asked for, or written, and after how many seconds that is cancelled."""
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "cache": st.just(Cache(ttl=SECOND)),
        "reads_per_second": st.just(2),
        "writes_per_second": st.just(1),
        "batch": st.just(Batch(size=2, delay=SECOND)),
        "hedge": st.just(2 * SECOND),
    },
).filter(lambda options: not {"hedge", "reads_per_second"} <= options.keys())  # which is refused


def to_the_end(work: Any) -> Any:
    """Run on virtual time, as long as anything is to happen."""
    loop = VirtualLoop()

    async def worked() -> Any:
        task = asyncio.ensure_future(work())
        await loop.quiet()
        while loop.jump():
            await loop.quiet()
        assert task.done(), "calls wait for good"
        return task.result()

    try:
        return loop.run_until_complete(worked())
    finally:
        loop.close()


@settings(max_examples=examples(200, least=20), deadline=None)
@given(SCRIPTS, ASKS, OPTIONS, st.booleans())
def test_no_call_waits_for_good_and_none_begins_too_early(
    script: list[tuple[int, bool]], asks: list[tuple[int, str, bool, int | None]], options: dict[str, Any], rests: bool
) -> None:
    breaker = Breaker("service", failures=2, rest=5 * SECOND) if rests else None
    circuit = None if breaker is None else Circuit(breaker)
    service, many = Service(script, circuit, hedged="hedge" in options), "batch" in options
    options |= {"read": service.read_each, "write": service.write_each} if many else {}
    given: dict[str, Any] = {"read": service.read, "write": service.write, **options}
    table = Pipeline("p").remote_table(
        "rows",
        **given,
        breaker=breaker,
        concurrency=Adaptive(),
        max_in_flight=MOST * (2 if many else 1),
        timeout=3 * SECOND,
        retry=Retry(attempts=3, delay=SECOND),
    )
    client, order = RemoteTableClient(table, None, circuit), list[str | None]()

    hedged = client.hedged_reads()

    async def ask(number: int, at: int, key: str, writes: bool, patience: int | None) -> None:
        await asyncio.sleep(at)
        order.append(f"{number}")
        asked = client.write(key, f"{number}") if writes else client.read(key, hedged)
        with suppress(OSError, TimeoutError):  # after the last attempt, or since it was cancelled
            async with asyncio.timeout(patience):
                await asked

    async def work() -> list[None]:
        return await asyncio.gather(*(ask(number, *one) for number, one in enumerate(asks)))

    to_the_end(work)
    assert service.wrong == []
    assert not any(service.running.values())
    if not many:  # a batch is written to its end, whoever was cancelled
        for rows in service.rows.values():
            assert rows == sorted(rows, key=order.index)
    doors = [client.door_of_reads(hedged), client.door_of_writes()]
    assert all(door is not None and door.room > 0 for door in doors)
