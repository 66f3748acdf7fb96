"""Pipelines slow enough to be killed in the middle of; run as `python slow_pipelines.py NAME DIRECTORY GUARANTEE`."""

import asyncio
import sys
import time
from datetime import timedelta
from typing import Any

from fluvial.dsl import Pane, Pipeline, count, session
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.local import container
from fluvial.runtime.systems import LogSystem

WORDS = 600


def slowly(word: str) -> str:
    time.sleep(0.0005)
    return word


def told(pane: Pane[str, int]) -> str:
    return f"{pane.key} {pane.window.start} {pane.value}"


async def looked_up(word: str) -> list[str]:
    await asyncio.sleep(0.01)
    return [word, word.upper()]


def sessions() -> Pipeline:
    pipeline = Pipeline("sessions")
    keyed = pipeline.stream("words", value=str).map(slowly).partition_by(first, id="by", key_type=str)
    keyed.window(session(timedelta(milliseconds=3)), count(), id="window").map(told).send_to("out", value=str)
    return pipeline


def first(word: str) -> str:
    return word[:1]


def lookups() -> Pipeline:
    pipeline = Pipeline("lookups")
    pipeline.stream("words", value=str).async_flat_map(looked_up, id="look", max_in_flight=20).send_to("out", value=str)
    return pipeline


PIPELINES = {"sessions": sessions, "lookups": lookups}


def start(name: str, directory: str, guarantee: Any, until: Any = "end") -> None:
    container.TRIM_SECONDS = 0.02
    system = LogSystem(directory, fsync=False, segment_bytes=1000)
    settings = Settings(guarantee=guarantee, commit_interval=timedelta(milliseconds=20))
    run(PIPELINES[name](), system=system, settings=settings, until=until)


if __name__ == "__main__":
    print("running", flush=True)
    start(*sys.argv[1:])
