"""What asynchronous functions give: the oracle's part that waits for them, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fluvial.dsl import Retry
from fluvial.dsl import operators as ops


class Calls:
    """Makes calls, each again as often as its operator says, without its pauses."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def results(self, operator: ops.AsyncFlatMap, value: Any) -> list[Any]:
        """What the operator makes of a value."""
        return list(self._made(operator.call.fn, value, operator.call.retry))

    def row(self, operator: ops.JoinRemote, key: Any) -> Any:
        """The row that a remote table has for a key, None without key or if there is none."""
        if key is None:
            return None
        table = operator.table
        if table.batch is None:
            return self._made(table.read, key, table.retry)
        return self._made(table.read, [key], table.retry).get(key)

    def _made(self, fn: Callable[[Any], Awaitable[Any]], value: Any, retry: Retry | None) -> Any:
        async def call() -> Any:
            return await fn(value)

        for _ in range(retry.attempts - 1 if retry else 0):
            try:
                return self._runner.run(call())
            except Exception as error:
                if retry is None or not isinstance(error, retry.on):
                    raise
        return self._runner.run(call())
