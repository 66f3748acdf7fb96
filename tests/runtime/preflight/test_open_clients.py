"""Clients that are made with a pipeline are found where its functions refer to them, and nothing else is."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Self
from unittest.mock import AsyncMock

import pytest

from fluvial.dsl import KeyedProcessor, Message, Pipeline, StreamTask, resource
from fluvial.runtime.preflight.open_clients import open_clients


class Session:
    """An open client, as aiohttp has them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def get(self, item: str) -> list[str]:
        return [item]


class Redis:
    """A client that is closed alone."""

    async def aclose(self) -> None:
        pass

    async def get(self, item: str) -> list[str]:
        return [item]


class Opened(Session):
    """An object that a process opens."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


session, redis, opened = Session(), Redis(), Opened()
lock, mock = asyncio.Lock(), AsyncMock()
sessions = resource(Session)


async def by_name(item: str) -> list[str]:
    return await session.get(item)


async def nested(item: str) -> list[str]:
    async def inner() -> list[str]:
        return await redis.get(item)

    return await inner()


async def by_another(item: str) -> list[str]:
    return await by_name(item)


async def again(item: str) -> list[str]:
    return await again(item) if item else await by_another(item)


async def by_default(item: str, client: Session = session) -> list[str]:
    return await client.get(item)


async def by_word(item: str, *, client: Session = session) -> list[str]:
    return await client.get(item)


async def with_client(client: Session, item: str) -> list[str]:
    return await client.get(item)


def item_is_known() -> bool:
    return False


def in_closure() -> Callable[[str], Any]:
    kept = Session()

    async def ask(item: str) -> list[str]:
        with suppress(NameError):
            return await later.get(item)
        return await kept.get(item)

    if item_is_known():
        later = Session()
    return ask


def decorated() -> Callable[[str], Any]:
    @wraps(by_name)
    async def ask(item: str) -> list[str]:
        del item
        return []

    return ask


class Holder:
    """An object of the user's that holds a client."""

    def __init__(self) -> None:
        self.client = Session()

    async def ask(self, item: str) -> list[str]:
        return await self.client.get(item)

    async def __call__(self, item: str) -> list[str]:
        return await redis.get(item)


async def safe(item: str) -> list[str]:
    async with lock:
        await asyncio.sleep(0)
    return [f"{item} {sessions} {Session} {mock} {asyncio}"]


def told(fn: Any, **options: Any) -> list[tuple[str, str, str]]:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(fn, id="call", **options).send_to("out")
    return [(found.function, found.name, found.kind) for found in open_clients(pipeline)]


@pytest.mark.parametrize(
    ("fn", "found"),
    [
        (by_name, [("by_name", "session", "Session")]),
        (nested, [("nested", "redis", "Redis")]),
        (by_another, [("by_another", "session", "Session")]),
        (again, [("again", "session", "Session")]),
        (by_default, [("by_default", "client", "Session")]),
        (by_word, [("by_word", "client", "Session")]),
        (in_closure(), [("ask", "kept", "Session")]),
        (decorated(), [("by_name", "session", "Session")]),
        (partial(with_client, session), [("with_client", "argument 1", "Session")]),
        (partial(by_word, client=session), [("by_word", "client", "Session")]),
        (session.get, [("get", "Session", "Session")]),
        (Holder().ask, [("ask", "Holder.client", "Session")]),
        (Holder(), [("__call__", "Holder.client", "Session"), ("__call__", "redis", "Redis")]),
        (opened.get, []),
        (safe, []),
        (AsyncMock(), []),
    ],
)
def test_a_client_that_a_function_refers_to_is_found(fn: Any, found: list[tuple[str, str, str]]) -> None:
    assert [(function.rpartition(".")[2], *rest) for function, *rest in told(fn)] == found


def test_a_client_by_a_resource_is_none_of_these() -> None:
    async def ask(item: str, client: Session) -> list[str]:
        return await client.get(item)

    assert told(ask, resource=sessions) == []


def test_a_factory_that_gives_an_open_client_is_looked_into() -> None:
    async def ask(item: str, client: Session) -> list[str]:
        return await client.get(item)

    assert [found[1:] for found in told(ask, resource=resource(lambda: session))] == [("session", "Session")]


class Archive:
    """A sink with a client of its own."""

    def __init__(self) -> None:
        self.client = Session()

    async def open(self) -> None:
        pass

    def write(self, messages: Sequence[Message[str]]) -> None:
        pass

    def flush(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Asking(KeyedProcessor[str, str, str]):
    """A processor that uses one that is global."""

    def on_message(self, message: Message[str], context: Any) -> Iterable[str]:  # noqa: ARG002
        return [f"{session} {message.value}"]


class Calling(StreamTask[str, str, str]):
    """A stream task that uses one that is global."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:  # noqa: ARG002
        collector.send(f"{session}")


def test_sinks_processors_and_remote_tables_are_looked_into() -> None:
    async def row(key: str) -> str | None:
        return (await session.get(key))[0]

    pipeline = Pipeline("p")
    words = pipeline.stream("in", key=str, value=str)
    words.sink(Archive(), id="archive")
    words.process(Asking(), id="asking").send_to("out")
    pipeline.task(Calling, words, id="calling").send_to("out")
    words.join(pipeline.remote_table("rows", read=row), lambda word, _: word, id="joined").send_to("out")
    assert [str(found) for found in open_clients(pipeline)] == [
        "sink archive: write uses Archive.client, an object of Session that is made with the pipeline",
        "process asking: on_message uses session, an object of Session that is made with the pipeline",
        "task calling: process uses session, an object of Session that is made with the pipeline",
        "join joined: row uses session, an object of Session that is made with the pipeline",
    ]


def test_an_attribute_with_the_name_of_a_client_is_another_thing() -> None:
    async def of_attribute(item: str, holder: Any) -> list[str]:
        found: list[str] = await holder.session.get(item)
        return found

    assert told(of_attribute, resource=sessions) == []
