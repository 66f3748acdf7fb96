"""What asynchronous functions give: the oracle's part that waits for them, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from fluvial.dsl import PooledFunction, Resource, Retry
from fluvial.dsl import operators as ops


class Calls:
    """Makes calls, each again as often as its operator says, without its pauses."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._clients: dict[Resource[Any], Any] = {}

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def results(self, operator: ops.AsyncFlatMap, value: Any) -> list[Any]:
        """What the operator makes of a value."""
        fn, retry, resource = operator.call.fn, operator.call.retry, operator.call.resource
        if operator.call.batch is None:
            return list(self._made(fn, value, retry, resource))
        (answer,) = self._made(fn, [value], retry, resource)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def row(self, operator: ops.JoinRemote, key: Any) -> Any:
        """The row that a remote table has for a key, None without key or if there is none."""
        if key is None:
            return None
        table = operator.table
        if table.batch is None:
            return self._made(table.read, key, table.retry, table.resource)
        return self._made(table.read, [key], table.retry, table.resource).get(key)

    def _client(self, resource: Resource[Any]) -> Any:
        """What a resource gives, opened once; here it gives context managers alone."""
        if resource not in self._clients:

            async def entered() -> Any:
                return await self._stack.enter_async_context(resource.factory())

            self._clients[resource] = self._runner.run(entered())
        return self._clients[resource]

    def _made(
        self, fn: Callable[..., Awaitable[Any]], value: Any, retry: Retry | None, resource: Resource[Any] | None
    ) -> Any:
        client = () if resource is None else (self._client(resource),)

        async def call() -> Any:
            return fn.fn(value, *client) if isinstance(fn, PooledFunction) else await fn(value, *client)

        for _ in range(retry.attempts - 1 if retry else 0):
            try:
                return self._runner.run(call())
            except Exception as error:
                if retry is None or not isinstance(error, retry.on):
                    raise
        return self._runner.run(call())
