"""The remote tables of random pipelines: rows are made of their keys, and what is written is noted."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fluvial.dsl.serde import encode_key
from generators.case_events import Event, refuse
from generators.remote_notes import note

RowOf = Callable[[Any], Event | None]


def some_rows(number: int) -> RowOf:
    """A row for most keys, of whatever type."""

    def row(key: Any) -> Event | None:
        told = _told(key)
        return None if told % (number + 3) == 0 else Event("abc"[told % 3], told % 50 - number, number)

    return row


def rows_fail(number: int) -> RowOf:
    """Raises for some keys, each time that they are asked for."""
    rows = some_rows(number)

    def row(key: Any) -> Event | None:
        found = rows(key)
        refuse(found or Event("", _told(key), 0), number)
        return found

    return row


ROWS = {"some": some_rows}
FAILING_ROWS = {"fails": rows_fail}


def reading(name: str, number: int, waits: bool) -> Callable[[Any], Awaitable[Event | None]]:
    """Reads the rows of that name one by one."""
    row = (ROWS | FAILING_ROWS)[name](number)

    async def read(key: Any) -> Event | None:
        await _pause(key, waits)
        return row(key)

    return read


def reading_many(name: str, number: int, waits: bool) -> Callable[[Sequence[Any]], Awaitable[Mapping[Any, Event]]]:
    """Reads the rows of that name many at once."""
    one_by_one = reading(name, number, waits)

    async def read(keys: Sequence[Any]) -> Mapping[Any, Event]:
        found = {key: await one_by_one(key) for key in keys}
        return {key: row for key, row in found.items() if row is not None}

    return read


def writing(table: str, waits: bool) -> Callable[[Any, Any], Awaitable[None]]:
    """Notes one by one what is written to a table."""

    async def write(key: Any, row: Any) -> None:
        await _pause(key, waits)
        note(table, key, row)

    return write


def writing_many(table: str, waits: bool) -> Callable[[Mapping[Any, Any]], Awaitable[None]]:
    """Notes what is written to a table many at once."""
    one_by_one = writing(table, waits)

    async def write(rows: Mapping[Any, Any]) -> None:
        for key, row in rows.items():
            await one_by_one(key, row)

    return write


def _told(key: Any) -> int:
    """A small number for a key of whatever type."""
    return sum(encode_key(key) or b"")


async def _pause(key: Any, waits: bool) -> None:
    for _ in range(_told(key) % 3 + 1 if waits else 0):
        await asyncio.sleep(0)
