"""Pipelines that show what one operator does to a message."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fluvial.dsl import MessageStream, Pipeline, skip
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)
HEADERS = (("trace", b"7"),)

Build = Callable[[MessageStream[Any]], MessageStream[Any]]


def itself(value: Any) -> Any:
    return value


async def at_once(value: Any) -> list[Any]:
    return [value]


async def sleepy(seconds: int) -> list[int]:
    await asyncio.sleep(seconds)
    return [seconds]


def one_way(build: Build, *, value: Any = str, key: Any = str) -> Pipeline:
    pipeline = Pipeline("p", on_error=skip())
    source: MessageStream[Any] = pipeline.stream("in", value=value, key=key)
    build(source).send_to("out", value=value)
    return pipeline


def shown(driver: PipelineDriver, stream: str = "out") -> list[Any]:
    return [message.value for message in driver.read(stream)]
