"""A pipeline whose calls are paid for, and a program that runs it and notes each call in a file.

Run as `python priced_calls.py SYSTEM GUARANTEE NOTES STATE`: it prints `running` once it has loaded."""

import asyncio
import os
import sys
import time
from datetime import timedelta
from typing import NamedTuple

from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run

IN_FLIGHT = 50
SECONDS = 0.1


class Note(NamedTuple):
    """That a call of an item has begun, or ended, and when, in seconds."""

    ended: bool
    item: str
    at: float


def notes_in(path: str) -> list[Note]:
    """All notes of a file, in their order."""
    with open(path) as file:
        parts = [line.split() for line in file]
    return [Note(what == "end", item, float(at)) for what, item, at in parts]


def priced(notes: str, guarantee: str) -> Pipeline:
    """Each item has one call, whose results are kept. Pipeline and streams are named after the guarantee."""
    file = os.open(notes, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note(what: str, item: str) -> None:
        os.write(file, f"{what} {item} {time.time()}\n".encode())  # one write: lines stay whole

    async def price(item: str) -> list[str]:
        note("begin", item)
        await asyncio.sleep(SECONDS)
        note("end", item)
        return [f"{item}!"]

    pipeline = Pipeline(f"priced-{guarantee}")
    items = pipeline.stream(f"items-{guarantee}", key=str, value=str)
    prices = items.async_flat_map(price, id="price", order="none", max_in_flight=IN_FLIGHT, journal=True)
    prices.send_to(f"prices-{guarantee}", value=str)
    return pipeline


if __name__ == "__main__":
    system, guarantee, notes, state = sys.argv[1:]
    # Commits far apart: without a journal all that was called since would be called again.
    settings = Settings(guarantee=guarantee, commit_interval=timedelta(seconds=10), state_dir=state)  # type: ignore[arg-type]
    pipeline = priced(notes, guarantee)
    print("running", flush=True)
    run(pipeline, system=system, until="end", settings=settings)
