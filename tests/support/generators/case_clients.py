"""The client of random pipelines. A call fails where its client is not open, or belongs to another event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

from fluvial.dsl import Resource, resource


class Client:
    """What calls are given that use a client."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        await asyncio.sleep(0)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.use()
        self._loop = None

    def use(self) -> None:
        """Raises RuntimeError where a client of a service would."""
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("the client is not open in this loop")


def clients() -> Resource[Client]:
    """A resource for the calls of one pipeline."""
    return resource(Client)


def with_client(fn: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A function that uses its last argument, a client, before and after it does what `fn` does. It returns the type
    that `fn` does."""

    async def call(*arguments: Any) -> Any:
        *given, client = arguments
        client.use()
        result = await fn(*given)
        client.use()
        return result

    call.__annotations__ = {"return": fn.__annotations__["return"]}
    return call
