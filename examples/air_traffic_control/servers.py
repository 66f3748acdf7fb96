"""The services themselves, as HTTP servers with latencies and failures of their own. They stand for those of others.

    python -m examples.air_traffic_control.servers --ports 8650

One line tells where they listen, once they do. With `--ports 0` they take free ports.
"""

import argparse
import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from zlib import crc32

import msgspec
from aiohttp import web

from .clients import FIRST_PORT, NAMES
from .messages import Communication, Item


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a service answers: after a latency in ms, and each so-manieth request not at all."""

    latency: float
    fails_each: int


BEHAVIOURS = {
    "invitation": Behaviour(20, 50),
    "message": Behaviour(10, 200),
    "connection": Behaviour(40, 30),
    "post": Behaviour(15, 100),
    "comment": Behaviour(15, 100),
    "delivery": Behaviour(25, 40),
}
STANDS_NO_MORE = 10
"""One item of so many does not stand any more, such as an invitation that was taken back."""


def stands(item: str) -> bool:
    """Whether an item still stands."""
    return crc32(item.encode()) % STANDS_NO_MORE != 0


def item_of(kind: str, item: str, member: str) -> Item:
    """What the service of a kind knows of an item, the same each time."""
    return Item(f"{kind} {item}", crc32(f"{item} {member}".encode()) % 100 / 100)


@dataclass(slots=True)
class Servers:
    """All services of one process, and what they have done."""

    slowness: float = 1.0
    """By how much latencies are longer than usual."""
    effects: dict[str, Communication] = field(default_factory=dict)
    """What members have got, by the key of the request: a second request of one key has no effect."""
    requests: dict[str, int] = field(default_factory=dict)
    _numbers: dict[str, "count[int]"] = field(default_factory=dict)

    async def item(self, request: web.Request) -> web.Response:
        """GET /items/ITEM?member=MEMBER"""
        kind, item = request.app[KIND], request.match_info["item"]
        if not await self._answers(kind):
            return web.Response(status=503, headers={"Retry-After": "0.05"})
        if not stands(item):
            return web.Response(status=404)
        return _json(item_of(kind, item, request.query["member"]))

    async def tell(self, request: web.Request) -> web.Response:
        """POST /communications; some fail behind their effect, so that the caller cannot know of it."""
        communication = msgspec.json.decode(await request.read(), type=Communication)
        self.effects.setdefault(request.headers["Idempotency-Key"], communication)
        return web.Response(status=200 if await self._answers("delivery") else 503)

    async def told(self, _: web.Request) -> web.Response:
        """GET /communications: what members have got."""
        return _json(list(self.effects.values()))

    async def counted(self, _: web.Request) -> web.Response:
        """GET /requests: how many there were, by service."""
        return _json(self.requests)

    async def _answers(self, name: str) -> bool:
        """Wait as long as a service takes; whether it answers this request."""
        behaviour, number = BEHAVIOURS[name], next(self._numbers.setdefault(name, count(1)))
        self.requests[name] = number
        await asyncio.sleep(behaviour.latency / 1000 * self.slowness)
        return number % behaviour.fails_each != 0

    def apps(self) -> dict[str, web.Application]:
        """An application for each service."""
        apps = {}
        for name in NAMES:
            app = apps[name] = web.Application()
            app[KIND] = name
            app.router.add_get("/items/{item}", self.item)
        apps["delivery"].add_routes(
            [
                web.post("/communications", self.tell),
                web.get("/communications", self.told),
                web.get("/requests", self.counted),
            ]
        )
        return apps


KIND = web.AppKey("kind", str)


def _json(document: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")


async def serve(servers: Servers, first_port: int, ready: Callable[[dict[str, str]], None]) -> None:
    """Serve until cancelled; `ready` is told the addresses by name."""
    runners, found = [], {}
    try:
        for place, (name, app) in enumerate(servers.apps().items()):
            runner = web.AppRunner(app, access_log=None)
            runners.append(runner)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", first_port and first_port + place)
            await site.start()
            found[name] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready(found)
        await asyncio.Event().wait()
    finally:
        for runner in runners:
            await runner.cleanup()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="The services around air traffic control.")
    options.add_argument(
        "--ports", type=int, metavar="FIRST", default=FIRST_PORT, help="where to listen; 0: free ports"
    )
    options.add_argument("--slowness", type=float, metavar="FACTOR", default=1.0, help="makes all latencies longer")
    given = options.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(
            serve(Servers(given.slowness), given.ports, lambda at: print(msgspec.json.encode(at).decode(), flush=True))
        )
