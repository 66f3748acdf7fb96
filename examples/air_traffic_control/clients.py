"""The services that are asked, and the one that tells members."""

import os
from datetime import timedelta
from typing import get_args

import aiohttp
import msgspec

from fluvial.dsl import Retry, resource

from .messages import Candidate, Communication, Event, Item, Kind

FIRST_PORT = 8650
NAMES = (*get_args(Kind), "delivery")
"""Each kind has a service of its own; the last one tells members."""


class Refused(Exception):
    """A service that has too much to do; it may say for how long it is to be left alone."""

    def __init__(self, url: str, answer: aiohttp.ClientResponse) -> None:
        super().__init__(f"{url} answers {answer.status}")
        self.wait = answer.headers.get("Retry-After")


PATIENT = Retry(
    attempts=8,
    delay=timedelta(milliseconds=20),
    jitter=0.2,
    after=lambda error: error.wait if isinstance(error, Refused) else None,
)


def addresses() -> dict[str, str]:
    """Where the services are: what they print when they start, given as ATC_SERVICES, or ports of this machine."""
    given = os.environ.get("ATC_SERVICES")
    if given is not None:
        return msgspec.json.decode(given, type=dict[str, str])
    return {name: f"http://127.0.0.1:{FIRST_PORT + place}" for place, name in enumerate(NAMES)}


class Services:
    """A client of all services; it keeps connections open."""

    async def open(self) -> None:
        """Find the services."""
        self._at = addresses()
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def item(self, event: Event) -> Item | None:
        """What the service of its kind knows of an event; None if it does not stand any more. Raises Refused."""
        url = f"{self._at[event.kind]}/items/{event.item}"
        async with self._session.get(url, params={"member": event.member}) as answer:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise Refused(url, answer)
            return msgspec.json.decode(await answer.read(), type=Item)

    async def tell(self, communication: Communication) -> None:
        """Tell a member, once for each id, however often this is called. Raises Refused."""
        url = f"{self._at['delivery']}/communications"
        headers = {"Idempotency-Key": communication.id}
        async with self._session.post(url, data=msgspec.json.encode(communication), headers=headers) as answer:
            if answer.status != 200:
                raise Refused(url, answer)


@resource
def services() -> Services:
    """Each process makes its own client."""
    return Services()


async def ask(event: Event, client: Services) -> list[Candidate]:
    """An event with what its service knows, if it still stands."""
    item = await client.item(event)
    return [] if item is None else [Candidate(event, item)]


async def tell(communication: Communication, client: Services) -> list[Communication]:
    """A communication that its member has got."""
    await client.tell(communication)
    return [communication]
