"""A run that comes to a place where it would stay, and says `here` there; run as `python stoppable.py PLACE LOG`."""

import asyncio
import ctypes
import hashlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from fluvial.dsl import Message, Pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem

STUCK = "stuck"
"""The message that a function does not return from."""


def here() -> None:
    print("here", flush=True)


def sleep(word: str) -> str:
    if word == STUCK:
        here()
        time.sleep(3600)
    return word


def spin(word: str) -> str:
    if word == STUCK:
        here()
        while True:
            pass
    return word


def compute(word: str) -> str:
    """In a function in C, which knows of no signal."""
    if word == STUCK:
        here()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    return word


def hold(word: str) -> str:
    """In a function in C, which keeps the interpreter for itself: no other thread runs."""
    if word == STUCK:
        libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        here()
        libc.pthread_mutex_lock(mutex)  # nobody unlocks it
    return word


async def wait(word: str) -> list[str]:
    if word == STUCK:
        here()
        await asyncio.Event().wait()
    return [word]


async def insist(word: str) -> list[str]:
    if word == STUCK:
        here()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue
    return [word]


async def hang(word: str) -> list[str]:
    """In a thread, which nobody can end."""
    if word == STUCK:
        here()
        await asyncio.to_thread(time.sleep, 3600)
    return [word]


class Opening:
    """A sink that never opens, or never closes."""

    def __init__(self, stays: str) -> None:
        self._stays = stays

    def open(self) -> None:
        self._stay("open")

    def write(self, messages: Sequence[Message[str]]) -> None:
        del messages

    def flush(self) -> None:
        self._stay("flush")

    def close(self) -> None:
        return

    def _stay(self, where: str) -> None:
        if where == self._stays:
            here()
            time.sleep(3600)


FUNCTIONS: dict[str, Callable[[str], str]] = {"sleep": sleep, "spin": spin, "compute": compute, "hold": hold}
CALLS: dict[str, Callable[[str], Awaitable[Iterable[str]]]] = {"wait": wait, "insist": insist, "hang": hang}
PLACES = (*FUNCTIONS, *CALLS, "open", "flush", "place")


def pipeline_of(place: str) -> Pipeline:
    pipeline = Pipeline("p")
    words = pipeline.stream("in", value=str)
    if place in CALLS:
        words = words.async_flat_map(CALLS[place], id="call", order="none")
    elif place in FUNCTIONS:
        words = words.map(FUNCTIONS[place])
    if place in ("open", "flush"):
        words.sink(Opening(place), id="sink")
    else:
        words.send_to("out", value=str)
    return pipeline


class Waiting(LogSystem):
    """Says so when the coordinator first asks for its turn."""

    asked = False

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        if container == "coordinator" and not self.asked:
            self.asked = True
            here()
        return super().claim(pipeline, container)


if __name__ == "__main__":
    place, log = sys.argv[1:]
    run(
        pipeline_of(place),
        system=Waiting(log, fsync=False) if place == "place" else LogSystem(log, fsync=False),
        settings=Settings(commit_interval=timedelta(milliseconds=1)),
        container_id=0,
        containers=2 if place == "place" else 1,
    )
